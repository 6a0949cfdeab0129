#include "daemon/evidence/query.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::EvidenceKind;

namespace {

struct Fixture {
  TempDir dir;
  std::unique_ptr<store::Store> store = open_store(dir.path());

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

TEST_CASE_FIXTURE(Fixture, "a page has between 1 and 1,000 entries") {
  for (const std::int64_t limit : {-1, 0, 1'001}) {
    const auto refused =
        store->read([&](store::Reader& reader) { return query_entries(reader, {.limit = limit}); });
    REQUIRE(!refused);
    CHECK(refused.error().code == store::ErrorCode::invalid_argument);
  }
}
