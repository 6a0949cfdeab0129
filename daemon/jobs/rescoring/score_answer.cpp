#include "daemon/jobs/rescoring/score_answer.hpp"

#include <algorithm>
#include <cstddef>

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr const char* kReplacementCharacter = "\xEF\xBF\xBD";

/// How many leading tokens belong to the prompt: by their bytes when they spell the text, else by the
/// offsets.
std::size_t prompt_tokens(const ScoredText& scored, const std::string& prompt) {
  std::size_t bytes = 0;
  std::string joined;
  for (const auto& token : scored.tokens) joined += token;
  if (joined.starts_with(prompt)) {
    std::size_t n = 0;
    for (; n < scored.tokens.size() && bytes < prompt.size(); ++n) bytes += scored.tokens[n].size();
    return n;
  }
  const auto characters =
      std::ranges::count_if(prompt, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  const auto first =
      std::ranges::find_if(scored.text_offsets, [&](std::int64_t at) { return at >= characters; });
  return first == scored.text_offsets.end() ? scored.tokens.size()
                                            : static_cast<std::size_t>(first - scored.text_offsets.begin());
}

}  // namespace

schema::Result<AnswerScores> score_answer(const std::string& prompt, const Generated& answer, bool by_ids,
                                          EngineClient& p_engine, EngineClient& q_engine) {
  const bool ids_known = by_ids && !answer.prompt_ids.empty() && !answer.ids.empty();
  if (!ids_known && answer.text.find(kReplacementCharacter) != std::string::npos) {
    return schema::fail(ErrorCode::not_comparable,
                        "an answer that is not valid UTF-8 cannot be rescored as text");
  }
  auto ids = answer.prompt_ids;
  ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
  const auto p = TRY(ids_known ? p_engine.score(ids) : p_engine.score(prompt + answer.text));
  const auto q = TRY(ids_known ? q_engine.score(ids) : q_engine.score(prompt + answer.text));
  if (p.tokens != q.tokens)
    return schema::fail(ErrorCode::not_comparable, "the engines split a text into different tokens");
  const auto start =
      static_cast<std::ptrdiff_t>(ids_known ? answer.prompt_ids.size() : prompt_tokens(q, prompt));
  AnswerScores scores;
  scores.tokens = q.tokens.size();
  scores.log_p.assign(p.logprobs.begin() + start, p.logprobs.end());
  scores.log_q.assign(q.logprobs.begin() + start, q.logprobs.end());
  return scores;
}

schema::Result<SamplingDefaults> ask_sampling_defaults(const EngineAddress& engine,
                                                       const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http(engine, policy, false));
  const auto answer = client.send(engine_get(client, "/props"));
  const bool told = answer && answer->status == 200;
  return told ? sampling_defaults(answer->body) : SamplingDefaults{};
}

}  // namespace driftgate::jobs
