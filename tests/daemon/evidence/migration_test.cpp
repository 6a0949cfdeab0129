// A log that an earlier revision wrote, with columns beside its entries and an index of another shape.
#include <doctest/doctest.h>

#include <cstdlib>

#include "daemon/evidence/backup.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kSize = 1'164;
constexpr const char* kBytes = "sha256:962787c09338a3bb1ebd3a78c8fca22f7460dd9021ad753bf47d1e2fbc12b011";

void unpack(const fs::path& folder) {
  fs::create_directories(folder);
  const std::string command = "tar -xJf tests/vectors/log_7aca2eb.tar.xz -C " + folder.string();
  REQUIRE(std::system(command.c_str()) == 0);
}

std::size_t found(store::Store& store, EntryFilter filter) {
  filter.limit = kMaxPage;
  return read(store, [&](store::Reader& reader) { return query_entries(reader, filter); }).entries.size();
}

/// That the log has the entries of the folder, and that they are found.
void check_log(store::Store& store) {
  CHECK(must(verify_log(store)) >= static_cast<std::uint64_t>(kSize));
  schema::Sha256 digest;
  for (std::int64_t seq = 0; seq < kSize; ++seq)
    digest.update(read(store, [&](store::Reader& reader) { return find_entry(reader, seq); }).value().bytes);
  CHECK(schema::digest_text(digest.finish()) == kBytes);
  must(verify_search(store));
  CHECK(found(store, {.promotion = "pr-00000000000000000000000003"}) == 200);
  CHECK(found(store, {.promotion = "pr-00000000000000000000000005"}) == 164);
  CHECK(found(store, {.actor = "person-2"}) == 4);
  CHECK(found(store, {.clause = "numerical.clause-7", .verdict = "pass"}) == 38);
}

}  // namespace

TEST_CASE("a log with columns keeps its bytes, its tree and its head, is indexed anew, and goes on") {
  TempDir dir;
  unpack(dir.path());
  {
    auto store = open_store(dir.path());
    CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) == 0);
    CHECK(found(*store, {.actor = "person-2"}) == 4);  // without an index, too
    must(index_log(*store));
    CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) == 2 * kIndexBlock);
    const auto heads =
        must(HeadPublisher::start(*store, {}));  // refuses what the published head does not cover
    check_log(*store);
    auto next = draft(1);
    next.subject.promotion = "pr-00000000000000000000000002";
    const auto appended = append_one(*store, next);
    CHECK(appended.seq == kSize);
    CHECK(must(schema::decode_entry(appended.bytes)).draft.subject.prior == 599);
  }
  CHECK_MESSAGE(refusal(dir.path()).empty(), refusal(dir.path()));
  check_log(*open_store(dir.path()));
}

TEST_CASE("a backup of a log with columns is restored") {
  TempDir dir;
  const fs::path data = dir.path() / "data", backup = dir.path() / "backup";
  unpack(data);
  fs::create_directory(backup);
  fs::rename(data / "driftgate.db", backup / "driftgate.db");
  fs::copy_file(data / "head.note", backup / "head.note");
  const auto restored = must(restore_backup({.backup = backup, .data_dir = data, .head = {}, .now_us = 5}));
  CHECK(restored.tree_size == static_cast<std::uint64_t>(kSize));
  CHECK_MESSAGE(refusal(data).empty(), refusal(data));
  check_log(*open_store(data));
}
