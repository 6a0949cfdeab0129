#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/worker.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::jobs {

/// The contract of a job's payload; `invalid_document` with every fault.
[[nodiscard]] schema::Result<schema::Contract> contract_of(const std::string& canonical);

/// Opens a capture below the roots; `name` ("train capture") says which one in messages.
[[nodiscard]] schema::Result<gpu::Capture> open_capture(const std::string& uri,
                                                        const std::vector<std::string>& roots,
                                                        const std::string& name);

/// What a contract asks a drift measurement to count, for its slices in `corpus` (may be null).
[[nodiscard]] gpu::MeasureOptions measure_options(const schema::Contract& contract, const gpu::Corpus* corpus,
                                                  const DriftPayload& payload);

/// The two captures of one noise floor, opened: "floor_train" or "floor_inf".
struct FloorInputs {
  stages::FloorSide side{};
  std::string key, name;  ///< "floor_train", "train floor"
  gpu::Capture first, second;
};

/// Opens the captures of the floors that the payload names. Errors: `invalid_argument` for one file twice,
/// and `not_comparable` when they are of another kernel, checkpoint or corpus than the drift that they stand
/// beside.
[[nodiscard]] schema::Result<std::vector<FloorInputs>> open_floors(const DriftPayload& payload,
                                                                   const gpu::Capture& train,
                                                                   const gpu::Capture& inf);

/// What is counted of a floor.
[[nodiscard]] gpu::MeasureOptions floor_options(const schema::Contract& contract, const gpu::Corpus* corpus,
                                                const DriftPayload& payload);

}  // namespace driftgate::jobs
