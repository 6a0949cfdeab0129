#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/net/http_client.hpp"

namespace driftgate::jobs {

/// A mirrored request, asked again for its most probable tokens.
struct GreedyRequest {
  std::string path;
  nlohmann::json body;  ///< without "model"
};

/// The same prompt or messages, with what decides how they become tokens (templates, tools), at temperature
/// 0, of one answer of at most `tokens` tokens that is not streamed. Nothing for other requests than chat
/// completions and completions of one prompt, and for one whose body cannot be read.
[[nodiscard]] std::optional<GreedyRequest> greedy_request(const route::MirroredPair& pair, int tokens);

/// What `model` answers. `extra` members are added to the request. Errors: `invalid_argument` where the
/// engine refuses the request (400 or 422), `unavailable` for every other status but 200 and for an engine
/// that is away, `invalid_document` for an answer without a choice.
[[nodiscard]] schema::Result<Generated> greedy_answer(net::HttpClient& client, const std::string& model,
                                                      const GreedyRequest& request,
                                                      const nlohmann::json& extra);

}  // namespace driftgate::jobs
