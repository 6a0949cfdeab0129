#include "daemon/store/registry/versions.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert version",
    "INSERT INTO versions(id, checkpoint, kernel, engine, base_url, created_us) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(checkpoint, kernel, engine, base_url) DO NOTHING"};
constexpr Sql kFindSame{"find same version",
                        "SELECT id, checkpoint, kernel, engine, base_url, created_us FROM versions "
                        "WHERE checkpoint = ?1 AND kernel = ?2 AND engine = ?3 AND base_url = ?4"};
constexpr Sql kFind{
    "find version",
    "SELECT id, checkpoint, kernel, engine, base_url, created_us FROM versions WHERE id = ?1"};

VersionRow read_version(const Row& row) {
  return {.id = row.text(0),
          .checkpoint = row.text(1),
          .kernel = row.text(2),
          .engine = row.text(3),
          .created_us = row.integer(5),
          .base_url = row.text(4)};
}

}  // namespace

Result<VersionRow> ensure_version(Tx& tx, const VersionRow& version) {
  TRY(explain(tx.run(kInsert, {version.id, version.checkpoint, version.kernel, version.engine,
                               version.base_url, version.created_us}),
              fmt::format("version of engine '{}' with kernel '{}' cannot be stored", version.engine,
                          version.kernel)));
  return must_exist(
      tx.one(kFindSame, {version.checkpoint, version.kernel, version.engine, version.base_url}, read_version),
      "the version just stored is missing");
}

Result<std::optional<VersionRow>> find_version(Reader& reader, std::string_view id) {
  return reader.one(kFind, {id}, read_version);
}

}  // namespace driftgate::store
