#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/engine_access.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// What the engine at a base URL asks for, as its newest registration says. Keys stay in their files.
struct EngineAccessRow {
  std::string base_url{};
  std::string key_file{}, key_header{}, ca_file{};  ///< as base::EngineAccess has them
  std::string ca_digest{};         ///< "sha256:…" of the CA file when it was registered; or empty
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded it
  [[nodiscard]] base::EngineAccess access() const { return {key_file, key_header, ca_file}; }
  bool operator==(const EngineAccessRow&) const = default;
};

/// Replaces what is stored of the URL; an engine that asks for nothing has no row.
Result<void> put_engine_access(Tx& tx, const EngineAccessRow& row);
Result<std::optional<EngineAccessRow>> find_engine_access(Reader& reader, std::string_view base_url);
/// In the order of URLs, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<EngineAccessRow>> list_engine_access(Reader& reader, std::string_view after,
                                                        std::int64_t limit);
/// What the engine at that URL asks for.
Result<base::EngineAccess> access_at(Reader& reader, std::string_view base_url);

}  // namespace driftgate::store
