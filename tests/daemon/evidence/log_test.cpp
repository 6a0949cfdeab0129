#include "daemon/evidence/log/log.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <map>
#include <random>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/evidence/entries.hpp"
#include "tests/daemon/evidence/naive_merkle.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using store::ErrorCode;
using store::Reader;
using store::Tx;

TEST_CASE_FIXTURE(StoreFixture, "the stored tree has the roots and proofs of its entries' bytes") {
  std::vector<std::string> leaves;
  constexpr std::size_t kEntries = 140;  // two stored groups and a rest
  for (std::size_t i = 0; i < kEntries; ++i) {
    const auto appended = append_one(*store, draft(static_cast<std::int64_t>(i)));
    CHECK(appended.seq == static_cast<std::int64_t>(i));
    const auto entry = read(*store, [&](Reader& reader) { return find_entry(reader, appended.seq); }).value();
    CHECK(appended.bytes == entry.bytes);
    CHECK(schema::decode_entry(entry.bytes)->seq == appended.seq);
    leaves.push_back(entry.bytes);
  }
  read(*store, [&](Reader& reader) -> Result<void> {
    CHECK(must(tree_size(reader)) == kEntries);
    for (std::size_t size = 0; size <= kEntries; ++size) {
      CAPTURE(size);
      const auto first = Leaves(leaves).first(size);
      CHECK(must(root_at(reader, size)) == naive_root(first));
      if (size == 0) continue;
      CHECK(must(inclusion_proof(reader, size / 2, size)) == naive_path(size / 2, first));
      CHECK(must(consistency_proof(reader, size, kEntries)) == naive_subproof(size, leaves, true));
    }
    CHECK(root_at(reader, kEntries + 1).error().code == ErrorCode::not_found);
    CHECK(inclusion_proof(reader, 0, kEntries + 1).error().code == ErrorCode::not_found);
    CHECK(consistency_proof(reader, 1, kEntries + 1).error().code == ErrorCode::not_found);
    CHECK(!must(find_entry(reader, kEntries)));
    return {};
  });
  CHECK(must(verify_log(*store)) == kEntries);
}

TEST_CASE_FIXTURE(StoreFixture, "an entry whose transaction fails leaves neither a gap nor a node") {
  append_one(*store, draft(1));
  append_one(*store, draft(2));
  const auto failed = store->write("fails", [](Tx& tx) -> Result<Appended> {
    must(append(tx, draft(3)));
    must(append(tx, draft(4)));
    return schema::fail(ErrorCode::conflict, "on purpose");
  });
  CHECK(!failed);
  CHECK(append_one(*store, draft(5)).seq == 2);
  CHECK(must(verify_log(*store)) == 3);
}

TEST_CASE_FIXTURE(StoreFixture, "what appending keeps in memory is right whatever is undone around it") {
  const auto seed = seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  std::map<std::string, std::int64_t> newest;
  std::int64_t size = 0;
  while (size < 2 * kIndexBlock + 70) {
    const bool fails = random() % 4 == 0;
    auto now = newest;
    std::int64_t next = size;
    const auto done = store->write("some", [&](Tx& tx) -> Result<void> {
      for (auto count = 1 + random() % 90; count > 0; --count) {
        auto entry = draft(next);
        entry.subject.promotion = "pr-" + std::to_string(random() % 7);
        const auto before = now.find(*entry.subject.promotion);
        const auto appended = must(append(tx, entry));
        CHECK(appended.seq == next);
        const auto read = must(schema::decode_entry(appended.bytes)).draft.subject.prior;
        CHECK(read == (before == now.end() ? std::nullopt : std::optional(before->second)));
        now[*entry.subject.promotion] = next++;
      }
      if (fails) return schema::fail(ErrorCode::conflict, "on purpose");
      return {};
    });
    CHECK(done.has_value() != fails);
    if (fails) continue;
    newest = now;
    size = next;
  }
  CHECK(must(verify_log(*store)) == static_cast<std::uint64_t>(size));
  must(verify_search(*store));
}

TEST_CASE_FIXTURE(StoreFixture, "an entry that is not canonical is refused and nothing is stored") {
  auto bad = draft(1);
  bad.body.emplace("Bad Key", 1);
  const auto refused = store->write("bad", [&](Tx& tx) { return append(tx, bad); });
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::invalid_document);
  bad = draft(1, std::string(70'000, 'x'));
  CHECK(store->write("long", [&](Tx& tx) { return append(tx, bad); }).error().code ==
        ErrorCode::limit_exceeded);
  CHECK(read(*store, [](Reader& reader) { return tree_size(reader); }) == 0);
}

TEST_CASE("verification finds a flipped bit in any entry or node") {
  for (const char* damage :
       {"UPDATE entries SET bytes = CAST(replace(bytes, 'x', 'y') AS BLOB) WHERE seq = 5",
        "UPDATE tree_nodes SET hash = zeroblob(32) WHERE position = 1", "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM tree_nodes WHERE position = 2"}) {
    CAPTURE(damage);
    TempDir dir;
    {
      auto store = open_store(dir.path());
      for (int i = 0; i < 200; ++i) append_one(*store, draft(i));
    }
    change_database(dir.path(),
                    std::string("DROP TRIGGER entries_no_update; DROP TRIGGER entries_no_delete;"
                                "DROP TRIGGER tree_nodes_no_update; DROP TRIGGER tree_nodes_no_delete;") +
                        damage);
    auto store = open_store(dir.path());
    const auto verified = verify_log(*store);
    REQUIRE(!verified);
    CHECK(verified.error().code == ErrorCode::corrupt);
  }
}

TEST_CASE_FIXTURE(StoreFixture,
                  "each entry about a promotion names the one before it about the same promotion") {
  auto about = [&](const char* promotion) {
    auto entry = draft(1);
    if (promotion != nullptr) entry.subject.promotion = promotion;
    return append_one(*store, entry).seq;
  };
  for (const char* promotion : {"pr-a", "pr-b", static_cast<const char*>(nullptr), "pr-a", "pr-b", "pr-a"})
    about(promotion);
  std::vector<std::optional<std::int64_t>> priors;
  for (std::int64_t seq = 0; seq < 6; ++seq) {
    const auto stored = read(*store, [&](Reader& reader) { return find_entry(reader, seq); }).value();
    priors.push_back(must(schema::decode_entry(stored.bytes)).draft.subject.prior);
  }
  CHECK(priors == std::vector<std::optional<std::int64_t>>{{}, {}, {}, 0, 1, 3});
}
