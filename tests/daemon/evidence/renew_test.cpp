#include <doctest/doctest.h>

#include <fstream>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "daemon/store/sqlite/migrate.hpp"
#include "tests/daemon/evidence/entries.hpp"
#include "tests/daemon/evidence/naive_merkle.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;

namespace {

constexpr std::size_t kMigrationsBefore = 3;  ///< those before the index by blocks
constexpr std::int64_t kEntries = 2'100;      ///< two blocks, 32 groups and a rest
constexpr store::Sql kInsert{"insert entry",
                             "INSERT INTO entries(seq, time_us, kind, actor, model, bytes) "
                             "VALUES(?1, ?2, 'state_changed', 'driftgate', ?3, ?4)"};

}  // namespace

TEST_CASE("entries of an older database get their nodes and index before the first new one") {
  TempDir dir;
  std::vector<std::string> leaves;
  {
    const std::string path = (dir.path() / "driftgate.db").string();
    std::ofstream(path).close();
    auto connection = must(store::Connection::open(path, store::Connection::Mode::read_write, ""));
    must(store::migrate(*connection, store::embedded_migrations().first(kMigrationsBefore), 1));
    store::Tx tx(*connection);
    must(connection->execute("BEGIN", "test"));
    for (std::int64_t seq = 0; seq < kEntries; ++seq) {
      auto entry = draft(seq);
      entry.subject.model = seq % 5 == 0 ? "rare" : "tiny";
      leaves.push_back(must(schema::encode_entry(seq, entry)));
      must(tx.run(kInsert, {seq, seq, entry.subject.model, store::Blob{leaves.back()}}));
    }
    must(connection->execute("COMMIT", "test"));
  }
  auto store = open_store(dir.path());
  CHECK(!verify_log(*store));
  must(renew_derived(*store));
  must(renew_derived(*store));
  CHECK(must(verify_log(*store)) == kEntries);
  CHECK(read(*store, [](store::Reader& reader) { return indexed_size(reader); }) == 2 * kIndexBlock);
  CHECK(read(*store, [](store::Reader& reader) { return root_at(reader, kEntries); }) == naive_root(leaves));
  const auto page = read(
      *store, [](store::Reader& reader) { return query_entries(reader, {.model = "rare", .limit = 1'000}); });
  CHECK(page.entries.size() == kEntries / 5);
  CHECK(append_one(*store, draft(1)).seq == kEntries);
  CHECK(must(verify_log(*store)) == kEntries + 1);
}
