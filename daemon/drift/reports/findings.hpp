#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/drift/drift_report.hpp"

namespace driftgate::drift {

/// The slice that a clause should be looked at in.
struct FoundSlice {
  schema::SliceWhere where;
  std::string figures;  ///< "25 sequences, mean kl_inf_train 0.03, 8.7 times the corpus"
};

/// A clause with its verdicts on the corpus and on slices, and where to look when it does not pass.
struct Finding {
  std::string clause;
  /// What the clause contributes to the contract's verdict: soft clauses and slices that do not block
  /// contribute pass.
  schema::Verdict verdict = schema::Verdict::pass;
  /// The gravest of `verdicts`, whether it blocks or not.
  schema::Verdict gravest = schema::Verdict::pass;
  std::vector<const schema::ClauseVerdict*> verdicts;  ///< those that block first, then the gravest first
  std::optional<FoundSlice> slice;
  std::vector<const gpu::WorstRow*> rows;  ///< the worst of the slice, else of the corpus
  [[nodiscard]] bool blocks() const { return verdict != schema::Verdict::pass; }
};

/// A finding for each clause that captures could decide, those that block first, then the gravest. They point
/// into `report`.
[[nodiscard]] std::vector<Finding> findings_of(const DriftReport& report);

/// At most `most` verdicts for a table, in the order of the findings. What is left out first is what passes,
/// then what is not the gravest of its clause.
[[nodiscard]] std::vector<const schema::ClauseVerdict*> listed_verdicts(const std::vector<Finding>& findings,
                                                                        std::size_t most);
[[nodiscard]] std::size_t count_verdicts(const std::vector<Finding>& findings);

/// "row 329 (sequence 20, numeric-0020, position 48, kl_inf_train 0.097)".
[[nodiscard]] std::string row_text(const DriftReport& report, const gpu::WorstRow& row);
/// "scaled_logits on language=de, 25 of 260 sequences"; empty where no pattern was recognised.
[[nodiscard]] std::string pattern_text(const DriftReport& report);

/// A line that tells where to look. Names in it are visible, and nothing is escaped.
struct Advice {
  std::string label, text;
};
/// The worst slice of a finding that does not pass, and its worst rows.
[[nodiscard]] std::vector<Advice> places_of(const DriftReport& report, const Finding& finding);
/// The recognised pattern, what it looks like and why, and what to examine next; without a pattern, the
/// summary of the diagnosis.
[[nodiscard]] std::vector<Advice> diagnosis_of(const DriftReport& report);

/// The limit of the figure that the verdict is about: of a clause on a quantile, the share that may lie
/// beyond.
[[nodiscard]] std::optional<double> limit_of(const schema::ClauseVerdict& verdict);

/// What is known about the slices of a sequence; nullptr without a corpus.
[[nodiscard]] const gpu::SequenceInfo* info_of(const gpu::MeasurementTable& table, std::int64_t sequence);
/// The described slices, the largest mean kl_inf_train first; one with rows that are not finite before all.
[[nodiscard]] std::vector<const DriftSlice*> worst_slices(const DriftReport& report);

}  // namespace driftgate::drift
