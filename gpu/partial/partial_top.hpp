#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gpu/partial/partial_row.hpp"

/// Conclusions from lists of the most likely tokens about the order of tokens: parts of
/// `measure_partial_row`.
namespace driftgate::gpu {

/// The largest probability that a token outside the list of one kernel can have: that of the least likely
/// listed token, not counting a target token that the engine may have appended.
[[nodiscard]] double least_listed(const PartialInput& input, const PartialSide& side);

/// The listed tokens, by id, that would be in the list whatever the target token was: all of them, but in
/// mode topk not the least likely one of a full list, which may have been appended because it is the target
/// token.
[[nodiscard]] std::vector<ListedToken> surely_listed(std::span<const ListedToken> list,
                                                     const PartialInput& input);

/// Bounds of top1_flip. `unnamed_*`: the mass of all tokens that were not reported; in mode matched it may be
/// that of one token.
[[nodiscard]] Interval top1_bounds(const PartialInput& input, double unnamed_train, double unnamed_inf);
[[nodiscard]] Interval overlap_bounds(const PartialInput& input);
[[nodiscard]] Interval margin_bounds(const PartialInput& input);

}  // namespace driftgate::gpu
