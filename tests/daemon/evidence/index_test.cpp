// The index of the log, and the checks that hold it to the entries: a damaged index would hide them from
// queries.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "daemon/evidence/index/entry_glance.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) {
    bytes += static_cast<char>(value & 0xff);
    bytes += static_cast<char>(value >> 8);
  }
  return bytes;
}

std::string key_of(IndexField field, const std::string& value) {
  return std::to_string(index_key(field, value));
}

const std::string kLate = "(SELECT " + key_of(IndexField::model, "late") + ")";
const std::string kAda = "(SELECT " + key_of(IndexField::actor, "ada") + ")";
const std::pair<std::string, const char*> kChanges[] = {
    {"UPDATE entries SET bytes = CAST(replace(bytes, 'late', 'last') AS BLOB) WHERE seq = 530",
     "the index of entries 512 to 1023: what it has under model last is not what the entries say"},
    {"UPDATE entries SET bytes = x'00' WHERE seq = 3", "evidence entry 3: not a canonical evidence entry"},
    {"UPDATE entries SET bytes = (SELECT bytes FROM entries WHERE seq = 4) WHERE seq = 3",
     "evidence entry 3: its bytes are those of entry 4"},
    {"UPDATE index_places SET places = x'0500' WHERE key = " + kLate,
     "the index of entries 512 to 1023: what it has under model late is not what the entries say"},
    {"DELETE FROM index_places WHERE key = " + kLate,
     "the index of entries 512 to 1023: what it has under model late"},
    {"UPDATE index_places SET key = key + 1 WHERE key = " + kAda,
     "the index of entries 0 to 511: what it has under actor ada"},
    {"INSERT INTO index_places VALUES(1, 0, 99, x'0500')",
     "the index of entries 512 to 1023: what it has under a value that none of them has"},
    {"INSERT INTO index_places VALUES(1, 1, 99, x'0500')",
     "the index of the first 2 blocks: it has 11 rows, but the entries make 10"},
    {"UPDATE index_nodes SET max_us = 5 WHERE block = 1",
     "the index of entries 512 to 1023: what it has under times"},
    {"DELETE FROM index_nodes WHERE block = 1", "the index of the log: it has 5 rows beyond its 512 entries"},
    {"DELETE FROM index_nodes WHERE block = 0", "the index of entries 0 to 511: what it has under times"},
    {"INSERT INTO index_nodes VALUES(2, 0, 1, 2)",
     "the index of the log: it has 1 rows beyond its 1024 entries"},
    {"INSERT INTO index_places VALUES(2, 0, 99, x'0000')",
     "the index of the log: it has 1 rows beyond its 1024 entries"},
    {"INSERT INTO index_nodes VALUES(15, 1, 1, 2)",
     "the index of the log: it has 1 rows beyond its 1024 entries"},
    {"INSERT INTO index_nodes VALUES(1, 1, 1, 2)",
     "the index of the first 2 blocks: it has 3 nodes, but the blocks make 2"},
};

}  // namespace

TEST_CASE("places are stored as a list while they are fewer than 32, then as bits, and read back") {
  Places places;
  for (std::size_t count = 1; count <= static_cast<std::size_t>(kIndexBlock); ++count) {
    places.set((count * 389) % static_cast<std::size_t>(kIndexBlock));  // 389 is prime to 512
    const std::string bytes = encode_places(places);
    REQUIRE(bytes.size() == (count < 32 ? 2 * count : 64));
    REQUIRE(must(decode_places(bytes)) == places);
  }
  CHECK(encode_places(Places().set(0)) == bytes_of({0}));
  CHECK(encode_places(Places().set(511).set(256)) == bytes_of({256, 511}));
}

TEST_CASE("places in any other spelling are damage") {
  std::string few_bits(64, '\0');
  few_bits[5] = 7;
  const std::pair<const char*, std::string> bad[] = {{"none", ""},
                                                     {"odd", "x"},
                                                     {"no bits", std::string(64, '\0')},
                                                     {"few bits", few_bits},
                                                     {"too long", std::string(66, '\0')},
                                                     {"place beyond the block", bytes_of({512})},
                                                     {"twice", bytes_of({5, 5})},
                                                     {"falling", bytes_of({6, 5})}};
  for (const auto& [what, bytes] : bad) {
    CAPTURE(what);
    const auto refused = decode_places(bytes);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::corrupt);
    CHECK(refused.error().message == "the index of the evidence log is damaged: restore a backup");
  }
}

