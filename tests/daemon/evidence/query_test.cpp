#include "daemon/evidence/log/query.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "daemon/evidence/index/entry_index.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::EvidenceKind;

namespace {

struct Fixture : StoreFixture {
  Fixture() {
    for (std::int64_t i = 0; i < 60; ++i) {
      schema::EntryDraft entry = draft(1'000 + i);
      entry.kind = i % 3 == 0 ? EvidenceKind::verdict_reached : EvidenceKind::state_changed;
      entry.actor = i % 2 == 0 ? "driftgate" : "ada";
      entry.subject.model = i % 4 == 0 ? "other" : "tiny";
      if (i % 5 == 0) entry.subject.promotion = "pr-1";
      if (i % 5 == 1) entry.subject.stage = "canary";
      if (i % 6 == 0) entry.subject.checkpoint = "sha256:c";
      if (i % 7 == 0) entry.subject.contract = "sha256:k";
      if (i % 3 == 0)
        entry.body = {{"clause", "numerical.kl"}, {"verdict", i % 2 == 0 ? "pass" : "violated"}};
      append_one(*store, entry);
    }
  }

  EntryPage page(const EntryFilter& filter) {
    return read(*store, [&](store::Reader& reader) { return query_entries(reader, filter); });
  }

  /// All seqs over pages of `limit`, checked to be in order.
  std::vector<std::int64_t> walk(EntryFilter filter, std::int64_t limit) {
    filter.limit = limit;
    std::vector<std::int64_t> seqs;
    while (true) {
      const EntryPage found = page(filter);
      CHECK(found.tree_size == 60);
      CHECK(found.entries.size() <= static_cast<std::size_t>(limit));
      for (const auto& entry : found.entries) seqs.push_back(entry.seq);
      if (!found.next) return seqs;
      filter.cursor = found.next;
    }
  }

  void check(const EntryFilter& filter, bool (*expected)(std::int64_t)) {
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < 60; ++i) {
      if (expected(i)) wanted.push_back(i);
    }
    for (const std::int64_t limit : {1, 3, 7, 1'000}) CHECK(walk(filter, limit) == wanted);
    EntryFilter newest = filter;
    newest.newest_first = true;
    std::vector<std::int64_t> reversed(wanted.rbegin(), wanted.rend());
    for (const std::int64_t limit : {1, 4, 1'000}) CHECK(walk(newest, limit) == reversed);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "each filter finds exactly its entries, in pages of any size and either order") {
  check({}, [](std::int64_t) { return true; });
  check({.model = "other"}, [](std::int64_t i) { return i % 4 == 0; });
  check({.promotion = "pr-1"}, [](std::int64_t i) { return i % 5 == 0; });
  check({.stage = "canary"}, [](std::int64_t i) { return i % 5 == 1; });
  check({.checkpoint = "sha256:c"}, [](std::int64_t i) { return i % 6 == 0; });
  check({.contract = "sha256:k"}, [](std::int64_t i) { return i % 7 == 0; });
  check({.kind = EvidenceKind::verdict_reached}, [](std::int64_t i) { return i % 3 == 0; });
  check({.actor = "ada"}, [](std::int64_t i) { return i % 2 == 1; });
  check({.clause = "numerical.kl"}, [](std::int64_t i) { return i % 3 == 0; });
  check({.verdict = "violated"}, [](std::int64_t i) { return i % 6 == 3; });
  check({.from_us = 1'010}, [](std::int64_t i) { return i >= 10; });
  check({.to_us = 1'010}, [](std::int64_t i) { return i < 10; });
  check({.from_us = 1'010, .to_us = 1'020}, [](std::int64_t i) { return i >= 10 && i < 20; });
  check({.model = "none"}, [](std::int64_t) { return false; });
}

TEST_CASE_FIXTURE(Fixture, "filters are combined with and") {
  check({.model = "tiny", .promotion = "pr-1"}, [](std::int64_t i) { return i % 5 == 0 && i % 4 != 0; });
  check({.model = "other", .kind = EvidenceKind::verdict_reached, .from_us = 1'020},
        [](std::int64_t i) { return i % 4 == 0 && i % 3 == 0 && i >= 20; });
  check({.checkpoint = "sha256:c", .verdict = "pass"}, [](std::int64_t i) { return i % 6 == 0; });
}

namespace {

constexpr std::int64_t kMany = 4 * kIndexBlock + 400;  ///< four blocks of the index and what is newer

/// Time of entry i, with a clock that was set back twice.
std::int64_t time_of(std::int64_t i) {
  return 10'000 + i - (i >= 700 ? 300 : 0) - (i >= 1'500 ? 1'000 : 0);
}

schema::EntryDraft draft_of(std::int64_t i) {
  schema::EntryDraft entry = draft(time_of(i));
  entry.actor = i % 90 == 7 ? "ada" : "driftgate";
  entry.subject.model = i < 1'200 ? "early" : "late";
  entry.subject.checkpoint = "sha256:" + std::to_string(i / 100);
  if (i % 3 == 0) entry.subject.stage = "canary";
  if (i == 1'023 || i == 1'024 || i == 2'047 || i == 2'048) entry.subject.contract = "sha256:edge";
  if (i % 7 == 0) entry.body = {{"clause", "numerical.kl"}, {"verdict", i % 91 == 0 ? "violated" : "pass"}};
  return entry;
}

struct ManyEntries {
  TempDir dir;
  std::unique_ptr<store::Store> store = open_store(dir.path());

  ManyEntries() {
    write(*store, [&](store::Tx& tx) -> Result<void> {
      for (std::int64_t i = 0; i < kMany; ++i) must(append(tx, draft_of(i)));
      return {};
    });
  }

  std::vector<std::int64_t> walk(EntryFilter filter) {
    std::vector<std::int64_t> seqs;
    do {
      const EntryPage found =
          read(*store, [&](store::Reader& reader) { return query_entries(reader, filter); });
      for (const auto& entry : found.entries) seqs.push_back(entry.seq);
      filter.cursor = found.next;
    } while (filter.cursor);
    return seqs;
  }

  void check(EntryFilter filter, bool (*expected)(std::int64_t)) {
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < kMany; ++i) {
      if (expected(i)) wanted.push_back(i);
    }
    for (const std::int64_t limit : {9, 100, 1'000}) {
      filter.limit = limit;
      filter.newest_first = false;
      CHECK(walk(filter) == wanted);
      filter.newest_first = true;
      CHECK(walk(filter) == std::vector<std::int64_t>(wanted.rbegin(), wanted.rend()));
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(ManyEntries, "the index finds the same entries as a look at each") {
  CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) == 4 * kIndexBlock);
  check({.model = "early"}, [](std::int64_t i) { return i < 1'200; });
  check({.stage = "canary"}, [](std::int64_t i) { return i % 3 == 0; });
  check({.checkpoint = "sha256:10"}, [](std::int64_t i) { return i / 100 == 10; });
  check({.contract = "sha256:edge"},
        [](std::int64_t i) { return i == 1'023 || i == 1'024 || i == 2'047 || i == 2'048; });
  check({.actor = "ada"}, [](std::int64_t i) { return i % 90 == 7; });
  check({.model = "late", .clause = "numerical.kl"}, [](std::int64_t i) { return i >= 1'200 && i % 7 == 0; });
  check({.stage = "canary", .kind = EvidenceKind::state_changed, .verdict = "violated"},
        [](std::int64_t i) { return i % 3 == 0 && i % 91 == 0; });
  check({.checkpoint = "sha256:3", .actor = "ada"},
        [](std::int64_t i) { return i / 100 == 3 && i % 90 == 7; });
  check({.clause = "none"}, [](std::int64_t) { return false; });
}

TEST_CASE_FIXTURE(ManyEntries, "a range of time is exact though the clock was set back") {
  check({.from_us = 10'500}, [](std::int64_t i) { return time_of(i) >= 10'500; });
  check({.to_us = 10'500}, [](std::int64_t i) { return time_of(i) < 10'500; });
  check({.model = "late", .from_us = 10'300, .to_us = 10'900},
        [](std::int64_t i) { return i >= 1'200 && time_of(i) >= 10'300 && time_of(i) < 10'900; });
  check({.from_us = 1, .to_us = 2}, [](std::int64_t) { return false; });
  check({.from_us = 99'999}, [](std::int64_t) { return false; });
}

TEST_CASE_FIXTURE(StoreFixture,
                  "an entry is found by the kernel that it names, and by that of its promotion's candidate") {
  constexpr std::int64_t kOfTen = kIndexBlock / 10 + 3;  // some of them beyond the index
  insert_running_stage(*store);
  write(*store, [&](store::Tx& tx) -> Result<void> {
    for (std::int64_t i = 0; i < 10 * kOfTen; ++i) {
      schema::EntryDraft entry = draft(i);
      if (i % 10 == 0) {
        entry.kind = EvidenceKind::kernel_registered;
        entry.body = {{"name", "other"}, {"digest", "sha256:other"}};
      }
      if (i % 10 == 1) {
        entry.kind = EvidenceKind::engine_registered;
        entry.body = {{"name", "e"}, {"kernel", "kernel-b"}};
      }
      if (i % 10 == 2) entry.subject.promotion = "pr-1";
      must(append(tx, entry));
    }
    return {};
  });
  const auto seqs_of = [&](const EntryFilter& filter) {
    std::vector<std::int64_t> seqs;
    for (const auto& entry :
         read(*store, [&](store::Reader& reader) { return query_entries(reader, filter); }).entries) {
      seqs.push_back(entry.seq % 10);
    }
    return seqs;
  };
  const auto named = seqs_of({.kernel = "kernel-b", .limit = 1'000});
  CHECK(named.size() == static_cast<std::size_t>(2 * kOfTen));
  CHECK(std::ranges::all_of(named, [](std::int64_t rest) { return rest == 1 || rest == 2; }));
  CHECK(seqs_of({.kernel = "sha256:kb", .limit = 1'000}) == named);
  CHECK(seqs_of({.promotion = "pr-1", .kernel = "kernel-b", .limit = 1'000}).size() ==
        static_cast<std::size_t>(kOfTen));
  CHECK(seqs_of({.kernel = "other", .limit = 1'000}) ==
        std::vector<std::int64_t>(static_cast<std::size_t>(kOfTen), 0));
  CHECK(seqs_of({.kernel = "none", .limit = 1'000}).empty());
}

TEST_CASE_FIXTURE(Fixture, "a page has between 1 and 1,000 entries") {
  for (const std::int64_t limit : {-1, 0, 1'001}) {
    const auto refused =
        store->read([&](store::Reader& reader) { return query_entries(reader, {.limit = limit}); });
    REQUIRE(!refused);
    CHECK(refused.error().code == store::ErrorCode::invalid_argument);
  }
}
