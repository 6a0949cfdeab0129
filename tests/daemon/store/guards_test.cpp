#include "daemon/store/promotions/guards.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

struct Fixture : StoreFixture {
  Fixture() {
    insert_world(*store);
    write(*store, [](Tx& tx) -> Result<void> {
      for (const char* id : {"pr-1", "pr-2"}) {
        auto promotion = promotion_row(id);
        promotion.state = PromotionState::succeeded;
        must(insert_promotion(tx, promotion));
      }
      return {};
    });
  }
  ErrorCode refused(auto&& f) {
    const auto done = store->write("test", f);
    REQUIRE(!done);
    return done.error().code;
  }
  std::optional<GuardRow> armed() {
    return read(*store, [](Reader& reader) { return find_armed_guard(reader, "tiny"); });
  }
  std::string keys() {
    return read(*store, [](Reader& reader) { return guard_keys(reader, "gd-1"); });
  }
};

GuardRow guard(const std::string& id = "gd-1", const std::string& promotion = "pr-1",
               const std::string& version = "ve-b") {
  return {.id = id,
          .model = "tiny",
          .promotion = promotion,
          .version = version,
          .contract = "sha256:contract",
          .armed_us = 5,
          .traffic = std::string("{\0}", 3),
          .probes = "p",
          .identity = "i",
          .orders = "{}",
          .alarms = 2,
          .evidence_seq = 7,
          .rescoring = "r"};
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a guard reads back as it was written, and as it was changed") {
  auto row = guard();
  CHECK_FALSE(armed().has_value());
  write(*store, [&](Tx& tx) { return insert_guard(tx, row); });
  CHECK(armed() == row);
  row.traffic = "more";
  row.probes = row.identity = "";
  row.orders = R"({"all_away":true})";
  row.alarms = 3;
  row.evidence_seq = 9;
  row.rescoring = R"({"spool":"gd-1/rescoring/1"})";
  write(*store, [&](Tx& tx) { return update_guard(tx, row); });
  CHECK(armed() == row);
  CHECK(read(*store, [](Reader& reader) { return list_armed_guards(reader); }) == std::vector{row});
  CHECK(read(*store, [](Reader& reader) { return find_guard_of_version(reader, "ve-b"); }) == row);
  CHECK_FALSE(read(*store, [](Reader& reader) { return find_guard_of_version(reader, "ve-a"); }).has_value());
}

TEST_CASE_FIXTURE(Fixture, "a model has one armed guard, and a promotion arms one once") {
  write(*store, [](Tx& tx) { return insert_guard(tx, guard()); });
  CHECK(refused([](Tx& tx) { return insert_guard(tx, guard("gd-2", "pr-2")); }) == ErrorCode::already_exists);
  write(*store, [](Tx& tx) { return end_guard(tx, "gd-1", "another version serves", 8, 10); });
  CHECK(refused([](Tx& tx) { return insert_guard(tx, guard("gd-2", "pr-1")); }) == ErrorCode::already_exists);
  write(*store, [](Tx& tx) { return insert_guard(tx, guard("gd-2", "pr-2", "ve-a")); });
  CHECK(armed()->id == "gd-2");
}

TEST_CASE_FIXTURE(Fixture, "a guard that has ended keeps its memory, loses its keys and changes no more") {
  write(*store, [](Tx& tx) -> Result<void> {
    must(insert_guard(tx, guard()));
    return add_guard_keys(tx, "gd-1", 3, "keys");
  });
  write(*store, [](Tx& tx) { return end_guard(tx, "gd-1", "another version serves", 8, 10); });
  CHECK_FALSE(armed().has_value());
  CHECK(read(*store, [](Reader& reader) { return find_ended_guard(reader, "tiny"); })->id == "gd-1");
  CHECK_FALSE(read(*store, [](Reader& reader) { return find_ended_guard(reader, "other"); }).has_value());
  CHECK(keys().empty());
  const auto ended = read(*store, [](Reader& reader) { return find_newest_guard(reader, "tiny"); });
  REQUIRE(ended);
  CHECK(ended->ended_us == 8);
  CHECK(ended->reason == "another version serves");
  CHECK(ended->evidence_seq == 10);
  CHECK(ended->traffic == guard().traffic);
  CHECK(refused([](Tx& tx) { return update_guard(tx, guard()); }) == ErrorCode::conflict);
  CHECK(refused([](Tx& tx) { return end_guard(tx, "gd-1", "twice", 9, 11); }) == ErrorCode::conflict);
}

TEST_CASE_FIXTURE(Fixture, "the keys of two hours come back in their order, and older ones go") {
  write(*store, [](Tx& tx) { return insert_guard(tx, guard()); });
  const auto add = [&](std::int64_t hour, std::string_view bytes) {
    write(*store, [&](Tx& tx) { return add_guard_keys(tx, "gd-1", hour, bytes); });
  };
  add(3, std::string_view("a\0b", 3));
  add(3, "");
  add(3, "c");
  CHECK(keys() == std::string("a\0bc", 4));
  add(4, "d");
  CHECK(keys() == std::string("a\0bcd", 5));
  add(5, "");
  CHECK(keys().size() == 5);
  add(5, "e");
  CHECK(keys() == "de");
}
