#pragma once
/// Log-probabilities and sampling from a row of logits.

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace tinylm {

/// The log-softmax of the logits, in double.
std::vector<double> log_softmax(std::span<const float> logits);

/// The largest logit; ties go to the lowest token.
std::int32_t argmax(std::span<const float> logits);

/// Samples a token from softmax(logits / temperature); temperature 0 takes the argmax.
std::int32_t sample(std::span<const float> logits, double temperature, std::mt19937_64& random);

/// The top-p filter: keeps the fewest most likely tokens whose probabilities sum to at least `share` (ties:
/// lowest id first) and sets all other logits to −∞.
void keep_top_share(std::span<float> logits, double share);

/// The k largest entries as (token, log-probability), largest first, ties to the lowest token.
std::vector<std::pair<std::int32_t, double>> top_entries(std::span<const double> logprobs, std::size_t k);

}  // namespace tinylm
