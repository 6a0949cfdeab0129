#include <fmt/format.h>

#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/lifecycle.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/models.hpp"

namespace driftgate::pipeline::people {

using schema::ErrorCode;
using store::PromotionState;

namespace {

/// A person asks for an end. While the promotion rolls back already, a failed COMMIT changes nothing about
/// that. `answers`: it is this promotion that the person named.
Done end(Context& context, Live& live, const Withdrawal& withdrawal, bool answers = true) {
  auto change = machine::withdraw(context.facts(live), withdrawal);
  change.answers = answers;
  return change.ends ? context.commit_or_retry(live, std::move(change))
                     : context.commit_change(live, std::move(change));
}

}  // namespace

Done abort(Context& context, const std::string& actor, const std::string& id, const std::string& reason) {
  auto live = TRY(context.open_promotion(id));
  return end(
      context, *live,
      {.target = PromotionState::aborted, .actor = actor, .reason = reason.empty() ? "aborted" : reason});
}

Done roll_back(Context& context, Live& live, const std::string& actor, const std::string& reason) {
  return end(context, live,
             {.target = PromotionState::rejected, .actor = actor, .reason = reason, .hold = true});
}

schema::Result<std::optional<Live>> serving_promotion(Context& context, const std::string& id) {
  auto row = TRY(look_up(context.world.store, store::get_promotion, id));
  if (row.state != PromotionState::succeeded) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("promotion {} is {}: its candidate serves no traffic", id, store::to_string(row.state)));
  }
  if (row.traffic == store::Traffic::reverted) return std::nullopt;
  if (!context.models.contains(row.model))
    return schema::fail(ErrorCode::not_found, fmt::format("there is no model {}", row.model));
  Live live;
  TRY(context.load(live, row));
  auto model = TRY(look_up(context.world.store, store::get_model, row.model));
  if (model.incumbent != row.candidate) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("promotion {} does not serve {} any more; roll back the newest one", id, row.model));
  }
  return live;
}

Done end_successor(Context& context, const Live& served, const std::string& actor) {
  auto* const other = context.holder(served.row.model);
  if (other == nullptr) return {};
  return end(context, *other,
             {.target = PromotionState::aborted,
              .actor = actor,
              .reason = fmt::format("its baseline {} is rolled back", served.row.id),
              .hold = true},
             false);
}

Done revert(Context& context, Live& served, const std::string& actor, const std::string& reason) {
  auto change = machine::revert_success(context.facts(served), actor, reason);
  change.answers = true;
  return context.commit_urgent(served, std::move(change));
}

Done pause(Context& context, const std::string& actor, const std::string& id, const std::string& reason) {
  auto live = TRY(context.open_promotion(id));
  auto change = TRY(machine::pause(context.facts(*live), actor, reason));
  change.answers = true;
  return context.commit_change(*live, std::move(change));
}

Done resume(Context& context, const std::string& actor, const std::string& id, const std::string& reason) {
  auto live = TRY(context.open_promotion(id));
  auto change = TRY(machine::resume(context.facts(*live), actor, reason));
  change.answers = true;
  return context.commit_change(*live, std::move(change));
}

Done lift_hold(Context& context, const std::string& actor, const std::string& model,
               const std::string& reason) {
  TRY(context.commit_rows("lift hold", [&](store::Tx& tx, Entries& entries) -> Done {
    TRY(store::lift_hold(tx, model, context.now()));
    const auto seq = TRY(entries.add(tx, {.time_us = context.now(),
                                          .kind = schema::EvidenceKind::hold_lifted,
                                          .actor = actor,
                                          .subject = {.model = model},
                                          .body = {{"reason", reason}}}));
    TRY(store::set_model_evidence(tx, model, seq));
    return note_made(tx, model, [&] { return named_model_view(tx, model); });
  }));
  give_back(context, model, actor, reason.empty() ? std::string("the hold was lifted") : reason);
  context.effects.emplace_back(StartNext{model});
  return {};
}

}  // namespace driftgate::pipeline::people
