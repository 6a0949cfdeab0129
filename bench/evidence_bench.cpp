// Measures the evidence log at size, against the goals of its design: appends in batches, interleaved with a
// raw SQLite database that gets the same bytes, reads, full verification and the start of the log of a
// daemon.
// Usage: evidence_bench FOLDER [entries] [batches]. Builds FOLDER/log with so many entries when it does not
// exist (10,000,000 take some minutes and about 10 GB), keeps it, and prints one JSON object. A daemon can
// start on it: bench/ready.py measures how soon it is ready.

#include <fmt/core.h>
#include <sqlite3.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/entry_check.hpp"
#include "daemon/store/store.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace {

using namespace driftgate;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 64;          ///< entries in one transaction
constexpr std::int64_t kBuildBatch = 4'096;  ///< while the log is built
constexpr std::int64_t kPerPromotion = 200;  ///< entries of one promotion
constexpr std::int64_t kModels = 20;
constexpr std::int64_t kClauses = 30;
constexpr std::int64_t kFirstTime_us = 1'760'000'000'000'000;
constexpr int kReads = 200;  ///< repetitions of each read

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// CPU time of the process so far in µs, which other load on the machine affects little.
double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

template <typename T>
T must(schema::Result<T> result) {
  if (!result) {
    fmt::print(stderr, "evidence_bench: {}\n", result.error().describe());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Median and 99th percentile, µs.
struct Times {
  std::vector<double> us;
  [[nodiscard]] double at(double share) {
    std::ranges::sort(us);
    return us[std::min(us.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us.size())))];
  }
  [[nodiscard]] double sum() const {
    double total = 0;
    for (const double one : us) total += one;
    return total;
  }
  [[nodiscard]] std::string json() {
    return fmt::format(R"({{"p50_us":{:.1f},"p99_us":{:.1f}}})", at(0.5), at(0.99));
  }
};

std::string digest_of(std::string_view kind, std::int64_t number) {
  return schema::sha256_digest(fmt::format("{} {}", kind, number));
}

