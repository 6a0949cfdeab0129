#include "daemon/store/registry/schedules.hpp"

#include <doctest/doctest.h>

#include <cstdio>

#include "daemon/store/file_hashes.hpp"
#include "daemon/store/promotions/blocks.hpp"
#include "daemon/store/promotions/redactions.hpp"
#include "daemon/store/promotions/router_windows.hpp"
#include "daemon/store/promotions/stream_states.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

struct Fixture : StoreFixture {
  /// The message of a write that is refused with `code`.
  template <typename F>
  std::string refused(ErrorCode code, F&& f) {
    const auto done = store->write("test", std::forward<F>(f));
    REQUIRE(!done);
    CHECK(done.error().code == code);
    return done.error().message;
  }
};

ScheduleRow schedule(const std::string& name, std::optional<std::int64_t> next_us = {}) {
  return {.name = name,
          .cron = "0 3 * * *",
          .zone = "UTC",
          .model = "tiny",
          .request = "{}",
          .misfire = "skip",
          .if_running = "queue",
          .owner = "ada",
          .created_us = 1,
          .updated_us = 1,
          .next_us = next_us};
}

BlockRow block(const std::string& id, const std::string& checkpoint = "sha256:w") {
  return {.id = id,
          .checkpoint = checkpoint,
          .kernel = "kernel-b",
          .contract = "sha256:contract",
          .promotion = "pr-1",
          .reason = "violated",
          .set_by = "driftgate",
          .set_us = 3,
          .evidence_seq = 4};
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a schedule is changed only from what was read, and its fire time by anyone") {
  auto row = schedule("nightly", 100);
  write(*store, [&](Tx& tx) { return insert_schedule(tx, row); });
  CHECK(refused(ErrorCode::already_exists, [&](Tx& tx) { return insert_schedule(tx, row); }) ==
        "schedule 'nightly' cannot be stored");
  auto stale = row;
  row.cron = "0 4 * * *";
  row.grace_s = 60;
  write(*store, [&](Tx& tx) { return update_schedule(tx, row); });
  CHECK(row.revision == 2);
  CHECK(read(*store, [](Reader& reader) { return get_schedule(reader, "nightly"); }) == row);
  CHECK(refused(ErrorCode::conflict, [&](Tx& tx) { return update_schedule(tx, stale); }) ==
        "schedule 'nightly' was changed meanwhile: read it again");
  CHECK(stale.revision == 1);
  write(*store, [](Tx& tx) { return set_next_fire(tx, "nightly", 200); });
  const auto moved = read(*store, [](Reader& reader) { return get_schedule(reader, "nightly"); });
  CHECK(moved.next_us == 200);
  CHECK(moved.revision == 2);
  refused(ErrorCode::conflict, [](Tx& tx) { return delete_schedule(tx, "nightly", 1); });
  write(*store, [](Tx& tx) { return delete_schedule(tx, "nightly", 2); });
  const auto gone = store->read([](Reader& reader) { return get_schedule(reader, "nightly"); });
  CHECK(gone.error().code == ErrorCode::not_found);
  CHECK(gone.error().message.find("'driftgate schedule list'") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what a schedule may not be is refused by the database itself") {
  const std::pair<const char*, void (*)(ScheduleRow&)> changes[] = {
      {"misfire", [](ScheduleRow& row) { row.misfire = "twice"; }},
      {"if_running", [](ScheduleRow& row) { row.if_running = "stop"; }},
      {"grace", [](ScheduleRow& row) { row.grace_s = -1; }}};
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    auto row = schedule("s");
    change(row);
    refused(ErrorCode::conflict, [&](Tx& tx) { return insert_schedule(tx, row); });
  }
  CHECK(read(*store, [](Reader& reader) { return list_schedules(reader, "", 10); }).empty());
}

TEST_CASE_FIXTURE(Fixture, "due are the schedules that do not rest, the longest due first") {
  const std::pair<const char*, std::optional<std::int64_t>> all[] = {
      {"a", 30}, {"b", 10}, {"c", {}}, {"d", 20}, {"e", 5}};
  for (const auto& [name, next] : all) {
    auto row = schedule(name, next);
    row.paused = row.name == "e";
    write(*store, [&](Tx& tx) { return insert_schedule(tx, row); });
  }
  const auto due = [&](std::int64_t now_us, std::int64_t limit) {
    std::string names;
    for (const auto& row : read(*store, [&](Reader& reader) { return due_schedules(reader, now_us, limit); }))
      names += row.name;
    return names;
  };
  CHECK(due(9, 10).empty());
  CHECK(due(20, 10) == "bd");
  CHECK(due(100, 10) == "bda");
  CHECK(due(100, 2) == "bd");
  CHECK(read(*store, [](Reader& reader) { return list_schedules(reader, "b", 2); }).front().name == "c");
}

