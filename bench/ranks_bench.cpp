// Rows per second of a vocabulary that is split over ranks in threads, compared with one engine with one
// thread, in interleaved rounds. Ideal is a speed-up by the number of ranks; `share_of_ideal` is the share of
// it that is reached, with the table included on both sides. `vocab_share_of_one_split` compares with a
// single rank that runs the two passes separately too: what is missing there is the cost of exchange and
// merge. Usage: ranks_bench [vocabulary] [rows] [ranks] [rounds]. Prints one JSON object.

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "gpu/capture/safetensors.hpp"
#include "gpu/ranks/ranked_drift.hpp"

namespace {

using namespace driftgate;
using Clock = std::chrono::steady_clock;

constexpr double kDrift = 0.01;
constexpr std::uint32_t kSeed = 1;
constexpr std::uint64_t kDistinctRows =
    64;  ///< rows are repeated, because generating random numbers takes longer than measuring
constexpr std::uint64_t kSequenceRows = 64;

struct Failed {};

template <typename T>
T need(schema::Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "ranks_bench: {}\n", result.error().describe());
  throw Failed{};
}

void need(schema::Result<void> result) {
  if (result) return;
  fmt::print(stderr, "ranks_bench: {}\n", result.error().describe());
  throw Failed{};
}

/// A capture of `rows` rows on disk; `drift` is added to the same logits.
gpu::Capture make_capture(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t vocabulary,
                          double drift) {
  std::mt19937 logits(kSeed), noise(kSeed + 1);
  std::normal_distribution<float> normal;
  std::vector<float> distinct;
  for (std::uint64_t i = 0; i < kDistinctRows * vocabulary; ++i) {
    const float z = 3 * normal(logits);
    distinct.push_back(z + static_cast<float>(drift) * normal(noise));
  }
  std::vector<std::int32_t> tokens, sequences;
  for (std::uint64_t row = 0; row < rows; ++row) {
    tokens.push_back(static_cast<std::int32_t>(row * 31 % vocabulary));
    sequences.push_back(static_cast<std::int32_t>(row / kSequenceRows));
  }
  auto writer = need(gpu::SafetensorsWriter::create(path,
                                                    {{"logits", gpu::DType::f32, {rows, vocabulary}},
                                                     {"token_ids", gpu::DType::i32, {rows}},
                                                     {"sequence_ids", gpu::DType::i32, {rows}}},
                                                    {{"capture.version", "1"}, {"temperature", "1.0"}}));
  const std::uint64_t row_bytes = vocabulary * sizeof(float);
  for (std::uint64_t row = 0; row < rows; row += kDistinctRows) {
    const std::uint64_t count = std::min(kDistinctRows, rows - row);
    need(writer.write(0, row * row_bytes, std::as_bytes(std::span(distinct)).first(count * row_bytes)));
  }
  need(writer.write(1, 0, std::as_bytes(std::span(tokens))));
  need(writer.write(2, 0, std::as_bytes(std::span(sequences))));
  need(writer.finish());
  return need(gpu::Capture::open(path));
}

std::string spread(std::vector<double> values) {
  std::ranges::sort(values);
  return fmt::format(R"({{"median": {:.4g}, "min": {:.4g}, "max": {:.4g}}})", values[values.size() / 2],
                     values.front(), values.back());
}

/// Rows per second of time, and per second of all threads' processor time.
struct Speed {
  double rows_per_s = 0, rows_per_cpu_s = 0;
};

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <typename Work>
Speed speed_of(std::uint64_t rows, Work work) {
  const auto start = Clock::now();
  const double before = processor_seconds();
  work();
  const double cpu = processor_seconds() - before;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {static_cast<double>(rows) / seconds, static_cast<double>(rows) / cpu};
}

void run(std::uint64_t vocabulary, std::uint64_t rows, std::uint32_t ranks, int rounds,
         const std::filesystem::path& folder) {
  const gpu::Capture train = make_capture(folder / "train", rows, vocabulary, 0);
  const gpu::Capture inf = make_capture(folder / "inf", rows, vocabulary, kDrift);
  gpu::MeasureOptions options;
  gpu::RankOptions how;
  std::vector<double> single, by_columns, ideal, of_split, cpu_share, rows_ideal, rows_cpu_share;
  const auto split = [&](gpu::Shard shard, std::uint32_t used) {
    how.shard = shard;
    options.threads = used;
    return speed_of(rows, [&] {
      const std::vector<std::string> devices(used, "cpu");
      (void)need(gpu::measure_in_threads(train, inf, nullptr, options, how, devices).table);
    });
  };
  for (int round = 0; round <= rounds; ++round) {
    options.threads = 1;
    const Speed one = speed_of(rows, [&] { (void)need(gpu::measure(train, inf, nullptr, options)); });
    const Speed one_split = split(gpu::Shard::vocab, 1);
    const Speed columns = split(gpu::Shard::vocab, ranks);
    const Speed whole = split(gpu::Shard::rows, ranks);
    if (round == 0) continue;  // the first brings the files into memory
    single.push_back(one.rows_per_s);
    by_columns.push_back(columns.rows_per_s);
    ideal.push_back(columns.rows_per_s / (one.rows_per_s * ranks));
    of_split.push_back(columns.rows_per_s / (one_split.rows_per_s * ranks));
    cpu_share.push_back(columns.rows_per_cpu_s / one.rows_per_cpu_s);
    rows_ideal.push_back(whole.rows_per_s / (one.rows_per_s * ranks));
    rows_cpu_share.push_back(whole.rows_per_cpu_s / one.rows_per_cpu_s);
  }
  fmt::print(R"({{"vocabulary": {}, "rows": {}, "ranks": {}, "rounds": {},)"
             "\n \"one_engine_rows_per_s\": {},\n \"vocab_rows_per_s\": {},\n \"vocab_share_of_ideal\": {},"
             "\n \"vocab_share_of_one_split\": {},\n \"vocab_share_by_cpu_time\": {},"
             "\n \"rows_share_of_ideal\": {},\n \"rows_share_by_cpu_time\": {}}}\n",
             vocabulary, rows, ranks, rounds, spread(single), spread(by_columns), spread(ideal),
             spread(of_split), spread(cpu_share), spread(rows_ideal), spread(rows_cpu_share));
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, const char* fallback) {
    return std::stoull(argc > at ? argv[at] : fallback);
  };
  std::string pattern = (std::filesystem::temp_directory_path() / "driftgate-ranks-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return 1;
  int status = 0;
  try {
    run(number(1, "32768"), number(2, "8192"), static_cast<std::uint32_t>(number(3, "2")),
        static_cast<int>(number(4, "7")), pattern);
  } catch (const Failed&) {
    status = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  return status;
}
