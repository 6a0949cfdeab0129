#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::cli {

/// Captures of noise floors on the command line: runs of one kernel that were batched differently. One is
/// held against the drift's own capture of that kernel, two against each other.
struct FloorArgs {
  std::vector<std::string> train, inf;
  gpu::fused::HeadSource heads;  ///< of hidden states
  bool digests = false;          ///< whether the tables shall say the digests of their captures
};

/// The floors' tables; nothing where no captures were given.
struct MeasuredFloors {
  std::optional<gpu::MeasurementTable> train, inf;
  /// Points into this value.
  [[nodiscard]] stages::Floors view() const {
    return {{train ? &*train : nullptr, {}}, {inf ? &*inf : nullptr, {}}};
  }
};

/// Measures the floors of a drift between `train` and `inf` with everything that the clauses of `contract`
/// (none: nullptr) need. Errors: `invalid_argument` for more than two captures or twice the same,
/// `not_comparable` for another kernel, checkpoint or corpus, and those of reading and measuring captures.
[[nodiscard]] schema::Result<MeasuredFloors> measure_floors(const FloorArgs& args, const gpu::Capture& train,
                                                            const gpu::Capture& inf,
                                                            const gpu::Corpus* corpus,
                                                            const schema::Contract* contract);

}  // namespace driftgate::cli