/// Approximately what a promotion writes: mostly verdicts with their numbers, some states and routes.
schema::EntryDraft draft(std::int64_t i) {
  const std::int64_t promotion = i / kPerPromotion;
  const std::int64_t model = promotion % kModels;
  static std::int64_t last = -1;
  static std::string checkpoint, contract;
  if (last != promotion) {
    checkpoint = digest_of("checkpoint", promotion);
    contract = digest_of("contract", model);
    last = promotion;
  }
  schema::EntryDraft entry;
  entry.time_us = kFirstTime_us + i * 1'000;
  entry.actor = i % 50 == 0 ? fmt::format("person-{}", model) : "driftgate";
  entry.subject = {.model = fmt::format("model-{}", model),
                   .promotion = fmt::format("pr-{:026}", promotion),
                   .stage = i % kPerPromotion < 100 ? "offline-numeric" : "canary",
                   .attempt = 1,
                   .checkpoint = checkpoint,
                   .contract = contract};
  if (i % 4 == 0) {
    entry.kind = schema::EvidenceKind::state_changed;
    const bool ends = i % kPerPromotion == kPerPromotion - 4;
    entry.body = {{"from", "running"},
                  {"to", ends ? "succeeded" : "running"},
                  {"reason", ends ? "the bake is over" : "the next step of the ramp"}};
    return entry;
  }
  entry.kind = schema::EvidenceKind::verdict_reached;
  entry.body = {{"clause", fmt::format("numerical.clause-{}", i % kClauses)},
                {"verdict", i % 997 == 0 ? "violated" : "pass"},
                {"limit", schema::EntryValue::measured(0.05)},
                {"estimate", schema::EntryValue::measured(0.01 + 1e-9 * static_cast<double>(i % 100'000))},
                {"upper", schema::EntryValue::measured(0.02 + 1e-9 * static_cast<double>(i % 100'000))},
                {"n", 100'000 + i % 1'000},
                {"inputs_digest", checkpoint}};
  return entry;
}

std::unique_ptr<store::Store> open(const fs::path& folder) {
  auto store = must(store::Store::open({.data_dir = folder, .opened_us = kFirstTime_us}));
  must(evidence::index_log(*store));
  return store;
}

void append_range(store::Store& store, std::int64_t from, std::int64_t to) {
  must(store.write("bench", [&](store::Tx& tx) -> schema::Result<void> {
    for (std::int64_t i = from; i < to; ++i) {
      auto done = evidence::append(tx, draft(i));
      if (!done) return std::unexpected(done.error());
    }
    return {};
  }));
}

/// Each draft in the transaction of all.
void append_all(store::Store& store, const std::vector<schema::EntryDraft>& drafts) {
  must(store.write("bench", [&](store::Tx& tx) -> schema::Result<void> {
    for (const schema::EntryDraft& entry : drafts) {
      auto done = evidence::append(tx, entry);
      if (!done) return std::unexpected(done.error());
    }
    return {};
  }));
}

/// Group commit of the same bytes and nothing else: one table, one row for each entry, no hash, no index.
class RawProbe {
 public:
  explicit RawProbe(const fs::path& file) {
    fs::remove(file);
    fs::remove(file.string() + "-wal");
    sqlite3_open(file.c_str(), &handle_);
    run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;"
        "CREATE TABLE raw(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT");
    sqlite3_prepare_v2(handle_, "INSERT INTO raw(seq, bytes) VALUES(?1, ?2)", -1, &insert_, nullptr);
  }
  ~RawProbe() {
    sqlite3_finalize(insert_);
    sqlite3_close(handle_);
  }
  RawProbe(const RawProbe&) = delete;
  RawProbe& operator=(const RawProbe&) = delete;

  void append(const std::vector<std::string>& batch) {
    run("BEGIN IMMEDIATE");
    for (const std::string& bytes : batch) {
      sqlite3_bind_int64(insert_, 1, next_++);
      sqlite3_bind_blob64(insert_, 2, bytes.data(), bytes.size(), SQLITE_STATIC);
      if (sqlite3_step(insert_) != SQLITE_DONE) std::abort();
      sqlite3_reset(insert_);
      written_ += bytes.size();
    }
    run("COMMIT");
  }
  /// As the store does: its WAL is written back after each 4 MB.
  void checkpoint_if_due() {
    if (written_ < store::kPassiveCheckpointBytes) return;
    written_ = 0;
    sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

 private:
  void run(const char* sql) {
    if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) std::abort();
  }
  sqlite3* handle_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  std::int64_t next_ = 0;
  std::uint64_t written_ = 0;
};

std::string measure_append(store::Store& store, const fs::path& folder, std::int64_t first, int batches) {
  RawProbe raw(folder / "raw.db");
  Times ours, theirs;
  std::uint64_t bytes = 0;
  double our_cpu = 0, their_cpu = 0;
  for (int i = 0; i < batches; ++i) {
    const std::int64_t from = first + i * kBatch;
    std::vector<std::string> batch;
    std::vector<schema::EntryDraft> drafts;
    for (std::int64_t seq = from; seq < from + kBatch; ++seq) {
      drafts.push_back(draft(seq));
      batch.push_back(must(schema::encode_entry(seq, drafts.back())));
      bytes += batch.back().size();
    }
    const auto append_ours = [&] {
      const auto start = Clock::now();
      const double cpu = cpu_us();
      append_all(store, drafts);
      ours.us.push_back(us_since(start));
      our_cpu += cpu_us() - cpu;
    };
    const auto append_theirs = [&] {
      const auto start = Clock::now();
      const double cpu = cpu_us();
      raw.append(batch);
      raw.checkpoint_if_due();  // in the time of both: the store's comes before its next batch
      theirs.us.push_back(us_since(start));
      their_cpu += cpu_us() - cpu;
    };
    // A sync right behind another one is short, above all while others write to the disk: each is second in turn.
    if (i % 2 == 0) append_ours();
    append_theirs();
    if (i % 2 != 0) append_ours();
  }
  const double entries = static_cast<double>(batches) * kBatch;
  return fmt::format(
      R"({{"batch":{},"batches":{},"bytes_per_entry":{:.0f},"entries_per_s":{:.0f},"raw_entries_per_s":{:.0f},)"
      R"("share_of_raw":{:.3f},"share_of_raw_by_cpu":{:.3f},"batch_times":{},"raw_batch_times":{},"p99_over_raw_us":{:.1f},)"
      R"("cpu_us_per_entry":{:.2f},"raw_cpu_us_per_entry":{:.2f}}})",
      kBatch, batches, static_cast<double>(bytes) / entries, 1e6 * entries / ours.sum(),
      1e6 * entries / theirs.sum(), theirs.sum() / ours.sum(), their_cpu / our_cpu, ours.json(),
      theirs.json(), ours.at(0.99) - theirs.at(0.99), our_cpu / entries, their_cpu / entries);
}

/// What an append does that raw group commit does not, apart from its index: CPU time for each entry of a
/// batch.
std::string measure_parts(std::int64_t first, int batches) {
  const auto key = must(evidence::SigningKey::generate());
  double encoding = 0, hashing = 0, signing = 0;
  for (int i = 0; i < batches; ++i) {
    std::vector<schema::EntryDraft> drafts;
    std::vector<std::string> entries;
    for (std::int64_t seq = first; seq < first + kBatch; ++seq) drafts.push_back(draft(seq));
    double cpu = cpu_us();
    for (const auto& entry : drafts) entries.push_back(must(schema::encode_entry(first, entry)));
    encoding += cpu_us() - cpu;
    cpu = cpu_us();
    evidence::Hash root{};
    for (const auto& entry : entries) root = evidence::node_hash(root, evidence::leaf_hash(entry));
    hashing += cpu_us() - cpu;
    cpu = cpu_us();
    must(evidence::sign_checkpoint({"driftgate.local/log", 1, root}, key));
    signing += cpu_us() - cpu;
  }
  const double all = static_cast<double>(batches) * kBatch;
  return fmt::format(R"({{"encode_cpu_us":{:.3f},"hash_cpu_us":{:.3f},"sign_cpu_us":{:.3f}}})",
                     encoding / all, hashing / all, signing / all);
}

template <typename F>
std::string timed(F&& read) {
  Times times;
  read(0);  // warm
  for (int i = 0; i < kReads; ++i) {
    const auto start = Clock::now();
    read(i);
    times.us.push_back(us_since(start));
  }
  return times.json();
}

std::string measure_page(store::Store& store, const std::function<evidence::EntryFilter(int)>& filter) {
  std::size_t found = 0;
  const std::string times = timed([&](int i) {
    const evidence::EntryFilter wanted = filter(i);
    found = must(store.read([&](store::Reader& reader) {
              return evidence::query_entries(reader, wanted);
            })).entries.size();
  });
  return fmt::format(R"({{"found":{},"times":{}}})", found, times);
}

std::string measure_reads(store::Store& store, std::int64_t size) {
  const auto spread = [size](int i) { return (i * 7'919'777LL) % size; };
  const std::string point = timed([&](int i) {
    must(store.read([&](store::Reader& reader) { return evidence::find_entry(reader, spread(i)); }));
  });
  const std::string proof = timed([&](int i) {
    must(store.read([&](store::Reader& reader) {
      return evidence::inclusion_proof(reader, static_cast<std::uint64_t>(spread(i)),
                                       static_cast<std::uint64_t>(size));
    }));
  });
  using Filter = evidence::EntryFilter;
  const auto newest = [](Filter filter) {
    filter.newest_first = true;
    return filter;
  };
  const auto named = [&](std::string_view name, const std::function<Filter(int)>& filter) {
    return fmt::format(R"("{}":{})", name, measure_page(store, filter));
  };
  const auto promotion = [&](int i) { return fmt::format("pr-{:026}", spread(i) / kPerPromotion); };
  std::string out = fmt::format(R"({{"point":{},"inclusion_proof":{},)", point, proof);
  out += named("page_1000", [&](int i) { return Filter{.cursor = spread(i), .limit = 1'000}; }) + ",";
  out += named("promotion_newest_100", [&](int i) { return newest({.promotion = promotion(i)}); }) + ",";
  out += named("model_newest_100",
               [&](int i) { return newest({.model = fmt::format("model-{}", i % kModels)}); }) +
         ",";
  out += named("contract_newest_100",
               [&](int i) { return newest({.contract = digest_of("contract", i % kModels)}); }) +
         ",";
  out += named("checkpoint_newest_100",
               [&](int i) {
                 return newest({.checkpoint = digest_of("checkpoint", spread(i) / kPerPromotion)});
               }) +
         ",";
  out += named("clause_newest_100",
               [&](int i) { return newest({.clause = fmt::format("numerical.clause-{}", i % kClauses)}); }) +
         ",";
  out += named("actor_newest_100",
               [&](int i) { return newest({.actor = fmt::format("person-{}", i % kModels)}); }) +
         ",";
  out += named("violated_newest_100", [&](int) { return newest({.verdict = "violated"}); }) + ",";
  out += named("violated_of_model_newest_100",
               [&](int i) {
                 return newest({.model = fmt::format("model-{}", i % kModels), .verdict = "violated"});
               }) +
         ",";
  out += named("hour_of_canary_100", [&](int i) {
    const std::int64_t from = kFirstTime_us + spread(i) * 1'000;
    return Filter{.stage = "canary", .from_us = from, .to_us = from + 3'600'000'000};
  });
  return out + "}";
}

std::string measure_verify(store::Store& store) {
  const auto start = Clock::now();
  const double cpu = cpu_us();
  const auto entries = must(evidence::verify_log(store));
  const double seconds = us_since(start) / 1e6;
  return fmt::format(R"({{"entries":{},"seconds":{:.2f},"entries_per_s":{:.0f},"cpu_us_per_entry":{:.2f}}})",
                     entries, seconds, static_cast<double>(entries) / seconds,
                     (cpu_us() - cpu) / static_cast<double>(entries));
}

/// Verifies the entries as a running daemon and `audit verify --data-dir` do, but without pauses between the
/// reads.
std::string measure_check(store::Store& store, evidence::HeadPublisher& heads) {
  const auto head = must(evidence::read_checkpoint(must(heads.signed_head()))).checkpoint;
  evidence::EntryCheck check(head.size, head.root);
  std::vector<evidence::Difference> found;
  Times steps;
  const double cpu = cpu_us();
  for (bool more = true; more;) {
    const auto start = Clock::now();
    more = must(store.read([&](store::Reader& reader) { return check.step(reader, found); }));
    steps.us.push_back(us_since(start));
  }
  return fmt::format(
      R"({{"entries":{},"differences":{},"seconds":{:.2f},"entries_per_s":{:.0f},"cpu_us_per_entry":{:.2f},)"
      R"("longest_read_ms":{:.1f}}})",
      head.size, found.size(), steps.sum() / 1e6, 1e6 * static_cast<double>(head.size) / steps.sum(),
      (cpu_us() - cpu) / static_cast<double>(head.size), steps.at(1.0) / 1e3);
}

/// Opens the store and checks the log against the published head, as the daemon does before it serves.
std::string measure_start(const fs::path& folder) {
  const auto start = Clock::now();
  auto store = open(folder);
  const double opened = us_since(start) / 1e3;
  auto heads = must(evidence::HeadPublisher::start(*store, {}));
  return fmt::format(R"({{"store_ms":{:.1f},"ready_ms":{:.1f}}})", opened, us_since(start) / 1e3);
}

std::int64_t build(const fs::path& folder, std::int64_t entries) {
  auto store = open(folder);
  auto size = static_cast<std::int64_t>(
      must(store->read([](store::Reader& reader) { return evidence::tree_size(reader); })));
  auto heads = must(evidence::HeadPublisher::start(*store, {}));
  const auto start = Clock::now();
  const std::int64_t first = size;
  while (size < entries) {
    const std::int64_t to = std::min(entries, size + kBuildBatch);
    append_range(*store, size, to);
    if (to / 1'000'000 != size / 1'000'000)
      fmt::print(stderr, "{} entries, {:.0f}/s\n", to,
                 1e6 * static_cast<double>(to - first) / us_since(start));
    size = to;
  }
  heads->stop();
  return size;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: evidence_bench FOLDER [entries] [batches]\n");
    return 64;
  }
  const fs::path folder = fs::path(argv[1]) / "log";
  const std::int64_t entries = argc > 2 ? std::atoll(argv[2]) : 10'000'000;
  const int batches = argc > 3 ? std::atoi(argv[3]) : 2'000;
  fs::create_directories(argv[1]);
  std::int64_t size = build(folder, entries);
  const std::string start = measure_start(folder);
  auto store = open(folder);
  auto heads = must(evidence::HeadPublisher::start(*store, {}));
  const std::string reads = measure_reads(*store, size);
  const std::string verify = measure_verify(*store);
  const std::string check = measure_check(*store, *heads);
  const std::string append = measure_append(*store, argv[1], size, batches);
  const std::string parts = measure_parts(size, 300);
  const auto bytes = fs::file_size(folder / "driftgate.db");
  fmt::print(
      R"({{"entries":{},"bytes":{},"start":{},"reads":{},"verify":{},"check":{},"append":{},"parts":{}}})"
      "\n",
      size, bytes, start, reads, verify, check, append, parts);
  return 0;
}
