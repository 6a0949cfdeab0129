#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// The tokens that an answer generated, as two engines score them.
struct AnswerScores {
  std::vector<double> log_p, log_q;  ///< of the same tokens, in nats; NaN where an engine does not know it
  std::uint64_t tokens = 0;          ///< that each engine scored, those of the prompt included
};

/// Has both engines score the prompt with the answer, and keeps the tokens of the answer. By token ids where
/// `by_ids` is set and the answer has them, since a text need not split into the tokens that were sampled.
/// Errors: those of EngineClient::score, and `not_comparable` for an answer that cannot be scored as text or
/// is split into different tokens.
[[nodiscard]] schema::Result<AnswerScores> score_answer(const std::string& prompt, const Generated& answer,
                                                        bool by_ids, EngineClient& p_engine,
                                                        EngineClient& q_engine);

/// What the engine says it takes for sampling parameters that requests leave out (GET /props); nothing where
/// it does not say. Errors: those of engine_http.
[[nodiscard]] schema::Result<SamplingDefaults> ask_sampling_defaults(const EngineAddress& engine,
                                                                     const net::OutgoingPolicy& policy);

}  // namespace driftgate::jobs
