#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// How far the assumption of a link was verified on the data at hand.
enum class AssumptionStatus : std::uint8_t {
  checked,    ///< verified with figures (see `assumption`)
  unchecked,  ///< named, not verifiable from captures
  broken,     ///< the data contradict it: the link proves nothing
};
[[nodiscard]] std::string_view to_string(AssumptionStatus status);

/// The parts of an assumption are separated by "; "; one that was checked by itself ends with this.
inline constexpr std::string_view kCheckedPart = " (checked)";

/// One link of the chain (docs/design/measurement.md, "The bound chain").
struct BoundLink {
  std::uint32_t number = 0;            ///< of the link in that section
  std::string name;                    ///< "reward", "sequence_kl" …
  std::optional<schema::Bound> bound;  ///< the clause subject that this link can serve
  schema::Horizon horizon = schema::Horizon::token;
  std::map<std::string, double> inputs;
  std::optional<double> value;           ///< the bound at the measured figures
  std::optional<double> upper;           ///< with its confidence limit at `alpha`, cluster = sequence
  std::map<std::string, double> floors;  ///< "train", "inf": the bound at the figures of that noise floor
  double alpha = 0;
  std::uint64_t clusters = 0;
  std::string method;
  std::string from;  ///< name of the link that it took, where it is the best of some or a multiple of one
  bool approximate = false;
  std::string assumption;  ///< in words
  AssumptionStatus status = AssumptionStatus::unchecked;
};

/// All links for the corpus (`where` empty) or one slice.
struct BoundChain {
  schema::SliceWhere where;
  std::uint64_t rows = 0, sequences = 0;
  std::vector<BoundLink> links;
  std::string refused;  ///< why there is no certificate (a capture with a sampling filter), or empty
};

/// The chain for the sequences of `table` that match `where`. `reward_tolerance` is that of link 7; 1% of
/// the reward's range without one.
[[nodiscard]] BoundChain bound_chain(const gpu::MeasurementTable& table,
                                     const schema::Assumptions& assumptions, const schema::SliceWhere& where,
                                     double alpha, std::uint64_t seed,
                                     std::optional<double> reward_tolerance = {});

/// The chain at the measured figures alone, without confidence limits (`upper` = `value`), as if tokens were
/// K_inf's own: what floors show, and quick.
[[nodiscard]] BoundChain bound_values(const gpu::MeasurementTable& table,
                                      const schema::Assumptions& assumptions, const schema::SliceWhere& where,
                                      std::optional<double> reward_tolerance = {});

/// The chain for the corpus and each of `slices`.
[[nodiscard]] std::vector<BoundChain> bound_chains(const gpu::MeasurementTable& table,
                                                   const schema::Assumptions& assumptions,
                                                   const std::vector<schema::SliceWhere>& slices,
                                                   double alpha, std::uint64_t seed,
                                                   std::optional<double> reward_tolerance = {});

/// The least `max` of the contract's reward clauses.
[[nodiscard]] std::optional<double> reward_tolerance(const schema::Contract& contract);

/// Sets `floors` of every link from the floors' own chains, values without limits.
void add_floor_values(std::vector<BoundChain>& chains, const Floors& floors,
                      const schema::Assumptions& assumptions);

/// The best usable link for a bound clause: the smallest upper limit whose assumption is not broken.
[[nodiscard]] const BoundLink* best_link(const BoundChain& chain, schema::Bound bound,
                                         schema::Horizon horizon);

}  // namespace driftgate::stages
