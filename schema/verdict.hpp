#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::schema {

/// The four verdicts (statistics.md). They are never merged.
enum class Verdict : std::uint8_t { pass, violated, inconclusive, error };
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] std::optional<Verdict> verdict_from_name(std::string_view name);

/// A clause's verdict on the corpus or on one slice, with all that it followed from, so that it can
/// be recomputed from this record alone together with the measurement table's digest.
struct ClauseVerdict {
  std::string clause;  ///< "family.id"
  Severity severity = Severity::hard;
  SliceWhere where;    ///< empty = whole corpus or all traffic
  SliceRole role = SliceRole::corpus;
  Verdict verdict = Verdict::error;
  std::uint64_t n = 0;         ///< rows, pairs or requests
  std::uint64_t clusters = 0;  ///< independent units
  std::optional<double> estimate;
  std::optional<double> lower, upper;  ///< one-sided limits at `alpha`
  std::optional<double> e_value;
  std::optional<double> p_value;       ///< of harm, for Holm
  std::optional<double> threshold;     ///< the limit that was applied
  std::string limit_kind;              ///< "max", "min", "max_ratio", …
  double alpha = 0;
  std::string method;   ///< e.g. "betting, cap 0.99", "clustered t", "census"
  bool approximate = false;
  bool no_harm_only = false;  ///< passed because not violated (require: no_harm)
  std::uint64_t seed = 0;
  std::map<std::string, double> details;  ///< further named figures (b, c, needed_clusters …)
  std::string message;  ///< one or two plain sentences with the figures
};

/// The verdict of a stage: violated if a hard clause is; else error; else inconclusive; else pass.
/// Soft clauses and monitored-but-inconclusive slices are listed and do not block.
[[nodiscard]] Verdict combine(const std::vector<ClauseVerdict>& verdicts);

/// JSON with the field names above; numbers that are not finite are the strings of measurement.md.
[[nodiscard]] std::string to_json(const ClauseVerdict& verdict);
[[nodiscard]] Result<ClauseVerdict> clause_verdict_from_json(std::string_view json);

}  // namespace driftgate::schema
