#include "tests/fault/image.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>

#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/backup.hpp"
#include "daemon/store/blobs.hpp"
#include "tests/daemon/store/rows.hpp"

namespace driftgate::fault {
namespace fs = std::filesystem;
using store::testing::must;
using store::testing::open_store;

namespace {

constexpr int kModels = 3, kPromotions = 7;
constexpr std::array kVerdicts = {"pass", "violated", "inconclusive"};

schema::EntryDraft draft(int i) {
  const bool verdict = i % 4 == 1;
  schema::EntryDraft entry;
  entry.time_us = 1'800'000'000'000'000 + i;
  entry.kind = verdict ? schema::EvidenceKind::verdict_reached : schema::EvidenceKind::state_changed;
  entry.actor = i % 5 == 0 ? "pia" : "driftgate";
  entry.subject.model = fmt::format("model-{}", i % kModels);
  entry.subject.promotion = fmt::format("pr-{}", i % kPromotions);
  entry.subject.stage = "canary";
  if (verdict) entry.body["clause"] = fmt::format("runtime.c{}", i % 3);
  if (verdict) entry.body["verdict"] = kVerdicts[static_cast<std::size_t>(i) % kVerdicts.size()];
  entry.body["text"] = std::string(static_cast<std::size_t>(i * 37 % 700), 'x');
  entry.body["value"] = schema::EntryValue::measured(i * 0.125);
  return entry;
}

std::vector<evidence::EntryFilter> filters() {
  std::vector<evidence::EntryFilter> all;
  const auto add = [&](auto change) {
    evidence::EntryFilter filter;
    filter.limit = evidence::kMaxPage;
    change(filter);
    all.push_back(filter);
  };
  for (int i = 0; i < kModels; ++i) add([&](auto& f) { f.model = fmt::format("model-{}", i); });
  for (int i = 0; i < kPromotions; ++i) add([&](auto& f) { f.promotion = fmt::format("pr-{}", i); });
  add([](auto& f) { f.kind = schema::EvidenceKind::verdict_reached; });
  add([](auto& f) { f.actor = "pia"; });
  add([](auto& f) { f.clause = "runtime.c1"; });
  add([](auto& f) { f.verdict = "violated"; });
  return all;
}

schema::Result<Answers> ask(store::Store& store) {
  Answers answers;
  auto done = store.read([&](store::Reader& reader) -> schema::Result<void> {
    evidence::EntryFilter all;
    all.limit = evidence::kMaxPage;
    while (true) {
      auto page = evidence::query_entries(reader, all);
      if (!page) return std::unexpected(page.error());
      for (auto& entry : page->entries) answers.entries.push_back(std::move(entry.bytes));
      if (!page->next) break;
      all.cursor = page->next;
    }
    for (const auto& filter : filters()) {
      auto page = evidence::query_entries(reader, filter);
      if (!page) return std::unexpected(page.error());
      std::string text;
      for (const auto& entry : page->entries) text += fmt::format("{} {}\n", entry.seq, entry.bytes);
      answers.queries.push_back(std::move(text));
    }
    return {};
  });
  if (!done) return std::unexpected(done.error());
  return answers;
}

}  // namespace

Opened open_folder(const fs::path& folder) {
  Opened opened;
  const auto pages = store::check_database(folder / "driftgate.db");
  auto store = store::Store::open({.data_dir = folder, .opened_us = 1});
  if (!store) {
    opened.refusal = store.error().describe();
    return opened;
  }
  auto heads = evidence::HeadPublisher::start(**store, {});
  if (!heads) {
    opened.refusal = heads.error().describe();
    return opened;
  }
  auto answers = ask(**store);
  if (answers) {
    opened.answers = std::move(*answers);
  } else {
    opened.refusal = answers.error().describe();
  }
  const auto log = evidence::verify_log(**store);
  const auto search = evidence::verify_search(**store);
  opened.verified = pages.has_value() && log.has_value() && search.has_value();
  if (!log && opened.refusal.empty()) opened.refusal = log.error().describe();
  if (!search && opened.refusal.empty()) opened.refusal = search.error().describe();
  return opened;
}

void write_log(const fs::path& folder, int entries, const fs::path& image) {
  auto store = open_store(folder);
  auto heads = must(evidence::HeadPublisher::start(*store, {}));
  const auto size = must(store->read([](store::Reader& reader) { return evidence::tree_size(reader); }));
  constexpr int kGroup = 5;
  for (int i = 0; i < entries; i += kGroup) {
    must(store->write("entries", [&](store::Tx& tx) -> schema::Result<void> {
      for (int k = i; k < std::min(entries, i + kGroup); ++k) {
        auto done = evidence::append(tx, draft(static_cast<int>(size) + k));
        if (!done) return std::unexpected(done.error());
      }
      auto blob = store::put_blob(tx, fmt::format("blob {}", static_cast<int>(size) + i), "text/plain", 1);
      if (!blob) return std::unexpected(blob.error());
      return {};
    }));
  }
  must(heads->wait_published(size + static_cast<std::uint64_t>(entries)));
  if (!image.empty()) copy_folder(folder, image);
  heads->stop();
}

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::remove_all(to);
  fs::create_directories(to);
  for (const char* name : {"driftgate.db", "driftgate.db-wal", "head.note", "log.key"}) {
    if (fs::exists(from / name)) fs::copy_file(from / name, to / name);
  }
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace driftgate::fault
