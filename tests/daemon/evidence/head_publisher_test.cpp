#include "daemon/evidence/log/head_publisher.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

Checkpoint published(const fs::path& folder) {
  const auto key = must(SigningKey::load((folder / "log.key").string()));
  return must(open_checkpoint(content_of(folder / "head.note"), HeadOptions{}.origin, key.public_key()));
}

}  // namespace

TEST_CASE("the newest head is published after commits and once more at the end") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    auto heads = must(HeadPublisher::start(*store, {}));
    CHECK(published(dir.path()) == Checkpoint{HeadOptions{}.origin, 0, empty_root()});
    append_one(*store, draft(1));
    must(heads->wait_published(1));
    CHECK(published(dir.path()).size == 1);
    for (int i = 0; i < 50; ++i) append_one(*store, draft(i));
    heads->stop();
    const auto root = read(*store, [](store::Reader& reader) { return root_at(reader, 51); });
    CHECK(published(dir.path()) == Checkpoint{HeadOptions{}.origin, 51, root});
    CHECK(heads->published_size() == 51);
    CHECK(!heads->last_failure());
  }
  live(dir.path(), 3);
  CHECK(published(dir.path()).size == 54);
}

TEST_CASE_FIXTURE(StoreFixture, "a head of the tree as it was is signed on demand") {
  auto heads = must(HeadPublisher::start(*store, {}));
  for (int i = 0; i < 5; ++i) append_one(*store, draft(i));
  const auto key = must(SigningKey::load((dir.path() / "log.key").string())).public_key();
  CHECK(must(open_checkpoint(must(heads->signed_head()), HeadOptions{}.origin, key)).size == 5);
  CHECK(must(open_checkpoint(must(heads->signed_head_at(3)), HeadOptions{}.origin, key)).size == 3);
  CHECK(heads->signed_head_at(6).error().code == ErrorCode::not_found);
  CHECK(heads->verifier_key() == verifier_key_text(HeadOptions{}.origin, key));
}

TEST_CASE("a swapped-in old database is a rollback and refused") {
  TempDir dir;
  live(dir.path(), 5);
  fs::copy_file(dir.path() / "driftgate.db", dir.path() / "old.db");
  live(dir.path(), 5);
  fs::rename(dir.path() / "old.db", dir.path() / "driftgate.db");
  auto store = open_store(dir.path());
  const auto refused = HeadPublisher::start(*store, {});
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::corrupt);
  CHECK(refused.error().message.find("rollback detected") == 0);
}

TEST_CASE("another log of the same length is refused") {
  TempDir dir;
  TempDir other;
  live(dir.path(), 5);
  {
    auto store = open_store(other.path());
    for (int i = 0; i < 5; ++i) append_one(*store, draft(i, "another history"));
  }
  fs::copy_file(other.path() / "driftgate.db", dir.path() / "driftgate.db",
                fs::copy_options::overwrite_existing);
  auto store = open_store(dir.path());
  const auto refused = HeadPublisher::start(*store, {});
  REQUIRE(!refused);
  CHECK(refused.error().message.find("rollback detected") == 0);
}

TEST_CASE("a missing, altered or foreign head is refused while the log has entries") {
  TempDir dir;
  live(dir.path(), 5);
  const auto refused = [&] {
    auto store = open_store(dir.path());
    const auto started = HeadPublisher::start(*store, {});
    return !started && started.error().code == ErrorCode::corrupt;
  };
  const std::string note = content_of(dir.path() / "head.note");
  for (std::size_t cut = 0; cut < note.size(); cut += 7) {
    CAPTURE(cut);
    std::ofstream(dir.path() / "head.note", std::ios::binary | std::ios::trunc) << note.substr(0, cut);
    CHECK(refused());
  }
  fs::remove(dir.path() / "head.note");
  CHECK(refused());
  std::ofstream(dir.path() / "head.note", std::ios::binary) << note;
  fs::rename(dir.path() / "log.key", dir.path() / "kept.key");
  CHECK(refused());
  must(must(SigningKey::generate()).save((dir.path() / "log.key").string()));
  CHECK(refused());
  fs::rename(dir.path() / "kept.key", dir.path() / "log.key");
  live(dir.path(), 1);
  CHECK(published(dir.path()).size == 6);
}

TEST_CASE_FIXTURE(StoreFixture,
                  "a head that cannot be written is reported and published when it can be again") {
  const fs::path place = dir.path() / "elsewhere";
  fs::create_directory(place);
  auto heads = must(HeadPublisher::start(*store, {.head_file = place / "head.note"}));
  fs::rename(place, dir.path() / "away");
  append_one(*store, draft(1));
  CHECK(heads->wait_published(1).error().code == ErrorCode::io);
  CHECK(heads->last_failure());
  fs::rename(dir.path() / "away", place);
  append_one(*store, draft(2));
  for (int tries = 0; tries < 10 && heads->published_size() < 2; ++tries) {
    [[maybe_unused]] const auto again = heads->wait_published(2);
  }
  CHECK(heads->published_size() == 2);
  CHECK(!heads->last_failure());
}
