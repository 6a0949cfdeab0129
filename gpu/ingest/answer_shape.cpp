#include "gpu/ingest/answer_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::gpu::ingest {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

namespace {

constexpr schema::JsonLimits kEventLimits{kMaxDocumentBytes, 32, kMaxDocumentValues};
constexpr std::string_view kDone = "[DONE]";

/// The member with this name, or null when it is absent or null.
const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool any_choice(const json& answer, const auto& test) {
  const json* choices = member(answer, "choices");
  return choices != nullptr && choices->is_array() && std::ranges::any_of(*choices, test);
}

bool lists(const json& choice, const char* name) {
  const json* logprobs = member(choice, "logprobs");
  return logprobs != nullptr && member(*logprobs, name) != nullptr;
}

/// Lines of server-sent events, without line ends.
std::string_view next_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Appends text to text and list to list; of anything else the newer value counts.
void append(json& to, const json& from, const char* name) {
  const json* added = member(from, name);
  if (added == nullptr) return;
  json& held = to[name];
  if (held.is_string() && added->is_string()) {
    held.get_ref<std::string&>() += added->get_ref<const std::string&>();
  } else if (held.is_array() && added->is_array()) {
    held.insert(held.end(), added->begin(), added->end());
  } else {
    held = *added;
  }
}

void append_choice(json& to, const json& from) {
  for (const char* name : {"text", "token_ids", "prompt_token_ids", "finish_reason", "index"})
    append(to, from, name);
  for (const char* side : {"message", "delta"}) {
    const json* part = member(from, side);
    if (part != nullptr && part->is_object()) append(to["message"], *part, "content");
  }
  const json* logprobs = member(from, "logprobs");
  if (logprobs == nullptr || !logprobs->is_object()) return;
  for (const char* name : {"content", "tokens", "token_logprobs", "top_logprobs", "text_offset"})
    append(to["logprobs"], *logprobs, name);
}

void append_event(json& to, const json& event) {
  for (const char* name : {"id", "object", "model", "system_fingerprint", "meta_info", "prompt_token_ids",
                           "usage", "tokens_predicted", "stop_type"})
    if (const json* value = member(event, name)) to[name] = *value;
  for (const char* name : {"content", "tokens", "completion_probabilities", "prompt_logprobs"})
    append(to, event, name);
  const json* choices = member(event, "choices");
  if (choices == nullptr || !choices->is_array()) return;
  json& held = to["choices"];
  if (!held.is_array()) held = json::array();
  for (const json& choice : *choices) {
    const json* index = member(choice, "index");
    const auto same = std::ranges::find_if(held, [&](const json& one) {
      const json* other = member(one, "index");
      return (index == nullptr && other == nullptr) ||
             (index != nullptr && other != nullptr && *index == *other);
    });
    append_choice(same == held.end() ? held.emplace_back(json::object()) : *same, choice);
  }
}

bool starts_another(const json& answer, const json& event) {
  const json *before = member(answer, "id"), *now = member(event, "id");
  return before != nullptr && now != nullptr && *before != *now;
}

}  // namespace

std::optional<Format> shape_of(const json& answer) {
  const json* meta = member(answer, "meta_info");
  if (meta != nullptr && (member(*meta, "input_token_logprobs") || member(*meta, "output_token_logprobs")))
    return Format::sglang;
  if (member(answer, "completion_probabilities") != nullptr) return Format::llamacpp;
  const auto has_prompt = [](const json& choice) { return member(choice, "prompt_logprobs") != nullptr; };
  if (has_prompt(answer) || any_choice(answer, has_prompt)) return Format::vllm;
  if (any_choice(answer, [](const json& choice) { return lists(choice, "content"); })) return Format::chat;
  if (any_choice(answer, [](const json& choice) { return lists(choice, "tokens"); })) return Format::openai;
  return std::nullopt;
}

std::string known_shapes() {
  return "choices[].logprobs.tokens (completions), choices[].logprobs.content (chat, and llama.cpp), "
         "prompt_logprobs (vLLM), meta_info.*_token_logprobs (SGLang), completion_probabilities (llama.cpp)";
}

bool is_event_stream(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
  constexpr std::array<std::string_view, 4> kFields{"data:", "event:", "id:", ":"};
  return std::ranges::any_of(kFields, [&](std::string_view field) { return text.starts_with(field); });
}

Result<std::vector<json>> join_streams(std::string_view text, const std::string& name) {
  if (text.size() > kMaxDocumentBytes)
    return schema::failf(ErrorCode::limit_exceeded, "{} has more than {} bytes; read it in parts", name,
                         kMaxDocumentBytes);
  std::vector<json> answers;
  bool open = false;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = next_line(text);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    if (line == kDone) {
      open = false;
      continue;
    }
    const auto event = TRY(schema::parse_json(line, kEventLimits, fmt::format("{}, line {}", name, number)));
    if (!event.is_object())
      return schema::failf(ErrorCode::invalid_document, "{}, line {}: the event is no JSON object", name,
                           number);
    if (!open || starts_another(answers.back(), event)) answers.push_back(json::object());
    open = true;
    append_event(answers.back(), event);
  }
  return answers;
}

}  // namespace driftgate::gpu::ingest
