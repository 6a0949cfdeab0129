// The index of the log, and the checks that hold it to the entries: a damaged index would hide them from
// queries.
#include <doctest/doctest.h>

#include <filesystem>

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

const std::string kKey = "(SELECT id FROM index_keys WHERE value = 'late')";
const std::pair<std::string, const char*> kChanges[] = {
    {"UPDATE entries SET time_us = 1 WHERE seq = 1030",
     "evidence entry 1030: the column time_us is 1 in the table, but entry 1030 (state_changed) says 1130"},
    {"UPDATE entries SET kind = 'hold_set' WHERE seq = 3", "evidence entry 3: the column kind is 'hold_set'"},
    {"UPDATE entries SET model = 'late' WHERE seq = 3",
     "evidence entry 3: the column model is 'late' in the table, but entry 3 (state_changed) says 'early'"},
    {"UPDATE entries SET promotion = NULL WHERE seq = 6", "evidence entry 6: the column promotion is 'NULL'"},
    {"UPDATE entries SET verdict = 'pass' WHERE seq = 2050",
     "evidence entry 2050: the column verdict is 'pass'"},
    {"UPDATE postings SET places = x'0500' WHERE key = " + kKey,
     "the index of entries 1024 to 2047: what it has under model late is not what the entries say"},
    {"DELETE FROM postings WHERE key = " + kKey,
     "the index of entries 1024 to 2047: what it has under model late"},
    {"UPDATE index_keys SET value = 'other' WHERE value = 'ada'",
     "the index of entries 0 to 1023: what it has under actor ada"},
    {"UPDATE index_keys SET field = 9 WHERE value = 'ada'",
     "the index of entries 0 to 1023: what it has under actor ada"},
    {"INSERT INTO postings VALUES(99, 0, x'0500')",
     "the index of the first 2 blocks: it has 9 postings, but the entries make 8"},
    {"UPDATE index_blocks SET max_us = 5 WHERE block = 1",
     "the index of entries 1024 to 2047: what it has under times"},
    {"DELETE FROM index_blocks WHERE block = 1", "the index of entries 1024 to 2047: it is missing"},
    {"INSERT INTO index_blocks VALUES(2, 1, 2)",
     "the index of the log: it covers 3072 entries, but the full blocks of the log have 2048"},
};

}  // namespace

TEST_CASE("places are stored as a list while they are fewer than 64, then as bits, and read back") {
  Places places;
  for (std::size_t count = 1; count <= static_cast<std::size_t>(kIndexBlock); ++count) {
    places.set((count * 389) % static_cast<std::size_t>(kIndexBlock));  // 389 is prime to 1,024
    const std::string bytes = encode_places(places);
    REQUIRE(bytes.size() == (count < 64 ? 2 * count : 128));
    REQUIRE(must(decode_places(bytes)) == places);
  }
  CHECK(encode_places(Places().set(0)) == bytes_of({0}));
  CHECK(encode_places(Places().set(1'023).set(256)) == bytes_of({256, 1'023}));
}

TEST_CASE("places in any other spelling are damage") {
  std::string few_bits(128, '\0');
  few_bits[5] = 7;
  const std::pair<const char*, std::string> bad[] = {{"none", ""},
                                                     {"odd", "x"},
                                                     {"no bits", std::string(128, '\0')},
                                                     {"few bits", few_bits},
                                                     {"too long", std::string(130, '\0')},
                                                     {"place beyond the block", bytes_of({1'024})},
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

TEST_CASE("whatever is changed in the columns and the index is found by both checks, which name it") {
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
  change_database(
      dir.path(),
      "UPDATE postings SET places = x'0004' WHERE key = (SELECT id FROM index_keys WHERE field = 3)");
  auto store = open_store(dir.path());
  const auto query = [&](const EntryFilter& filter) {
    return store->read([&](store::Reader& reader) { return query_entries(reader, filter); });
  };
  CHECK(query({.model = "tiny"}).error().code == ErrorCode::corrupt);
  CHECK(query({.actor = "driftgate"}).value().entries.size() == 100);
}