TEST_CASE("whatever is changed in the index is found by both checks, which name it") {
  TempDir dir;
  const fs::path made = dir.path() / "made", copy = dir.path() / "copy";
  {
    auto store = open_store(made);
    write(*store, [](store::Tx& tx) -> Result<void> {
      for (std::int64_t i = 0; i < 2 * kIndexBlock + 10; ++i) {
        auto entry = draft(100 + i);
        entry.actor = i % 2 == 0 ? "driftgate" : "ada";
        entry.subject.model = i < kIndexBlock ? "early" : "late";
        if (i % 3 == 0) entry.subject.promotion = "pr-1";
        must(append(tx, entry));
      }
      return {};
    });
    must(verify_search(*store));
    CHECK(must(compare_all_tables(*store, [] { return true; })).empty());
  }
  for (const auto& [script, words] : kChanges) {
    CAPTURE(script);
    fs::remove_all(copy);
    fs::create_directory(copy);
    fs::copy_file(made / "driftgate.db", copy / "driftgate.db");
    change_database(copy, "DROP TRIGGER entries_no_update;" + script);
    auto store = open_store(copy);
    const auto searched = verify_search(*store);
    REQUIRE(!searched);
    CHECK(searched.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(searched.error().message.starts_with(words), searched.error().message);
    std::string text;
    for (const auto& difference : must(compare_all_tables(*store, [] { return true; }))) {
      text += to_text(difference) + "\n";
    }
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  }
}

TEST_CASE("a damaged posting fails the query that needs it, and no other") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    write(*store, [](store::Tx& tx) -> Result<void> {
      for (std::int64_t i = 0; i < kIndexBlock; ++i) must(append(tx, draft(i)));
      return {};
    });
  }
  change_database(dir.path(), "UPDATE index_places SET places = x'0002' WHERE key = " +
                                  key_of(IndexField::model, "tiny"));
  auto store = open_store(dir.path());
  const auto query = [&](const EntryFilter& filter) {
    return store->read([&](store::Reader& reader) { return query_entries(reader, filter); });
  };
  CHECK(query({.model = "tiny"}).error().code == ErrorCode::corrupt);
  CHECK(query({.actor = "driftgate"}).value().entries.size() == 100);
}

TEST_CASE("a glance at an entry sees what its draft says, and nothing in bytes that are no entry") {
  auto entry = draft(7);
  entry.kind = schema::EvidenceKind::promotion_requested;
  entry.actor = "ada";
  entry.subject = {
      .model = "m", .promotion = "pr-1", .stage = "canary", .attempt = 2, .checkpoint = "c", .contract = "k"};
  schema::EntryValue::Object nested{{"clause", "not this"},
                                    {"list", schema::EntryValue::Array{1, "}", nullptr, true}}};
  entry.body = {{"a", nested}, {"clause", "numerical.kl"}, {"kernel", "k-inf"}, {"n", -5},
                {"name", "x"}, {"verdict", "pass"}};
  const auto same = [](const schema::EntryDraft& wanted) {
    const std::string bytes = must(schema::encode_entry(3, wanted));
    EntryGlance glance;
    const auto seen = glance.read(bytes);
    REQUIRE(seen.has_value());
    const auto said = indexed_entry(wanted);
    CHECK(seen->time_us == said.time_us);
    for (std::size_t field = 0; field < kIndexFields; ++field) {
      CAPTURE(kFieldNames[field]);
      CHECK(seen->values[field] == said.values[field]);
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!EntryGlance().read(bytes.substr(0, size)));
    CHECK(!EntryGlance().read(bytes + " "));
  };
  same(entry);
  entry.actor = "a \"quoted\" \\ name";  // with escapes
  same(entry);
  entry.kind = schema::EvidenceKind::kernel_registered;
  same(entry);
  entry.subject = {};
  entry.body = {};
  same(entry);
  CHECK(!EntryGlance().read(""));
  CHECK(!EntryGlance().read(std::string(3, '\0')));
}

