#include "daemon/store/registry/versions.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert version",
    "INSERT INTO versions(id, checkpoint, kernel, engine, base_url, created_us) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(checkpoint, kernel, engine, base_url) DO NOTHING"};
constexpr Sql kFindSame{"find same version",
                        "SELECT id, checkpoint, kernel, engine, created_us, base_url FROM versions "
                        "WHERE checkpoint = ?1 AND kernel = ?2 AND engine = ?3 AND base_url = ?4"};
constexpr Sql kFind{
    "find version",
    "SELECT id, checkpoint, kernel, engine, created_us, base_url FROM versions WHERE id = ?1"};

}  // namespace

Result<VersionRow> ensure_version(Tx& tx, const VersionRow& version) {
  TRY(explain(tx.run(kInsert, {version.id, version.checkpoint, version.kernel, version.engine,
                               version.base_url, version.created_us}),
              fmt::format("version of engine '{}' with kernel '{}' cannot be stored", version.engine,
                          version.kernel)));
  return must_exist(
      find_row<VersionRow>(tx, kFindSame,
                           {version.checkpoint, version.kernel, version.engine, version.base_url}),
      "the version just stored is missing");
}

Result<std::optional<VersionRow>> find_version(Reader& reader, std::string_view id) {
  return find_row<VersionRow>(reader, kFind, {id});
}

}  // namespace driftgate::store