TEST_CASE_FIXTURE(Fixture, "a fire time is decided once, and a promotion comes from one fire time") {
  ScheduleFireRow fire{
      .schedule = "s", .fire_us = 10, .outcome = "fired", .promotion = "pr-1", .owner = "ada"};
  const auto put = [&](const ScheduleFireRow& row) {
    return [row](Tx& tx) { return insert_schedule_fire(tx, row); };
  };
  write(*store, put(fire));
  auto again = fire;
  again.outcome = "skipped";
  again.promotion.reset();
  CHECK(refused(ErrorCode::already_exists, put(again)) ==
        "the fire time 10 of schedule 's' cannot be stored");
  again.fire_us = 20;
  write(*store, put(again));
  auto other = fire;
  other.schedule = "t";
  refused(ErrorCode::already_exists, put(other));
  other.promotion = "pr-2";
  other.outcome = "maybe";
  refused(ErrorCode::conflict, put(other));
  read(*store, [&](Reader& reader) -> Result<void> {
    CHECK(must(list_schedule_fires(reader, {.name = "s"}, 10)) == std::vector{again, fire});
    CHECK(must(list_schedule_fires(reader, {.name = "s"}, 1)) == std::vector{again});
    CHECK(must(find_fire_of(reader, "pr-1")) == fire);
    CHECK(!must(find_fire_of(reader, "pr-2")));
    return {};
  });
}

