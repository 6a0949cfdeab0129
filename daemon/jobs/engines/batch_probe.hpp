#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/engines/greedy.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// Requests that the probe keeps in flight for "batch N".
inline constexpr std::size_t kProbeBatch = 8;
/// Greedy tokens of each answer.
inline constexpr int kProbeTokens = 16;

struct BatchProbe {
  /// One for each request: its greedy tokens differ between batch 1 and batch N; nothing when an answer is
  /// missing.
  std::vector<std::optional<bool>> variant;
  /// One for each request: how far the two answers agree; nothing when an answer is missing or does not list
  /// all of its tokens, as where the request asks for no log-probabilities.
  std::vector<std::optional<stages::GreedyAgreement>> agreement;
  std::vector<std::string> notes;  ///< one sentence for each kind of failure
};

/// Asks the engine for the greedy tokens of each request alone, then again with `kProbeBatch` requests in
/// flight, and compares (`batch_variant_rate` of docs/design/measurement.md, "Registry of names"). Both
/// passes take the requests in an order of their own, which follows from `seed`, and without the engine's
/// prompt cache, so that the batch alone is varied: `cache_prompt` and `cache_salt` switch it off; where the
/// engine refuses them, it is asked without, and a note says so. Tokens are compared by id where the engine
/// gives ids, else by text. Nobody else should ask the engine meanwhile. An engine that fails many times in a
/// row is not asked further. Errors: those of engine_http.
[[nodiscard]] schema::Result<BatchProbe> probe_batches(
    const EngineAddress& engine, const std::string& model, const std::vector<GreedyRequest>& requests,
    std::uint64_t seed, const net::OutgoingPolicy& policy,
    const std::function<void(std::size_t done, std::size_t total)>& report);

}  // namespace driftgate::jobs
