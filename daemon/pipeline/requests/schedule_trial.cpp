#include "daemon/pipeline/requests/schedule_trial.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/overview.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

bool knows_adapters(const TrialParts& parts, const std::optional<StageCaptures>& captures) {
  if (!captures) return true;
  const auto known = [&](const CaptureSource& source) {
    return source.adapter.empty() || parts.adapters.contains(source.adapter);
  };
  const auto known_floor = [&](const std::optional<FloorCaptures>& floor) {
    return !floor || (known(floor->second) && (!floor->first || known(*floor->first)));
  };
  return known(captures->train) && known(captures->inf) && known_floor(captures->floor_train) &&
         known_floor(captures->floor_inf);
}

/// Whether the request may be accepted later as it is. A capture may be written until then; nobody would
/// register a model of a name that was mistyped.
schema::Result<bool> may_pass(const TrialParts& parts, const PromotionRequest& request,
                              const schema::Error& error) {
  switch (error.code) {
    case ErrorCode::unavailable:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::io:
    case ErrorCode::storage_full:
      return true;
    case ErrorCode::conflict: {
      const auto model = TRY(look_up(parts.store, store::find_model, request.model));
      return model.has_value();
    }
    case ErrorCode::invalid_capture:
    case ErrorCode::not_comparable:
      return true;
    case ErrorCode::not_found:
      return error.where.starts_with("/captures/") && knows_adapters(parts, request.numeric) &&
             knows_adapters(parts, request.slice);
    default:
      return false;
  }
}

}  // namespace

schema::Result<std::vector<std::string>> try_request(const TrialParts& parts, const std::string& actor,
                                                     const PromotionRequest& request) {
  std::vector<std::string> warnings;
  const auto looked = parts.faults(actor, request);
  const auto faults = looked ? *looked : std::vector{looked.error()};
  for (const auto& fault : faults) {
    const auto passes = TRY(may_pass(parts, request, fault));
    if (!passes) return std::unexpected(fault);
    warnings.push_back(fmt::format("Asked for now, it would be refused: {}", fault.message));
  }
  const auto engine = TRY(look_up(parts.store, store::find_engine, request.engine));
  if (engine) {
    const auto healthy = parts.reach(engine->base_url);
    if (!healthy)
      warnings.push_back(
          fmt::format("Engine {} does not answer now: {}", engine->name, healthy.error().message));
  }
  const std::vector<std::string> names{request.model};
  const auto open =
      TRY(parts.store.read([&](store::Reader& reader) { return store::open_promotions_of(reader, names); }));
  for (const auto& row : open)
    warnings.push_back(
        fmt::format("Promotion {} of {} is {} now.", row.id, row.model, store::to_string(row.state)));
  return warnings;
}

}  // namespace driftgate::pipeline
