#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

/// One attempt to make a candidate version the served version of a model under one contract.
struct PromotionRow {
  std::string id{};  ///< "pr-…", sorts by time
  std::string model{};
  std::string engine{};     ///< the candidate's engine
  std::string candidate{};  ///< version id
  std::string contract{};   ///< digest
  PromotionState state = PromotionState::queued;
  std::string stage{};       ///< current stage or ""
  std::int64_t attempt = 0;  ///< of that stage, from 1; 0 while no stage runs
  Traffic traffic = Traffic::never_exposed;
  std::string baseline{};   ///< version id of the incumbent locked at the start; "" while queued
  std::uint64_t seed = 0;   ///< buckets, sampling, permutations
  std::string request{};    ///< the request's JSON
  std::string requester{};  ///< principal's name: never an approver
  std::int64_t created_us = 0;
  std::int64_t updated_us = 0;
  std::optional<std::int64_t> deadline_us{};     ///< of an approval, pause or inconclusive state
  std::optional<PromotionState> resume_state{};  ///< where `resume` leads back to
  std::optional<std::int64_t> ended_us{};
  std::string outcome{};           ///< JSON of the decision at the end, or ""
  std::string reason{};            ///< one sentence for people: why this state
  std::uint64_t revision = 1;      ///< grows with every change: the ETag
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  std::string fallback{};          ///< version id that route_slice and fallback send traffic to; "" = none
  bool operator==(const PromotionRow&) const = default;
};

/// `not_found` for an unknown model, engine, version or contract; `conflict` when another promotion holds the
/// model and this one is not queued.
Result<void> insert_promotion(Tx& tx, const PromotionRow& promotion);
Result<std::optional<PromotionRow>> find_promotion(Reader& reader, std::string_view id);
/// find_promotion, or `not_found` with a message for people.
Result<PromotionRow> get_promotion(Reader& reader, std::string_view id);

/// Writes every field that may change (state, stage, attempt, traffic, baseline, updated, deadline,
/// resume_state, ended, outcome, reason) and increases the revision, in the row and in `promotion`.
/// `conflict` when `promotion.revision` is not the stored one, when the stored state is terminal and another
/// one is asked for, or when another promotion holds the model.
Result<void> update_promotion(Tx& tx, PromotionRow& promotion);

struct PromotionFilter {
  std::optional<std::string> model{};
  std::optional<PromotionState> state{};
  std::optional<std::string> before{};  ///< ids smaller than this: the last id of the previous page
  std::int64_t limit = 100;             ///< at most 1,000
};
/// Newest first.
Result<std::vector<PromotionRow>> list_promotions(Reader& reader, const PromotionFilter& filter);
/// Every promotion that is not terminal, oldest first: what a starting daemon continues.
Result<std::vector<PromotionRow>> open_promotions(Reader& reader);

}  // namespace driftgate::store
