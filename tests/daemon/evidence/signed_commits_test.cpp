// Each commit of the log is signed in its transaction: what somebody changes or appends without the log's key
// is named at the next start, by the check of a running daemon and by the check of a folder, and is never
// signed.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "daemon/evidence/backup.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/head_check.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/verify/verify_folder.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

constexpr const char* kUnguarded =
    "DROP TRIGGER entries_no_update; DROP TRIGGER entries_no_delete;"
    "DROP TRIGGER tree_nodes_append; DROP TRIGGER tree_nodes_no_update; DROP TRIGGER tree_nodes_no_delete;"
    "DROP TRIGGER log_head_grows; DROP TRIGGER log_head_no_delete;";

/// Changes the database as somebody with sqlite3 would.
void change(const fs::path& folder, const std::string& script) {
  change_database(folder, kUnguarded + script);
}

/// Why the start is refused as corrupt; empty when it is not.
std::string corruption(const fs::path& folder) {
  auto store = open_store(folder);
  const auto heads = HeadPublisher::start(*store, {});
  if (heads) return {};
  CHECK(heads.error().code == ErrorCode::corrupt);
  return heads.error().describe();
}

StoredHead head_in(const fs::path& folder) {
  auto store = open_store(folder);
  return read(*store, [](store::Reader& reader) { return stored_head(reader); });
}

FolderReport verified(const fs::path& folder, std::optional<std::string> older_head = {}) {
  auto store = must(store::Store::open({.data_dir = folder, .read_only = true}));
  return must(
      verify_folder(*store, {.head = {}, .trust = must(load_trust(folder)), .older_head = older_head}));
}

std::string text_of(const FolderReport& report) {
  std::string text;
  for (const auto& finding : report.findings) text += to_text(finding.difference) + "\n";
  return text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// A folder as a program that signed no commits leaves it: entries, a key and the published head of
/// `published` entries.
void live_unsigned(const fs::path& folder, int entries, std::uint64_t published) {
  auto store = open_store(folder);
  for (int i = 0; i < entries; ++i) append_one(*store, draft(i));
  const auto key = must(SigningKey::generate());
  must(key.save((folder / "log.key").string()));
  const auto root = read(*store, [&](store::Reader& reader) { return root_at(reader, published); });
  std::ofstream(folder / "head.note") << must(sign_checkpoint({HeadOptions{}.origin, published, root}, key));
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture,
                  "the head that the database keeps covers each commit as soon as it is acknowledged") {
  auto heads = must(HeadPublisher::start(*store, {}));
  const auto key = must(SigningKey::load((dir.path() / "log.key").string())).public_key();
  for (std::uint64_t size = 0; size <= 140; ++size) {
    const auto head = read(*store, [](store::Reader& reader) { return stored_head(reader); });
    const auto root = read(*store, [&](store::Reader& reader) { return root_at(reader, size); });
    REQUIRE(must(open_checkpoint(head.note, HeadOptions{}.origin, key)) ==
            Checkpoint{HeadOptions{}.origin, size, root});
    CHECK(head.note == must(heads->signed_head()));
    append_one(*store, draft(1));
  }
}

TEST_CASE("commits of many threads, some of whose writes are undone, stay signed") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    auto heads = must(HeadPublisher::start(*store, {}));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 60; ++i) {
          const auto done = store->write("load", [&](store::Tx& tx) -> Result<void> {
            auto appended = append(tx, draft(i));
            if (!appended) return std::unexpected(appended.error());
            if ((i + thread) % 3 == 0) return schema::fail(ErrorCode::conflict, "undone");
            return {};
          });
          if (!done) CHECK(done.error().code == ErrorCode::conflict);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  CHECK(corruption(dir.path()).empty());
  CHECK(head_in(dir.path()).size == 240);
  CHECK(verified(dir.path()).result == BundleResult::ok);
}

TEST_CASE("entries that were appended without the key are refused, and never signed") {
  for (const int before : {0, 5, 64, 200}) {
    for (const int forged : {1, 70}) {
      CAPTURE(before);
      CAPTURE(forged);
      TempDir dir;
      live(dir.path(), before);
      const StoredHead signed_head = head_in(dir.path());
      {
        auto store = open_store(dir.path());  // nodes and index fit, as the program's own source makes them
        for (int i = 0; i < forged; ++i) append_one(*store, draft(i, "forged"));
      }
      for (int tries = 0; tries < 2; ++tries) {
        const auto why = corruption(dir.path());
        CHECK_MESSAGE(has(why, "have no signature"), why);
        CHECK(has(why, std::to_string(before)));
      }
      CHECK(head_in(dir.path()) == signed_head);
      const auto report = verified(dir.path());
      CHECK(report.result == BundleResult::tampered);
      CHECK_MESSAGE(has(text_of(report), "have no signature"), text_of(report));
    }
  }
}