TEST_CASE("the nodes above the blocks lead to rare values, and their damage is named") {
  TempDir dir;
  constexpr std::int64_t kBlocks = 2 * 16 + 3;
  {
    auto store = open_store(dir.path());
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      write(*store, [&](store::Tx& tx) -> Result<void> {
        for (std::int64_t i = 0; i < kIndexBlock; ++i) {
          auto entry = draft(1'000 + block);
          if (i == block && block % 10 == 2) entry.subject.checkpoint = "rare";
          must(append(tx, entry));
        }
        return {};
      });
    }
    must(verify_search(*store));
    for (const bool newest : {false, true}) {
      std::vector<std::int64_t> wanted, found;
      for (std::int64_t block = 2; block < kBlocks; block += 10)
        wanted.push_back(block * kIndexBlock + block);
      if (newest) std::ranges::reverse(wanted);
      for (const auto& entry : read(*store, [&](store::Reader& reader) {
                                 return query_entries(reader, {.checkpoint = "rare", .newest_first = newest});
                               }).entries)
        found.push_back(entry.seq);
      CHECK(found == wanted);
      const auto timed = read(*store, [&](store::Reader& reader) {
        return query_entries(reader,
                             {.from_us = 1'020, .to_us = 1'021, .newest_first = newest, .limit = 1'000});
      });
      REQUIRE(timed.entries.size() == static_cast<std::size_t>(kIndexBlock));
      CHECK(timed.entries.front().seq == (newest ? 21 * kIndexBlock - 1 : 20 * kIndexBlock));
    }
  }
  change_database(dir.path(), "DELETE FROM index_places WHERE level = 1 AND block = 31 AND key = " +
                                  key_of(IndexField::checkpoint, "rare"));
  const auto searched = verify_search(*open_store(dir.path()));
  REQUIRE(!searched);
  CHECK_MESSAGE(searched.error().message.starts_with(
                    "the index of entries 15872 to 16383: what it has of the blocks 16 to 31 together"),
                searched.error().message);
}

TEST_CASE("a log without its index, as a migration leaves it, is indexed before or while it is written to") {
  for (const bool at_start : {true, false}) {
    CAPTURE(at_start);
    TempDir dir;
    constexpr std::int64_t kSize = 70 * kIndexBlock + 5;
    const auto fill = [&](std::int64_t from, std::int64_t to) {
      auto store = open_store(dir.path());
      write(*store, [&](store::Tx& tx) -> Result<void> {
        for (std::int64_t i = from; i < to; ++i) must(append(tx, draft(i)));
        return {};
      });
    };
    fill(0, kSize);
    change_database(dir.path(), "DELETE FROM index_places; DELETE FROM index_nodes");
    if (at_start) {
      must(index_log(*open_store(dir.path())));
    } else {
      fill(kSize, 71 * kIndexBlock);
    }
    auto store = open_store(dir.path());
    must(verify_search(*store));
    CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) ==
          (at_start ? 70 : 71) * kIndexBlock);
  }
}

TEST_CASE(
    "rows planted for a block that is not full keep nobody from appending or finding, and stay to be found") {
  TempDir dir;
  const auto fill = [&](std::int64_t from, std::int64_t to) {
    auto store = open_store(dir.path());
    write(*store, [&](store::Tx& tx) -> Result<void> {
      for (std::int64_t i = from; i < to; ++i) must(append(tx, draft(i)));
      return {};
    });
  };
  const auto named = [&] { return verify_search(*open_store(dir.path())).error().message; };
  const std::string driftgate = key_of(IndexField::actor, "driftgate");
  fill(0, kIndexBlock + 1);
  change_database(dir.path(), "INSERT INTO index_places VALUES(1, 0, " + driftgate +
                                  ", x'0000'), (1, 0, 99, x'0500'), (15, 1, " + driftgate +
                                  ", x'0000');"
                                  "INSERT INTO index_nodes VALUES(1, 0, 1, 2), (15, 1, 1, 2)");
  CHECK(named().starts_with("the index of the log: it has 5 rows beyond its 512 entries"));
  fill(kIndexBlock + 1, 16 * kIndexBlock);
  auto store = open_store(dir.path());
  CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) == 16 * kIndexBlock);
  const auto last = read(*store, [](store::Reader& reader) {
    return query_entries(reader, {.actor = "driftgate", .newest_first = true, .limit = 1});
  });
  CHECK(last.entries.at(0).seq == 16 * kIndexBlock - 1);
  store.reset();
  CHECK(named().starts_with(
      "the index of entries 512 to 1023: what it has under a value that none of them has"));
  change_database(dir.path(), "DELETE FROM index_places WHERE key = 99");
  must(verify_search(*open_store(dir.path())));  // what was in the way was replaced
}
