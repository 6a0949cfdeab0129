#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A base URL that serves exactly one (checkpoint, kernel).
struct EngineRow {
  std::string name{};
  std::string base_url{};        ///< "http[s]://host:port[/prefix]", see net::engine_base_url
  std::string kernel{};          ///< name of a registered kernel
  std::string checkpoint{};      ///< digest of the checkpoint's manifest
  std::string checkpoint_uri{};  ///< where the weights are; may be empty
  std::string abilities{};       ///< JSON: what the probe found
  std::int64_t probed_us = 0;
  std::int64_t registered_us = 0;
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  std::int64_t max_requests_per_second = 0;  ///< as registered; 0 = not stated
  bool operator==(const EngineRow&) const = default;
};

/// True when it was new, false when the same engine (all but abilities and times) was there; `already_exists`
/// when the name stands for another one; `not_found` when the kernel is not registered.
Result<bool> insert_engine(Tx& tx, const EngineRow& engine);
/// Replaces what an engine's name stands for; existing versions stay as they are. `not_found` without such an
/// engine or kernel, `conflict` when a promotion that has not ended uses the engine.
Result<void> replace_engine(Tx& tx, const EngineRow& engine);
Result<std::optional<EngineRow>> find_engine(Reader& reader, std::string_view name);
/// In the order of creation, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<EngineRow>> list_engines(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
