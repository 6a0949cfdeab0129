#include "daemon/store/registry/kernels.hpp"

#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{"insert kernel",
                      "INSERT INTO kernels(name, digest, canonical, registrant, registered_us, evidence_seq) "
                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6)"};
constexpr Sql kFind{"find kernel",
                    "SELECT name, digest, canonical, registrant, registered_us, evidence_seq FROM kernels "
                    "WHERE name = ?1"};
constexpr Sql kList{"list kernels",
                    "SELECT name, digest, canonical, registrant, registered_us, evidence_seq FROM kernels "
                    "WHERE ordinal > coalesce((SELECT ordinal FROM kernels WHERE name = ?1), 0) "
                    "ORDER BY ordinal LIMIT ?2"};

}  // namespace

Result<bool> insert_kernel(Tx& tx, const KernelRow& kernel) {
  auto old = TRY(find_kernel(tx, kernel.name));
  if (old && old->digest == kernel.digest) return false;
  if (old) {
    return schema::failf(ErrorCode::already_exists,
                         "kernel '{}' is registered as {}: register the other one under a new name",
                         kernel.name, old->digest);
  }
  TRY(tx.run(kInsert, {kernel.name, kernel.digest, Blob{kernel.canonical}, kernel.registrant,
                       kernel.registered_us, kernel.evidence_seq}));
  return true;
}

Result<std::optional<KernelRow>> find_kernel(Reader& reader, std::string_view name) {
  return find_row<KernelRow>(reader, kFind, {name});
}

Result<std::vector<KernelRow>> list_kernels(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<KernelRow>(reader, kList, {after, limit});
}

}  // namespace driftgate::store
