#include "daemon/store/registry/contracts.hpp"

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert contract",
    "INSERT INTO contracts(digest, name, canonical, registrant, registered_us, evidence_seq) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(digest) DO NOTHING"};
constexpr Sql kFind{"find contract",
                    "SELECT digest, name, canonical, registrant, registered_us, evidence_seq FROM contracts "
                    "WHERE digest = ?1"};
constexpr Sql kFindByName{
    "find contract by name",
    "SELECT digest, name, canonical, registrant, registered_us, evidence_seq FROM contracts "
    "WHERE name = ?1 ORDER BY ordinal DESC LIMIT 1"};
constexpr Sql kList{"list contracts",
                    "SELECT digest, name, canonical, registrant, registered_us, evidence_seq FROM contracts "
                    "WHERE ordinal > coalesce((SELECT ordinal FROM contracts WHERE digest = ?1), 0) "
                    "ORDER BY ordinal LIMIT ?2"};

}  // namespace

Result<bool> insert_contract(Tx& tx, const ContractRow& contract) {
  auto changed = TRY(tx.run(kInsert, {contract.digest, contract.name, Blob{contract.canonical},
                                      contract.registrant, contract.registered_us, contract.evidence_seq}));
  return changed == 1;
}

Result<std::optional<ContractRow>> find_contract(Reader& reader, std::string_view digest) {
  return find_row<ContractRow>(reader, kFind, {digest});
}

Result<std::optional<ContractRow>> find_contract_by_name(Reader& reader, std::string_view name) {
  return find_row<ContractRow>(reader, kFindByName, {name});
}

Result<std::vector<ContractRow>> list_contracts(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<ContractRow>(reader, kList, {after, limit});
}

}  // namespace driftgate::store
