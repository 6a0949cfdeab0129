// Restores that accept a loss: the epochs that they begin, and what is left when one cannot be finished.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "daemon/evidence/backup.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/epochs.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

const std::string kOrigin = HeadOptions{}.origin;

}  // namespace

TEST_CASE("a restore that cannot put the database in its place leaves a folder on which the daemon starts") {
  TempDir dir;
  const fs::path data = dir.path() / "data", backups = dir.path() / "backups";
  live(data, 10);
  {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    must(make_backup(*store, *heads, backups, "one"));
  }
  live(data, 5);
  const auto restore = [&](std::int64_t now_us) {
    return restore_backup({.backup = backups / "one",
                           .data_dir = data,
                           .head = {},
                           .accept_loss = true,
                           .reason = "the disk is gone",
                           .now_us = now_us});
  };
  fs::create_directory(data / "before-restore-77");  // in the way
  const auto refused = restore(77);
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::already_exists);
  CHECK_MESSAGE(refusal(data).empty(), refusal(data));
  CHECK(must(load_trust(data)).keys[0].until_us == std::nullopt);
  CHECK(must(restore(78)).epoch == 2);
  CHECK_MESSAGE(refusal(data).empty(), refusal(data));
  const TrustFile trust = must(load_trust(data));
  REQUIRE(trust.keys.size() == 2);
  CHECK(trust.keys[0].until_us == 78);
}

TEST_CASE("each accepted loss begins another epoch, of another name and key, and none is taken for another") {
  TempDir dir;
  const fs::path data = dir.path() / "data", backups = dir.path() / "backups";
  live(data, 10);
  {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    must(make_backup(*store, *heads, backups, "first"));
  }
  const std::string head = content_of(data / "head.note");
  const auto restore = [&](const char* name, std::int64_t now_us) {
    return restore_backup({.backup = backups / name,
                           .data_dir = data,
                           .head = {},
                           .accept_loss = true,
                           .reason = "the disk is gone",
                           .now_us = now_us});
  };
  live(data, 5);
  must(restore("first", 80));
  live(data, 2);
  {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    must(make_backup(*store, *heads, backups, "second"));
    CHECK(must(read_checkpoint(must(heads->signed_head()))).checkpoint.origin == kOrigin + "/epoch-2");
  }
  live(data, 3);
  CHECK(must(restore("second", 90)).epoch == 3);
  CHECK(refusal(data).empty());
  auto store = open_store(data);
  CHECK(read(*store, [](store::Reader& reader) { return log_epoch(reader); }) == 3);
  const TrustFile trust = must(load_trust(data));
  REQUIRE(trust.keys.size() == 3);
  CHECK(trust.keys[1].name == kOrigin + "/epoch-2");
  CHECK(trust.keys[1].until_us == 90);
  CHECK(trust.keys[2].name == kOrigin + "/epoch-3");
  store.reset();
  std::ofstream(data / "head.note", std::ios::trunc) << head;  // of the first epoch
  CHECK(refusal(data).find("rollback detected: the published head cannot be trusted") != std::string::npos);
}
