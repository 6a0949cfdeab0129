#include "daemon/jobs/engines/greedy.hpp"

#include <algorithm>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

/// Members that decide how tokens are sampled, how many answers there are, and how they are sent.
constexpr const char* kSampling[] = {"model",
                                     "temperature",
                                     "top_p",
                                     "top_k",
                                     "min_p",
                                     "typical_p",
                                     "n",
                                     "best_of",
                                     "stream",
                                     "stream_options",
                                     "echo",
                                     "logprobs",
                                     "top_logprobs",
                                     "n_probs",
                                     "prompt_logprobs",
                                     "max_tokens",
                                     "max_completion_tokens",
                                     "seed",
                                     "user",
                                     "metadata",
                                     "store",
                                     "use_beam_search"};

/// One text, or one list of token ids.
bool is_one_prompt(const json* prompt) {
  if (prompt == nullptr) return false;
  if (prompt->is_string()) return !prompt->get_ref<const std::string&>().empty();
  return prompt->is_array() && !prompt->empty() &&
         std::ranges::all_of(*prompt, [](const json& id) { return id.is_number_integer(); });
}

bool is_conversation(const json* messages) {
  return messages != nullptr && messages->is_array() && !messages->empty();
}

}  // namespace

std::optional<GreedyRequest> greedy_request(const route::MirroredPair& pair, int tokens) {
  auto parsed = schema::parse_json(pair.request_body, kBodyLimits, "a request");
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const bool completion = pair.path == "/v1/completions" && is_one_prompt(base::member(*parsed, "prompt"));
  const bool chat = pair.path == "/v1/chat/completions" && is_conversation(base::member(*parsed, "messages"));
  if (!completion && !chat) return std::nullopt;
  for (const char* name : kSampling) parsed->erase(name);
  (*parsed)["temperature"] = 0;
  (*parsed)["max_tokens"] = tokens;
  return GreedyRequest{pair.path, std::move(*parsed)};
}

schema::Result<Generated> greedy_answer(net::HttpClient& client, const std::string& model,
                                        const GreedyRequest& request, const json& extra) {
  json body = request.body;
  body["model"] = model;
  body.update(extra);
  auto answer = TRY(client.send(engine_post(client, request.path, body)));
  if (answer.status != 200) {
    const bool refused = answer.status == 400 || answer.status == 422;
    return schema::failf(refused ? ErrorCode::invalid_argument : ErrorCode::unavailable,
                         "the engine {} answered {} to a greedy request to {}", client.base().base(),
                         answer.status, request.path);
  }
  route::MirroredPair::Side side;
  side.body = std::move(answer.body);
  auto generated = generated_of(side);
  if (generated.has_choice) return generated;
  return schema::failf(ErrorCode::invalid_document,
                       "the engine {} answered a greedy request to {} without a choice", client.base().base(),
                       request.path);
}

}  // namespace driftgate::jobs
