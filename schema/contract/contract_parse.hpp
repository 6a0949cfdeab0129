#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/document/fields.hpp"

/// The parts of `parse_contract`. Each reads one part of the document into the contract, records every fault,
/// and leaves the default where a value is wrong.
namespace driftgate::schema::detail {

inline constexpr std::size_t kMaxClausesPerFamily = 256;
inline constexpr std::size_t kMaxCriticalSlices = 256;
inline constexpr std::size_t kMaxDimensions = 16;
inline constexpr std::size_t kMaxCanarySteps = 32;
inline constexpr std::uint64_t kMaxApprovals = 16;  ///< people whose approval one step may require
inline constexpr std::size_t kMaxRules = 256;
inline constexpr std::uint64_t kMaxProbes = 1'024;  ///< golden prompts of a guard
inline constexpr std::uint64_t kMaxMinSequences = 100'000'000;
inline constexpr std::uint64_t kMaxCount = 1'000'000'000;

inline constexpr std::array<std::string_view, 10> kLimitNames{
    "max",       "min",          "max_ratio",     "max_delta",      "non_inferiority_margin",
    "min_count", "min_coverage", "max_staleness", "floor_multiple", "floor_cap"};

void parse_header(Fields& root, Contract& contract);  ///< metadata, kernels, measurement, confidence
void parse_assumptions(Fields& root, Contract& contract);
void parse_slices(Fields& root, Contract& contract);
void parse_clauses(Fields& root, Contract& contract);  ///< after assumptions and slices
void parse_stages(Fields& root, Contract& contract);
void parse_guard(Fields& root, Contract& contract);       ///< after stages
void parse_escalation(Fields& root, Contract& contract);  ///< after clauses and the guard

/// Reads {dimension: value, …}, not empty, whose dimensions are all in `dimensions`.
[[nodiscard]] std::optional<SliceWhere> read_where(const Cursor& at,
                                                   const std::vector<std::string>& dimensions);

/// Why `max_delta`, the largest difference between the two kernels' figures, cannot limit this subject. Empty
/// for means of entropy_inf and logprob_inf, for ece_drift and for metrics of traffic.
[[nodiscard]] std::string why_no_delta(const MetricSubject& subject);

/// Whether the subject has a noise floor: a distance between kernels whose aggregate is neither the sum nor
/// the smallest value.
[[nodiscard]] bool has_floor(const MetricSubject& subject);
/// Checks that floor_multiple is stated with `max` and floor_cap, and that floor_cap is at least `max`.
void check_floor(Fields& fields, const Limits& limits);
/// Checks that a clause with floor_multiple is decided in stages that read captures. Call it once the
/// clause's stages are known.
void check_floor_stages(Fields& fields, const Clause& clause);

/// Reads `clip` and `over` of a clause. Call it once the clause's limits are known.
void read_means(Fields& fields, Clause& clause);
/// Records a fault for each mean that cannot be decided as `confidence.means` asks. Only registration applies
/// this rule (stored_contract.hpp).
void check_means(const Contract& contract, std::vector<Fault>& faults);

/// Reads the limits of a clause and checks that they fit its subject and the range of what it measures.
[[nodiscard]] Limits read_limits(Fields& fields, const Subject& subject, const Contract& contract);

/// Checks limits of different clauses that no kernel can meet together: a fault if both clauses are hard,
/// else a warning.
void check_joint_limits(const Contract& contract, std::vector<Fault>& faults, std::vector<Fault>& warnings);
/// Warns of clipped means without a clause on the share of sequences above the clip.
void warn_clips(const Contract& contract, std::vector<Fault>& warnings);
/// Warns where `min_sequences` is less than a clause needs on a critical slice, and where it is so large that
/// slices which could be decided are never looked at.
void warn_sizes(const Contract& contract, std::vector<Fault>& warnings);
/// Adds all warnings of `contract lint`, except those of check_joint_limits.
void warn(const Contract& contract, std::vector<Fault>& warnings);

}  // namespace driftgate::schema::detail
