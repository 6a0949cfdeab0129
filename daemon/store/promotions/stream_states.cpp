#include "daemon/store/promotions/stream_states.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{
    "put stream state",
    "INSERT INTO stream_states(promotion, stage, attempt, clause, slice, watermark, state) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) "
    "ON CONFLICT(promotion, stage, attempt, clause, slice) DO UPDATE SET "
    "watermark = excluded.watermark, state = excluded.state WHERE excluded.watermark >= watermark"};
constexpr Sql kFind{"find stream state",
                    "SELECT promotion, stage, attempt, clause, slice, watermark, state FROM stream_states "
                    "WHERE promotion = ?1 AND stage = ?2 AND attempt = ?3 AND clause = ?4 AND slice = ?5"};

}  // namespace

Result<void> put_stream_state(Tx& tx, const StreamStateRow& s) {
  auto changed = tx.run(kPut, {s.stage.promotion, s.stage.stage, s.stage.attempt, s.clause, s.slice,
                               s.watermark, Blob{s.state}});
  if (!changed)
    return explain(changed, fmt::format("cannot store the state of {} in {}", s.clause, s.stage.text()));
  return must_change(changed, ErrorCode::conflict,
                     fmt::format("the state of {} in {} is already beyond window {}", s.clause,
                                 s.stage.text(), s.watermark));
}

Result<std::optional<StreamStateRow>> find_stream_state(Reader& reader, const StageKey& stage,
                                                        std::string_view clause, std::string_view slice) {
  return find_row<StreamStateRow>(reader, kFind,
                                  {stage.promotion, stage.stage, stage.attempt, clause, slice});
}

}  // namespace driftgate::store
