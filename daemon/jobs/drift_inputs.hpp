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

/// What a noise floor of the stage must agree with: the drift that it is compared with.
struct FloorContext {
  const DriftPayload& payload;
  const schema::Contract& contract;
  const gpu::Corpus* corpus = nullptr;
  const gpu::MeasurementTable& drift;
};

/// Measures one floor: two captures of the kernel on that side of the drift. Writes its table to the folder
/// as "floor_train.bin" or "floor_inf.bin" and adds file and digests ("floor_train", "floor_train_first",
/// "floor_train_second" …) to `result`. Errors: what gpu::measure says, `not_comparable` when the captures
/// are of another kernel, checkpoint or corpus than the drift, `invalid_argument` for one file twice.
[[nodiscard]] schema::Result<void> measure_floor(const FloorContext& context, stages::FloorSide side,
                                                 const DriftPayload::FloorPair& pair, const JobFolder& folder,
                                                 JobResult& result);

}  // namespace driftgate::jobs
