#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

/// Names one attempt at one stage. As text: "promotion/stage/attempt", the data plane's stage key.
struct StageKey {
  std::string promotion{};
  std::string stage{};
  std::int64_t attempt = 1;
  bool operator==(const StageKey&) const = default;
  [[nodiscard]] std::string text() const { return promotion + "/" + stage + "/" + std::to_string(attempt); }
};

/// One attempt at one stage.
struct StageRunRow {
  StageKey key{};
  StageRunState state = StageRunState::running;
  std::int64_t started_us = 0;
  std::optional<std::int64_t> planned_end_us{};
  std::optional<std::int64_t> ended_us{};
  std::uint64_t watermark = 0;  ///< how far telemetry has been consumed
  std::int64_t step = 0;        ///< of the canary, from 0
  std::int64_t step_started_us = 0;
  std::string progress{};  ///< JSON of the stage's own state, or ""
  std::string report{};    ///< digest of the report blob, or ""
  bool operator==(const StageRunRow&) const = default;
};

/// `already_exists` when this attempt was begun before.
Result<void> insert_stage_run(Tx& tx, const StageRunRow& run);
/// Replaces every field but the key and started_us; `not_found` without such a run, `conflict` when it has
/// ended.
Result<void> update_stage_run(Tx& tx, const StageRunRow& run);
Result<std::optional<StageRunRow>> find_stage_run(Reader& reader, const StageKey& key);
/// All runs of a promotion in the order in which they started.
Result<std::vector<StageRunRow>> list_stage_runs(Reader& reader, std::string_view promotion);

}  // namespace driftgate::store
