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

/// Whether the data confirm the assumption of a link.
enum class AssumptionStatus : std::uint8_t {
  checked,     ///< confirmed by the data
  unchecked,   ///< captures cannot show it, or only a part of it
  suspicious,  ///< the data speak against it, and no exact test is possible
  broken,      ///< the data contradict it, so that the link proves nothing
};
[[nodiscard]] std::string_view to_string(AssumptionStatus status);

/// The parts of an assumption are separated by "; ". A part that was confirmed on its own ends with this
/// mark.
inline constexpr std::string_view kCheckedPart = " (checked)";

/// One link of the chain, which is a theorem about the two distributions (docs/design/measurement.md, "The
/// bound chain").
struct BoundLink {
  std::uint32_t number = 0;  ///< the number of the link in that section
  std::string name;          ///< "reward", "sequence_kl" …; link_meaning (certificate.hpp) explains each
  std::optional<schema::Bound> bound;  ///< the bound of a clause that this link can serve
  schema::Horizon horizon = schema::Horizon::token;
  std::map<std::string, double> inputs;  ///< the figures that the link was computed from, by name
  std::optional<double> value;           ///< the bound at the measured figures
  std::optional<double> upper;           ///< its upper confidence limit at level 1 − alpha
  std::map<std::string, double> floors;  ///< "train", "inf": the value for the captures of that noise floor
  double alpha = 0;
  std::uint64_t clusters = 0;  ///< independent units behind the figures
  std::string method;
  std::string from;  ///< the name of the link that this one repeats or scales; else empty
  bool approximate = false;
  std::string assumption;  ///< in words
  AssumptionStatus status = AssumptionStatus::unchecked;
};

/// All links for the corpus (`where` is empty) or for one slice.
struct BoundChain {
  schema::SliceWhere where;
  std::uint64_t rows = 0, sequences = 0;
  std::vector<BoundLink> links;
  std::string refused;  ///< why there are no links, such as a sampling filter; else empty
};

/// The chain of the sequences that match `where`, with limits at level 1 − alpha. `reward_tolerance` is ρ of
/// link 7, by default 1% of the reward's range. `refused` is set if a capture was taken after a sampling
/// filter, if a selected row has non-finite logits, if a finding about the captures makes their figures
/// meaningless, or if neither tv nor KL is known.
[[nodiscard]] BoundChain bound_chain(const gpu::MeasurementTable& table,
                                     const schema::Assumptions& assumptions, const schema::SliceWhere& where,
                                     double alpha, std::uint64_t seed,
                                     std::optional<double> reward_tolerance = {});

/// The chain without confidence limits: the upper limit of a mean is the mean. Treats the tokens as sampled
/// by K_inf. Used for noise floors.
[[nodiscard]] BoundChain bound_values(const gpu::MeasurementTable& table,
                                      const schema::Assumptions& assumptions, const schema::SliceWhere& where,
                                      std::optional<double> reward_tolerance = {});

/// The chain of the corpus, followed by those of `slices`.
[[nodiscard]] std::vector<BoundChain> bound_chains(const gpu::MeasurementTable& table,
                                                   const schema::Assumptions& assumptions,
                                                   const std::vector<schema::SliceWhere>& slices,
                                                   double alpha, std::uint64_t seed,
                                                   std::optional<double> reward_tolerance = {});

/// The smallest `max` of the contract's clauses on the reward bound; std::nullopt without any.
[[nodiscard]] std::optional<double> reward_tolerance(const schema::Contract& contract);

/// Sets `floors` of every link to the value of the same link in the chain of each measured floor
/// (bound_values).
void add_floor_values(std::vector<BoundChain>& chains, const Floors& floors,
                      const schema::Assumptions& assumptions);

/// The link with the smallest upper limit among those that serve `bound` at `horizon` and whose assumption is
/// not broken; nullptr without any.
[[nodiscard]] const BoundLink* best_link(const BoundChain& chain, schema::Bound bound,
                                         schema::Horizon horizon);

}  // namespace driftgate::stages
