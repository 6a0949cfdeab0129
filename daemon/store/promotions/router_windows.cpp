#include "daemon/store/promotions/router_windows.hpp"

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kFind{"find window watermark", "SELECT number FROM router_windows WHERE router_id = ?1"};
constexpr Sql kPut{
    "put window watermark",
    "INSERT INTO router_windows(router_id, number, consumed_us) VALUES(?1, ?2, ?3) "
    "ON CONFLICT(router_id) DO UPDATE SET number = excluded.number, consumed_us = excluded.consumed_us"};

constexpr Sql kPutModel{
    "note model window",
    "INSERT INTO router_model_windows(router_id, model, number) VALUES(?1, ?2, ?3) "
    "ON CONFLICT(router_id, model) DO UPDATE SET number = excluded.number WHERE number < excluded.number"};
constexpr Sql kFindModel{"find model window",
                         "SELECT number FROM router_model_windows WHERE router_id = ?1 AND model = ?2"};

/// Stands where the model does in the row of a router's breaker events; no model can have this name.
constexpr std::string_view kBreakers = "*breakers";

/// The watermark says all of a router that is gone.
constexpr Sql kForgetModels{"forget model windows",
                            "DELETE FROM router_model_windows WHERE router_id = ?1 AND model <> ?2"};

/// Beyond the number of any window: the watermark of a router that is gone.
constexpr std::uint64_t kGone = (std::uint64_t{1} << 53) - 1;

}  // namespace

Result<void> advance_watermark(Tx& tx, std::string_view router_id, std::uint64_t number,
                               std::int64_t now_us) {
  auto newest = TRY(window_watermark(tx, router_id));
  if (number <= newest) return {};
  TRY(tx.run(kPut, {router_id, number, now_us}));
  return {};
}

Result<void> note_model_window(Tx& tx, std::string_view router_id, std::string_view model,
                               std::uint64_t number) {
  TRY(tx.run(kPutModel, {router_id, model, number}));
  return {};
}

Result<std::optional<std::uint64_t>> model_window(Reader& reader, std::string_view router_id,
                                                  std::string_view model) {
  return find_row<std::uint64_t>(reader, kFindModel, {router_id, model});
}

Result<void> note_breaker_event(Tx& tx, std::string_view router_id, std::uint64_t number) {
  return note_model_window(tx, router_id, kBreakers, number);
}

Result<std::uint64_t> breaker_event(Reader& reader, std::string_view router_id) {
  const auto found = TRY(model_window(reader, router_id, kBreakers));
  return found.value_or(0);
}

Result<std::uint64_t> window_watermark(Reader& reader, std::string_view router_id) {
  auto found = TRY(find_row<std::uint64_t>(reader, kFind, {router_id}));
  return found.value_or(0);
}

Result<bool> end_router(Tx& tx, std::string_view router_id, std::int64_t now_us) {
  auto newest = TRY(window_watermark(tx, router_id));
  if (newest >= kGone) return false;
  TRY(tx.run(kPut, {router_id, kGone, now_us}));
  TRY(tx.run(kForgetModels, {router_id, kBreakers}));
  return true;
}

}  // namespace driftgate::store
