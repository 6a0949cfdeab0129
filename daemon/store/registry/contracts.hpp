#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A registered contract: immutable, its digest is its identity; several may share a name.
struct ContractRow {
  std::string digest{};     ///< "sha256:…" of `canonical`
  std::string name{};       ///< metadata.name
  std::string canonical{};  ///< RFC 8785 bytes of the parsed document
  std::string registrant{};
  std::int64_t registered_us = 0;
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  bool operator==(const ContractRow&) const = default;
};

/// True when it was new; false when the same digest was there (nothing changes).
Result<bool> insert_contract(Tx& tx, const ContractRow& contract);
Result<std::optional<ContractRow>> find_contract(Reader& reader, std::string_view digest);
/// The newest contract with this name.
Result<std::optional<ContractRow>> find_contract_by_name(Reader& reader, std::string_view name);
/// Oldest first, digests after `after` in registration order ("" = from the start), at most `limit`.
Result<std::vector<ContractRow>> list_contracts(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
