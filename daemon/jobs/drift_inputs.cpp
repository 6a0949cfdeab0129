#include "daemon/jobs/drift_inputs.hpp"

#include <fmt/format.h>

#include <utility>

#include "daemon/jobs/rooted_path.hpp"
#include "schema/contract/stored_contract.hpp"
#include "stages/offline_numeric.hpp"

namespace driftgate::jobs {

using schema::ErrorCode;

schema::Result<schema::Contract> contract_of(const std::string& canonical) {
  auto report = schema::parse_stored_contract(canonical, "the contract");
  if (report.contract) return std::move(*report.contract);
  return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, "the contract"));
}

schema::Result<gpu::Capture> open_capture(const std::string& uri, const std::vector<std::string>& roots,
                                          const std::string& name) {
  auto path = resolve_below(uri, roots);
  if (!path) return schema::wrap(path.error(), "the " + name);
  auto capture = gpu::Capture::open(*path);
  if (!capture) return schema::wrap(capture.error(), "the " + name);
  return capture;
}

gpu::MeasureOptions measure_options(const schema::Contract& contract, const gpu::Corpus* corpus,
                                    const DriftPayload& payload) {
  gpu::MeasureOptions options;
  options.threads = payload.threads;
  options.top_k = contract.top_k;
  options.top_rows = payload.worst_rows;
  options.thresholds = stages::required_thresholds(contract);
  if (contract.assumptions.policy) {
    options.ppo_clip = contract.assumptions.policy->ppo_clip;
    options.is_clip = contract.assumptions.policy->is_clip;
  }
  if (corpus != nullptr) options.slices = stages::wanted_slices(contract, corpus->sequences);
  return options;
}

schema::Result<std::vector<FloorInputs>> open_floors(const DriftPayload& payload, const gpu::Capture& train,
                                                     const gpu::Capture& inf) {
  std::vector<FloorInputs> out;
  for (const auto& [side, pair] : {std::pair{stages::FloorSide::train, &payload.floor_train},
                                   {stages::FloorSide::inf, &payload.floor_inf}}) {
    if (!*pair) continue;
    const std::string name = fmt::format("{} floor", stages::to_string(side));
    auto first = TRY(open_capture((*pair)->first, payload.roots, "first capture of the " + name));
    auto second = TRY(open_capture((*pair)->second, payload.roots, "second capture of the " + name));
    if (first.name() == second.name()) {
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("both captures of the {} are {}, which shows no noise; name a second run", name,
                      first.name()));
    }
    const auto& own = side == stages::FloorSide::train ? train.identity() : inf.identity();
    TRY(stages::check_floor_identity(first.identity(), second.identity(), own, "the " + name));
    out.push_back(
        {side, fmt::format("floor_{}", stages::to_string(side)), name, std::move(first), std::move(second)});
  }
  return out;
}

gpu::MeasureOptions floor_options(const schema::Contract& contract, const gpu::Corpus* corpus,
                                  const DriftPayload& payload) {
  auto options = measure_options(contract, corpus, payload);
  options.thresholds = stages::floor_thresholds(contract);
  options.top_rows = 0;
  return options;
}

}  // namespace driftgate::jobs
