#include "daemon/store/promotions/promotions.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/promotions/promotion_columns.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert promotion",
    "INSERT INTO promotions(" DRIFTGATE_PROMOTION_COLUMNS
    ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
    "?19, ?20, ?21, ?22, ?23)"};
constexpr Sql kFind{"find promotion", "SELECT " DRIFTGATE_PROMOTION_COLUMNS " FROM promotions WHERE id = ?1"};
constexpr Sql kUpdate{
    "update promotion",
    "UPDATE promotions SET state = ?3, stage = ?4, attempt = ?5, traffic = ?6, baseline = ?7, "
    "updated_us = ?8, deadline_us = ?9, resume_state = ?10, ended_us = ?11, outcome = ?12, "
    "reason = ?13, evidence_seq = ?14, revision = revision + 1 WHERE id = ?1 AND revision = ?2"};
constexpr Sql kHolder{
    "promotion that holds a model",
    "SELECT id FROM promotions WHERE model = ?1 AND id <> ?2 AND state IN ('running', 'paused', "
    "'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing')"};
constexpr Sql kList{"list promotions",
                    "SELECT " DRIFTGATE_PROMOTION_COLUMNS
                    " FROM promotions WHERE id < coalesce(?1, '~') AND state = coalesce(?2, state) "
                    "ORDER BY id DESC LIMIT ?3"};
constexpr Sql kListOfModel{"list promotions of a model",
                           "SELECT " DRIFTGATE_PROMOTION_COLUMNS
                           " FROM promotions WHERE id < coalesce(?1, '~') AND state = coalesce(?2, state) "
                           "AND model = ?4 ORDER BY id DESC LIMIT ?3"};
constexpr Sql kOpen{"open promotions",
                    "SELECT " DRIFTGATE_PROMOTION_COLUMNS
                    " FROM promotions WHERE state IN ('queued', 'running', 'paused', 'awaiting_approval', "
                    "'inconclusive', 'rolling_back', 'finalizing') ORDER BY id"};

constexpr std::int64_t kMaxListed = 1'000;

std::optional<std::string_view> resume_text(const PromotionRow& promotion) {
  if (!promotion.resume_state) return std::nullopt;
  return to_string(*promotion.resume_state);
}

/// `conflict` when the state wants the model and another promotion has it.
Result<void> check_holder(Reader& reader, const PromotionRow& promotion) {
  if (!holds_model(promotion.state)) return {};
  auto holder = TRY(find_row<std::string>(reader, kHolder, {promotion.model, promotion.id}));
  if (!holder) return {};
  return schema::failf(ErrorCode::conflict,
                       "promotion {} runs on model '{}' now: wait for its end or abort it", *holder,
                       promotion.model);
}

}  // namespace

Result<void> insert_promotion(Tx& tx, const PromotionRow& p) {
  TRY(check_holder(tx, p));
  return explain(tx.run(kInsert, {p.id,          p.model,        p.engine,
                                  p.candidate,   p.contract,     to_string(p.state),
                                  p.stage,       p.attempt,      to_string(p.traffic),
                                  p.baseline,    p.seed,         p.request,
                                  p.requester,   p.created_us,   p.updated_us,
                                  p.deadline_us, resume_text(p), p.ended_us,
                                  p.outcome,     p.reason,       p.revision,
                                  p.evidence_seq, p.fallback}),
                 fmt::format("promotion {} of model '{}' with engine '{}' under contract {} cannot be stored",
                             p.id, p.model, p.engine, p.contract));
}

Result<std::optional<PromotionRow>> find_promotion(Reader& reader, std::string_view id) {
  return find_row<PromotionRow>(reader, kFind, {id});
}

Result<PromotionRow> get_promotion(Reader& reader, std::string_view id) {
  return must_exist(find_promotion(reader, id),
                    fmt::format("there is no promotion '{}': 'driftgate status' lists them", id));
}

Result<void> update_promotion(Tx& tx, PromotionRow& p) {
  auto stored = TRY(get_promotion(tx, p.id));
  if (is_terminal(stored.state) && stored.state != p.state) {
    return schema::failf(ErrorCode::conflict, "promotion {} has ended as {}", p.id, to_string(stored.state));
  }
  TRY(check_holder(tx, p));
  auto done =
      must_change(tx.run(kUpdate, {p.id, p.revision, to_string(p.state), p.stage, p.attempt,
                                   to_string(p.traffic), p.baseline, p.updated_us, p.deadline_us,
                                   resume_text(p), p.ended_us, p.outcome, p.reason, p.evidence_seq}),
                  ErrorCode::conflict,
                  fmt::format("promotion {} was changed meanwhile (revision {}, not {}): read it again", p.id,
                              stored.revision, p.revision));
  if (done) ++p.revision;
  return done;
}

Result<std::vector<PromotionRow>> list_promotions(Reader& reader, const PromotionFilter& filter) {
  if (filter.limit < 1 || filter.limit > kMaxListed) {
    return schema::fail(ErrorCode::invalid_argument, "a page must have 1 to 1,000 promotions");
  }
  std::optional<std::string_view> state;
  if (filter.state) state = to_string(*filter.state);
  if (filter.model) {
    return list_rows<PromotionRow>(reader, kListOfModel, {filter.before, state, filter.limit, *filter.model});
  }
  return list_rows<PromotionRow>(reader, kList, {filter.before, state, filter.limit});
}

Result<std::vector<PromotionRow>> open_promotions(Reader& reader) {
  return list_rows<PromotionRow>(reader, kOpen, {});
}

}  // namespace driftgate::store
