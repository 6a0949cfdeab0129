#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/document/fields.hpp"

/// The parts of `parse_contract`, each for one part of the document. They record every fault and leave
/// defaults where something was wrong.
namespace driftgate::schema::detail {

inline constexpr std::size_t kMaxClausesPerFamily = 256;
inline constexpr std::size_t kMaxCriticalSlices = 256;
inline constexpr std::size_t kMaxDimensions = 16;
inline constexpr std::size_t kMaxCanarySteps = 32;
inline constexpr std::uint64_t kMaxApprovals = 16;  ///< people that one step may need
inline constexpr std::size_t kMaxRules = 256;
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
void parse_escalation(Fields& root, Contract& contract);  ///< after clauses

/// {dimension: value, …} with declared dimensions.
[[nodiscard]] std::optional<SliceWhere> read_where(const Cursor& at,
                                                   const std::vector<std::string>& dimensions);

/// Why `max_delta`, the difference between the two kernels' figures of a metric, makes no sense for this
/// subject; empty where it does: means of entropy_inf and logprob_inf, ece_drift, traffic.
[[nodiscard]] std::string why_no_delta(const MetricSubject& subject);

/// Whether two runs of one kernel have a noise floor in this subject: a distance between kernels whose
/// aggregate is a mean, a quantile or the largest value.
[[nodiscard]] bool has_floor(const MetricSubject& subject);
/// floor_multiple stands beside max, with floor_cap, which is at least max.
void check_floor(Fields& fields, const Limits& limits);
/// floor_multiple is for stages that read captures. After the clause's stages are known.
void check_floor_stages(Fields& fields, const Clause& clause);

/// `clip` and `over` of one clause. After its limits are known.
void read_means(Fields& fields, Clause& clause);
/// Whether each mean can be decided as confidence.means says; what only registration refuses.
void check_means(const Contract& contract, std::vector<Fault>& faults);

/// The limits of one clause, checked against what its subject measures.
[[nodiscard]] Limits read_limits(Fields& fields, const Subject& subject, const Contract& contract);

/// Rules over the whole contract: limits that no kernel can meet together.
void check_joint_limits(const Contract& contract, std::vector<Fault>& faults, std::vector<Fault>& warnings);
/// Clipped means without a limit on the share of sequences above the clip.
void warn_clips(const Contract& contract, std::vector<Fault>& warnings);
/// `min_sequences` that is under what a clause needs on a critical slice, or hides slices that could be decided.
void warn_sizes(const Contract& contract, std::vector<Fault>& warnings);
/// What lint says beyond faults.
void warn(const Contract& contract, std::vector<Fault>& warnings);

}  // namespace driftgate::schema::detail
