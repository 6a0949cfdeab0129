#pragma once

#include <cstdint>
#include <optional>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// What one answer adds to the test of a clause for which schema::is_rescored holds: values in [0, 1] whose
/// conditional mean is at most `limit` while the clause's limit is kept.
struct AnswerLimit {
  double limit = 0;       ///< of the values
  double stated = 0;      ///< the clause's `max` or `min`; floor_cap where it has a floor
  bool is_max = true;     ///< `stated` is a largest value
  bool events = false;    ///< the values are 0 or 1: whether the answer is beyond the limit of a quantile
  bool weighted = false;  ///< each token counts the same, and not each answer
  /// Only answers that were sampled without filters count: what is averaged is an expectation under K_inf.
  bool unfiltered = false;
  /// The clause limits a figure of whole distributions with a clip, and a clipped estimate of it stands for
  /// it.
  bool approximate = false;
};
/// std::nullopt if the clause is not rescored, or its limit can never be exceeded.
[[nodiscard]] std::optional<AnswerLimit> answer_limit(const schema::Clause& clause,
                                                      const schema::Contract& contract);

/// The figure of one answer, and what the detector gets of it.
struct AnswerFigure {
  double value = 0;   ///< in [0, 1]
  double figure = 0;  ///< of the metric; for a quantile 1 if it is beyond the limit, else 0
  double units = 1;   ///< what the figure weighs in the mean
};
/// std::nullopt where the answer has no such figure. `limit` is that of answer_limit; `max_tokens` that of
/// the contract's assumptions, which an answer with more tokens counts as having.
[[nodiscard]] std::optional<AnswerFigure> answer_figure(const schema::Clause& clause,
                                                        const AnswerLimit& limit, std::uint32_t max_tokens,
                                                        const gpu::SequenceRow& row);

}  // namespace driftgate::stages
