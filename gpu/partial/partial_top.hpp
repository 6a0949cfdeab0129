#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gpu/partial/partial_row.hpp"

/// What lists of the most likely tokens tell of the order of tokens. Parts of `measure_partial_row`.
namespace driftgate::gpu {

[[nodiscard]] double error_of(double logprob, const LogprobError& error);

/// The largest probability that a token outside the list can have: the least of the listed, where a realised
/// token that may have been appended does not count.
[[nodiscard]] double least_listed(const PartialSide& side, std::optional<std::int64_t> token);

/// The tokens that are in the list whichever token was realised, by id: all, without the least of a full list
/// of mode topk.
[[nodiscard]] std::vector<ListedToken> surely_listed(std::span<const ListedToken> list,
                                                     const PartialInput& input);

/// Bounds of top1_flip. `unnamed_*`: mass that no named token holds, which in mode matched may be one token.
[[nodiscard]] Interval top1_bounds(const PartialInput& input, double unnamed_train, double unnamed_inf);
[[nodiscard]] Interval overlap_bounds(const PartialInput& input);
[[nodiscard]] Interval margin_bounds(const PartialInput& input);

}  // namespace driftgate::gpu