TEST_CASE("an emptied, dropped or changed head of the database is refused by its name") {
  const std::pair<const char*, const char*> changes[] = {
      {"DELETE FROM log_head", "the signed head of the evidence log is gone"},
      {"UPDATE log_head SET size = 0, note = ''", "somebody emptied the table"},
      {"DROP TABLE log_head; CREATE TABLE log_head(id INTEGER PRIMARY KEY, size INTEGER, note TEXT) STRICT;"
       "INSERT INTO log_head VALUES(0, 0, '')",
       "somebody emptied the table"},
      {"DROP TABLE log_head", "cannot be read"},
      {"UPDATE log_head SET size = 4", "signed head"},
      {"UPDATE log_head SET note = 'x'", "not a signed note"},
      {"UPDATE log_head SET note = replace(note, 'driftgate', 'driftgatf')", "signed head"},
      {"DELETE FROM entries WHERE seq = 69", "somebody removed the last ones"},
  };
  for (const auto& [script, named] : changes) {
    CAPTURE(script);
    TempDir dir;
    live(dir.path(), 70);
    // The published head may be an older one: then it alone does not tell.
    const std::string older = content_of(dir.path() / "head.note");
    live(dir.path(), 0);
    std::ofstream(dir.path() / "head.note") << older;
    const bool shorter = has(script, "entries");
    change(dir.path(), script);
    auto store = open_store(dir.path());
    const auto heads = HeadPublisher::start(*store, {});
    REQUIRE(!heads);
    const auto why = heads.error().describe();
    CHECK_MESSAGE((has(why, named) || (shorter && has(why, "rollback detected"))), why);
    store.reset();
    const auto report = verified(dir.path());
    CHECK(report.result == BundleResult::tampered);
    CHECK_MESSAGE(has(text_of(report), named), text_of(report));
  }
}

TEST_CASE("changed entries and nodes are named by the check of a folder") {
  const std::pair<const char*, const char*> changes[] = {
      {"UPDATE entries SET bytes = CAST(replace(bytes, 'x', 'y') AS BLOB) WHERE seq = 70",
       "evidence entries 64 to 127: their bytes"},
      {"UPDATE entries SET bytes = CAST(replace(bytes, 'x', 'y') AS BLOB) WHERE seq = 199",
       "its tree of 200 entries is not the one that was signed"},
      {"UPDATE tree_nodes SET hash = zeroblob(32) WHERE position = 0",
       "evidence entries 0 to 63: their bytes"},
      {"UPDATE tree_nodes SET hash = zeroblob(32) WHERE position = 2", "node 2 of the tree"},
      {"DELETE FROM entries WHERE seq = 3", "evidence entry 3: it is missing"},
  };
  for (const auto& [script, named] : changes) {
    CAPTURE(script);
    TempDir dir;
    live(dir.path(), 200);
    REQUIRE(verified(dir.path()).result == BundleResult::ok);
    change(dir.path(), script);
    const auto report = verified(dir.path());
    CHECK(report.result == BundleResult::tampered);
    CHECK_MESSAGE(has(text_of(report), named), text_of(report));
  }
}

TEST_CASE("what another process appends under a running daemon is not signed, and stops its writes") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    auto heads = must(HeadPublisher::start(*store, {}));
    for (int i = 0; i < 3; ++i) append_one(*store, draft(i));
    const std::string before = must(heads->signed_head());
    change_database(dir.path(), "INSERT INTO entries(seq, bytes) VALUES(3, x'00')");
    for (int tries = 0; tries < 3; ++tries) {
      const auto refused = store->write("append", [](store::Tx& tx) { return append(tx, draft(9)); });
      REQUIRE(!refused);
      CHECK(refused.error().code == ErrorCode::corrupt);
      CHECK(has(refused.error().message, "forged"));
    }
    CHECK(must(heads->signed_head()) == before);
    heads->stop();
  }
  CHECK(has(corruption(dir.path()), "have no signature"));
}

TEST_CASE("a folder whose commits were not signed is taken over once") {
  TempDir dir;
  live_unsigned(dir.path(), 70, 65);
  CHECK(verified(dir.path()).result != BundleResult::ok);
  CHECK(corruption(dir.path()).empty());
  CHECK(head_in(dir.path()).size == 70);
  CHECK(commits_are_signed({.head_file = dir.path() / "head.note"}));
  live(dir.path(), 3);
  CHECK(verified(dir.path()).result == BundleResult::ok);
  change(dir.path(), "UPDATE log_head SET size = 0, note = ''");
  CHECK(has(corruption(dir.path()), "somebody emptied the table"));
}

