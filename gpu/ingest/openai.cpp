#include <nlohmann/json.hpp>

#include "gpu/ingest/response_formats.hpp"
#include "schema/json.hpp"

// Completions: choices[].logprobs.{tokens, token_logprobs, top_logprobs}, three lists of equal length, the
// last of objects from token to log-probability. Chat: choices[].logprobs.content[].{token, logprob,
// top_logprobs[].{token, logprob}}. Both may append the sampled token beyond the top-k.

namespace driftgate::gpu::ingest {

using schema::Result;

namespace {

/// Calls a reader for the log-probabilities of each choice; where they are missing, the error says what to
/// request.
template <typename Read>
Result<void> each_choice(const Place& response, RowCollector& collector, const char* hint, Read read) {
  const auto choices = response.find("choices");
  if (!choices || !choices->is_array()) return collector.fail(response, "has no list 'choices'");
  for (std::size_t i = 0; i < choices->size(); ++i) {
    const Place choice = choices->at(i);
    const auto logprobs = choice.find("logprobs");
    if (!logprobs) return collector.fail(choice, std::string("has no 'logprobs': ") + hint);
    TRY(read(*logprobs));
  }
  return {};
}

Result<void> read_top(const Place& top, RowCollector& collector, EngineRow& row) {
  if (!top.value.is_object()) return collector.fail(top, "is not an object from tokens to log-probabilities");
  for (const auto& [text, value] : top.value.items()) {
    const Place place{value, top.pointer + "/" + schema::pointer_token(text)};
    const auto id = TRY(collector.id_of_text(text, place));
    TRY(collector.list(id, place, row));
  }
  return {};
}

Result<void> read_completion(const Place& logprobs, RowCollector& collector) {
  const auto tokens = logprobs.find("tokens"), values = logprobs.find("token_logprobs");
  if (!tokens || !values || !tokens->is_array() || !values->is_array() || tokens->size() != values->size()) {
    return collector.fail(logprobs, "needs the lists 'tokens' and 'token_logprobs' of one length");
  }
  const auto tops = logprobs.find("top_logprobs");
  if (tops && (!tops->is_array() || tops->size() != tokens->size())) {
    return collector.fail(*tops, "is not as long as 'tokens'");
  }
  const std::int64_t sequence = collector.next_sequence();
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    EngineRow row{sequence, static_cast<std::int64_t>(i), 0, {}, {}};
    const auto value = TRY(collector.logprob(values->at(i)));
    row.logprob = value;
    if (tops && !tops->at(i).is_null()) {
      TRY(read_top(tops->at(i), collector, row));
    }
    if (!row.logprob && row.list.empty()) continue;  // the first token of a prompt
    const auto token = TRY(collector.id_of_text(tokens->at(i)));
    row.token = token;
    TRY(collector.keep(std::move(row)));
  }
  return {};
}

/// The id of a token of a chat answer: the one that it carries (llama.cpp), else by its text.
Result<std::int64_t> id_of(const Place& item, const Place& text, const RowCollector& collector) {
  const auto id = item.find("id");
  return id ? collector.id(*id) : collector.id_of_text(text);
}

Result<void> read_chat_token(const Place& item, RowCollector& collector, EngineRow row) {
  const auto token = item.find("token"), value = item.find("logprob");
  if (!token) return collector.fail(item, "has no 'token'");
  const auto id = TRY(id_of(item, *token, collector));
  row.token = id;
  if (value) {
    const auto known = TRY(collector.logprob(*value));
    row.logprob = known;
  }
  const auto tops = item.find("top_logprobs");
  for (std::size_t i = 0; tops && i < tops->size(); ++i) {
    if (!tops->is_array()) return collector.fail(*tops, "is not a list");
    const Place top = tops->at(i);
    const auto text = top.find("token"), logprob = top.find("logprob");
    if (!text) return collector.fail(top, "has no 'token'");
    if (!logprob) continue;
    const auto listed = TRY(id_of(top, *text, collector));
    TRY(collector.list(listed, *logprob, row));
  }
  return collector.keep(std::move(row));
}

}  // namespace

Result<void> read_openai(const Place& response, RowCollector& collector) {
  return each_choice(response, collector, "ask for logprobs in the request",
                     [&](const Place& logprobs) { return read_completion(logprobs, collector); });
}

Result<void> read_chat(const Place& response, RowCollector& collector) {
  const char* hint = "ask for logprobs: true and top_logprobs in the request";
  return each_choice(response, collector, hint, [&](const Place& logprobs) -> Result<void> {
    const auto content = logprobs.find("content");
    if (!content || !content->is_array()) return collector.fail(logprobs, "has no list 'content'");
    const std::int64_t sequence = collector.next_sequence();
    for (std::size_t i = 0; i < content->size(); ++i) {
      EngineRow row{sequence, static_cast<std::int64_t>(i), 0, {}, {}};
      TRY(read_chat_token(content->at(i), collector, std::move(row)));
    }
    return {};
  });
}

}  // namespace driftgate::gpu::ingest
