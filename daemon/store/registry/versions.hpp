#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// (checkpoint, kernel, engine): something that can serve.
struct VersionRow {
  std::string id{};  ///< "ve-…"
  std::string checkpoint{};
  std::string kernel{};
  std::string engine{};
  std::int64_t created_us = 0;
  std::string base_url{};  ///< the engine's, as it was: an engine may be registered anew elsewhere
  bool operator==(const VersionRow&) const = default;
};

/// The version of (checkpoint, kernel, engine, base_url) as stored: `version` itself when it was new, the
/// older one with its id when it was there.
Result<VersionRow> ensure_version(Tx& tx, const VersionRow& version);
Result<std::optional<VersionRow>> find_version(Reader& reader, std::string_view id);
/// In the order of creation, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<VersionRow>> list_versions(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
