#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A streaming test's memory (docs/design/statistics.md, "State of a stream"): written in the transaction of
/// the window's decision.
struct StreamStateRow {
  StageKey stage{};
  std::string clause{};  ///< "family.id", with the test's name after "#" when a clause has several
  std::string slice{};
  std::uint64_t watermark = 0;
  std::string state{};  ///< bytes, of the test's own format
  bool operator==(const StreamStateRow&) const = default;
};

/// Inserts or replaces; `conflict` when the stored watermark is newer.
Result<void> put_stream_state(Tx& tx, const StreamStateRow& row);
Result<std::optional<StreamStateRow>> find_stream_state(Reader& reader, const StageKey& stage,
                                                        std::string_view clause, std::string_view slice);

}  // namespace driftgate::store