TEST_CASE_FIXTURE(Fixture, "a pair is blocked once at a time, and a lifted block is lifted for good") {
  insert_world(*store);
  const auto insert = [&](const BlockRow& row) {
    return write(*store, [&](Tx& tx) { return insert_block(tx, row); });
  };
  CHECK(insert(block("bl-1")));
  CHECK(!insert(block("bl-2")));
  CHECK(insert(block("bl-3", "sha256:other")));
  auto unknown = block("bl-4", "sha256:third");
  unknown.contract = "sha256:none";
  CHECK(refused(ErrorCode::not_found, [&](Tx& tx) { return insert_block(tx, unknown); }) ==
        "the block of kernel 'kernel-b' cannot be stored");
  const auto lift = [](const char* id) {
    return [id](Tx& tx) { return lift_block(tx, id, "cleo", "looked into", 9, 12); };
  };
  CHECK(refused(ErrorCode::not_found, lift("bl-9")) == "there is no block bl-9");
  write(*store, lift("bl-1"));
  CHECK(refused(ErrorCode::conflict, lift("bl-1")) == "block bl-1 was lifted by cleo already");
  const auto in_force = [&] {
    return read(*store, [](Reader& reader) {
      return block_in_force(reader, "sha256:w", "kernel-b", "sha256:contract");
    });
  };
  CHECK(!in_force());
  CHECK(insert(block("bl-5")));
  CHECK(in_force()->id == "bl-5");
  auto lifted = block("bl-1");
  lifted.lifted_us = 9;
  lifted.lifted_by = "cleo";
  lifted.lift_reason = "looked into";
  lifted.evidence_seq = 12;
  CHECK(read(*store, [](Reader& reader) { return find_block(reader, "bl-1"); }) == lifted);
  CHECK(read(*store, [](Reader& reader) { return list_blocks(reader, "bl-1", 10); }).size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "the hash of a file is used only while everything about the file is as it was") {
  const FileHashRow row{.device = 0xFFFF'FFFF'FFFF'FFFF,
                        .inode = 7,
                        .bytes = 100,
                        .mtime_ns = -5,
                        .ctime_ns = 6,
                        .sha256 = std::string(64, 'a'),
                        .hashed_us = 1};
  write(*store, [&](Tx& tx) { return put_file_hash(tx, row); });
  const auto find = [&](FileHashRow identity) {
    identity.sha256.clear();
    return read(*store, [&](Reader& reader) { return find_file_hash(reader, identity); });
  };
  CHECK(find(row) == row);
  for (auto member : {&FileHashRow::device, &FileHashRow::inode, &FileHashRow::bytes}) {
    auto other = row;
    ++(other.*member);
    CHECK(!find(other));
  }
  for (auto member : {&FileHashRow::mtime_ns, &FileHashRow::ctime_ns}) {
    auto other = row;
    ++(other.*member);
    CHECK(!find(other));
  }
  auto newer = row;
  newer.mtime_ns = 9;
  newer.sha256 = std::string(64, 'b');
  write(*store, [&](Tx& tx) { return put_file_hash(tx, newer); });
  CHECK(!find(row));
  CHECK(find(newer) == newer);
  newer.sha256 = "short";
  refused(ErrorCode::conflict, [&](Tx& tx) { return put_file_hash(tx, newer); });
  for (std::uint64_t inode = 100; inode < 110; ++inode) {
    auto one = row;
    one.inode = inode;
    one.hashed_us = static_cast<std::int64_t>(inode);
    write(*store, [&](Tx& tx) { return put_file_hash(tx, one); });
  }
  CHECK(write(*store, [](Tx& tx) { return trim_file_hashes(tx, 3); }) == 8);
  auto kept = row;
  kept.hashed_us = kept.inode = 107;
  CHECK(find(kept) == kept);
  kept.inode = 106;
  CHECK(!find(kept));
}

TEST_CASE_FIXTURE(Fixture,
                  "a router's watermark moves forwards alone, and one that has gone hands nothing over") {
  const auto advance = [&](std::uint64_t number) {
    write(*store, [&](Tx& tx) { return advance_watermark(tx, "r", number, 1); });
    return read(*store, [](Reader& reader) { return window_watermark(reader, "r"); });
  };
  CHECK(advance(5) == 5);
  CHECK(advance(3) == 5);
  const auto note = [&](std::uint64_t number) {
    write(*store, [&](Tx& tx) { return note_model_window(tx, "r", "tiny", number); });
    return read(*store, [](Reader& reader) { return model_window(reader, "r", "tiny"); });
  };
  CHECK(note(4) == 4);
  CHECK(note(2) == 4);
  CHECK(!read(*store, [](Reader& reader) { return model_window(reader, "r", "other"); }));
  CHECK(write(*store, [](Tx& tx) { return end_router(tx, "r", 2); }));
  CHECK(!write(*store, [](Tx& tx) { return end_router(tx, "r", 3); }));
  CHECK(advance(7) > 7);
  CHECK(!read(*store, [](Reader& reader) { return model_window(reader, "r", "tiny"); }));
  CHECK(write(*store, [](Tx& tx) { return end_router(tx, "never seen", 2); }));
}

TEST_CASE_FIXTURE(Fixture, "what is redacted of one promotion leaves that of the others") {
  const StageKey key = insert_running_stage(*store);
  StreamStateRow state{.stage = key, .clause = "c", .slice = "", .watermark = 1, .state = "s"};
  write(*store, [&](Tx& tx) -> Result<void> {
    must(put_stream_state(tx, state));
    auto ended = promotion_row("pr-2");
    must(insert_promotion(tx, ended));
    must(insert_stage_run(tx, {.key = {"pr-2", "canary", 1}}));
    state.stage = {"pr-2", "canary", 1};
    return put_stream_state(tx, state);
  });
  CHECK(write(*store, [](Tx& tx) { return delete_stream_states(tx, "pr-1"); }) == 1);
  CHECK(write(*store, [](Tx& tx) { return delete_stream_states(tx, "pr-1"); }) == 0);
  CHECK(read(*store, [&](Reader& reader) { return find_stream_state(reader, state.stage, "c", ""); }) ==
        state);
  CHECK(!write(*store, [](Tx& tx) { return delete_blob(tx, "sha256:none"); }));
}

TEST_CASE("a schedule that an older version of the program deleted goes on with its revision") {
  TempDir dir;
  const auto path = (dir.path() / "driftgate.db").string();
  std::fclose(std::fopen(path.c_str(), "a"));
  auto connection = must(Connection::open(path, Connection::Mode::read_write, ""));
  must(migrate(*connection, embedded_migrations().first(8), 1));
  must(connection->execute(R"sql(
    INSERT INTO entries(seq, time_us, kind, actor, bytes) VALUES
      (0, 1, 'schedule_deleted', 'sam', CAST('{"body":{"revision":3,"schedule":"nightly"}}' AS BLOB)),
      (1, 2, 'schedule_deleted', 'sam', CAST('{"body":{"revision":2,"schedule":"nightly"}}' AS BLOB)),
      (2, 3, 'schedule_set', 'sam', CAST('{"body":{"revision":9,"schedule":"weekly"}}' AS BLOB));)sql",
                           "fill"));
  must(migrate(*connection, embedded_migrations().first(9), 2));
  Reader reader(*connection);
  CHECK(must(first_revision_of(reader, "nightly")) == 4);
  CHECK(must(first_revision_of(reader, "weekly")) == 1);
}