TEST_CASE("a folder whose commits were not signed must extend its published head") {
  TempDir dir, other;
  live_unsigned(dir.path(), 70, 65);
  live_unsigned(other.path(), 60, 60);
  fs::copy_file(other.path() / "driftgate.db", dir.path() / "driftgate.db",
                fs::copy_options::overwrite_existing);
  CHECK(has(corruption(dir.path()), "rollback detected"));
}

TEST_CASE("a head of a time before the key in force comes with the proof that the newest head continues it") {
  TempDir dir;
  const KeyFile file{KeyUse::head, dir.path() / "log.key", HeadOptions{}.origin};
  std::vector<std::string> kept;
  for (int rotation = 0; rotation < 3; ++rotation) {
    auto store = open_store(dir.path());
    auto heads = must(HeadPublisher::start(*store, {}));
    for (int i = 0; i < 10; ++i) append_one(*store, draft(i));
    kept.push_back(must(heads->signed_head()));
    heads->stop();
    if (rotation < 2) must(rotate_key(*store, file, "yearly", 50 + rotation));
  }
  auto store = open_store(dir.path());
  auto heads = must(HeadPublisher::start(*store, {}));
  const TrustFile trust = must(load_trust(dir.path()));
  REQUIRE(trust.keys.size() == 3);
  const std::uint64_t now = 32;
  for (std::uint64_t size = 0; size <= now; ++size) {
    CAPTURE(size);
    const HeadOf head = must(heads->head_of(size));
    const auto said = must(read_checkpoint(head.note)).checkpoint;
    bool is_trusted = false;
    for (const TrustedKey& key : head_keys_at(trust, HeadOptions{}.origin, said.size)) {
      is_trusted = is_trusted || open_checkpoint(head.note, HeadOptions{}.origin, key.key).has_value();
    }
    CHECK(is_trusted);
    CHECK(said.size == head.note_size);
    CHECK(verify_consistency(size, said.size, head.root, said.root, head.continuation));
    CHECK(heads->signed_head_at(size).has_value() == (said.size == size));
    CHECK((said.size == size) == (size >= trust.keys[2].from_size));
  }
  heads.reset();
  store.reset();
  for (const std::string& note : kept) CHECK(verified(dir.path(), note).result == BundleResult::ok);
  auto changed = kept[0];
  changed[changed.find("\n10\n") + 1] = '2';
  CHECK(verified(dir.path(), changed).result == BundleResult::untrusted);
  TempDir other;
  live(other.path(), 5);
  CHECK(verified(dir.path(), content_of(other.path() / "head.note")).result == BundleResult::untrusted);
}

TEST_CASE("a backup with entries that nobody signed is not restored, whatever loss is accepted") {
  TempDir dir;
  const fs::path data = dir.path() / "data", backups = dir.path() / "backups";
  {
    auto store = open_store(data);
    auto heads = must(HeadPublisher::start(*store, {}));
    for (int i = 0; i < 70; ++i) append_one(*store, draft(i));
    must(make_backup(*store, *heads, backups, "one"));
  }
  {
    auto store = open_store(backups / "one");
    append_one(*store, draft(1, "forged"));
  }
  for (const bool accept_loss : {false, true}) {
    const auto refused = restore_backup({.backup = backups / "one",
                                         .data_dir = data,
                                         .head = {},
                                         .accept_loss = accept_loss,
                                         .reason = "try",
                                         .now_us = 7});
    REQUIRE(!refused);
    CHECK(has(refused.error().describe(), "have no signature"));
  }
}

TEST_CASE("an upgrade that was interrupted while the log was indexed is incomplete and not tampered") {
  TempDir dir;
  live(dir.path(), static_cast<int>(3 * kIndexBlock));
  CHECK(verified(dir.path()).result == BundleResult::ok);
  for (const int left : {0, 1}) {
    CAPTURE(left);
    const auto blocks = std::to_string(left);
    change_database(dir.path(), "DELETE FROM index_places WHERE block >= " + blocks +
                                    "; DELETE FROM index_nodes WHERE block >= " + blocks);
    const auto report = verified(dir.path());
    CHECK(report.result == BundleResult::incomplete);
    CHECK_MESSAGE(has(text_of(report), "the index of the log: it covers " +
                                           std::to_string(left * kIndexBlock) + " entries of 1536"),
                  text_of(report));
    CHECK(report.findings.size() == 2);
    must(index_log(*open_store(dir.path())));  // as at a start
    CHECK_MESSAGE(verified(dir.path()).result == BundleResult::ok, text_of(verified(dir.path())));
  }
  change_database(dir.path(),
                  "DELETE FROM index_places WHERE block >= 1; DELETE FROM index_nodes WHERE block >= 1;"
                  "UPDATE index_nodes SET max_us = 5 WHERE block = 0");
  CHECK(verified(dir.path()).result == BundleResult::tampered);  // what is there must be right
}
