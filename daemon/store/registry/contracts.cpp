#include "daemon/store/registry/contracts.hpp"

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

ContractRow read_contract(const Row& row) {
  return {.digest = row.text(0),
          .name = row.text(1),
          .canonical = row.text(2),
          .registrant = row.text(3),
          .registered_us = row.integer(4),
          .evidence_seq = row.integer(5)};
}

}  // namespace

Result<bool> insert_contract(Tx& tx, const ContractRow& contract) {
  auto changed = TRY(tx.run(kInsert, {contract.digest, contract.name, Blob{contract.canonical},
                                      contract.registrant, contract.registered_us, contract.evidence_seq}));
  return changed == 1;
}

Result<std::optional<ContractRow>> find_contract(Reader& reader, std::string_view digest) {
  return reader.one(kFind, {digest}, read_contract);
}

Result<std::optional<ContractRow>> find_contract_by_name(Reader& reader, std::string_view name) {
  return reader.one(kFindByName, {name}, read_contract);
}

Result<std::vector<ContractRow>> list_contracts(Reader& reader, std::string_view after, std::int64_t limit) {
  return reader.all(kList, {after, limit}, read_contract);
}

}  // namespace driftgate::store
