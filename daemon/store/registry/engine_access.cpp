#include "daemon/store/registry/engine_access.hpp"

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{
    "put engine access",
    "INSERT INTO engine_access(base_url, key_file, key_header, ca_file, ca_digest, evidence_seq) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(base_url) DO UPDATE SET key_file = ?2, "
    "key_header = ?3, ca_file = ?4, ca_digest = ?5, evidence_seq = ?6"};
constexpr Sql kDelete{"delete engine access", "DELETE FROM engine_access WHERE base_url = ?1"};
constexpr Sql kFind{"find engine access",
                    "SELECT base_url, key_file, key_header, ca_file, ca_digest, evidence_seq "
                    "FROM engine_access WHERE base_url = ?1"};
constexpr Sql kList{"list engine access",
                    "SELECT base_url, key_file, key_header, ca_file, ca_digest, evidence_seq "
                    "FROM engine_access WHERE base_url > ?1 ORDER BY base_url LIMIT ?2"};

}  // namespace

Result<void> put_engine_access(Tx& tx, const EngineAccessRow& row) {
  constexpr std::string_view kFailed = "cannot store what an engine asks for";
  if (!row.access().any()) return explain(tx.run(kDelete, {row.base_url}), std::string(kFailed));
  return explain(tx.run(kPut, {row.base_url, row.key_file, row.key_header, row.ca_file, row.ca_digest,
                               row.evidence_seq}),
                 std::string(kFailed));
}

Result<std::optional<EngineAccessRow>> find_engine_access(Reader& reader, std::string_view base_url) {
  return find_row<EngineAccessRow>(reader, kFind, {base_url});
}

Result<std::vector<EngineAccessRow>> list_engine_access(Reader& reader, std::string_view after,
                                                        std::int64_t limit) {
  return list_rows<EngineAccessRow>(reader, kList, {after, limit});
}

Result<base::EngineAccess> access_at(Reader& reader, std::string_view base_url) {
  const auto row = TRY(find_engine_access(reader, base_url));
  return row ? row->access() : base::EngineAccess{};
}

}  // namespace driftgate::store
