#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A registered kernel: a name for an identity.
struct KernelRow {
  std::string name{};
  std::string digest{};     ///< "sha256:…" of `canonical`
  std::string canonical{};  ///< canonical JSON of the kernel's description
  std::string registrant{};
  std::int64_t registered_us = 0;
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  bool operator==(const KernelRow&) const = default;
};

/// True when it was new, false when the same name and digest were there; `already_exists` when the name
/// stands for another identity.
Result<bool> insert_kernel(Tx& tx, const KernelRow& kernel);
Result<std::optional<KernelRow>> find_kernel(Reader& reader, std::string_view name);
/// In the order of creation, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<KernelRow>> list_kernels(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
