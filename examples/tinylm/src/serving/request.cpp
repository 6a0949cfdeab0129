#include "examples/tinylm/src/serving/request.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "examples/tinylm/src/corpus.hpp"
#include "examples/tinylm/src/model.hpp"

namespace tinylm {
namespace {

using nlohmann::json;

struct Refused {
  ApiError error;
};

[[noreturn]] void refuse(const std::string& message, const std::string& code = "invalid_value",
                         int status = 400) {
  throw Refused{{status, "invalid_request_error", code, message}};
}

const json* find(const json& body, const char* name) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::size_t> size_field(const json& body, const char* name, std::size_t max) {
  const json* value = find(body, name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned() && value->get<std::uint64_t>() <= max;
  if (!fits) refuse(std::string(name) + " must be an integer from 0 to " + std::to_string(max));
  return value->get<std::size_t>();
}

bool bool_field(const json& body, const char* name) {
  const json* value = find(body, name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(std::string(name) + " must be true or false");
  return value->get<bool>();
}

std::vector<std::int32_t> prompt_tokens(const json& body) {
  const json* prompt = find(body, "prompt");
  if (prompt == nullptr) refuse("prompt is missing: send a string or an array of token ids", "missing_field");
  if (prompt->is_array() && prompt->size() == 1 && prompt->at(0).is_string()) prompt = &prompt->at(0);
  if (prompt->is_string()) return tokens_of_text(prompt->get<std::string>());
  if (!prompt->is_array()) refuse("prompt must be a string or an array of token ids");
  if (prompt->empty()) refuse("prompt has no token: begin with 256, the token that begins a text");
  std::vector<std::int32_t> tokens;
  for (const json& token : *prompt) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() > static_cast<std::uint64_t>(kBos))
      refuse(
          "prompt holds something that is not a token id from 0 to 256; several prompts in one request are "
          "not served");
    tokens.push_back(token.get<std::int32_t>());
  }
  return tokens;
}

std::vector<std::string> stop_field(const json& body) {
  const json* value = find(body, "stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMaxStops) refuse("stop takes at most 4 strings");
  for (const json& stop : list) {
    const bool fits = stop.is_string() && !stop.get_ref<const std::string&>().empty() &&
                      stop.get_ref<const std::string&>().size() <= kMaxStopBytes;
    if (!fits) refuse("each stop must be a string of 1 to 64 bytes");
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

double temperature_field(const json& body) {
  const json* value = find(body, "temperature");
  if (value == nullptr) return 1.0;
  if (!value->is_number() || value->get<double>() < 0 || value->get<double>() > 2)
    refuse("temperature must be a number from 0 to 2");
  return value->get<double>();
}

// Fields that would change the sampling are refused unless they have the value that applies anyway.
void check_unsupported(const json& body) {
  for (const char* name : {"n", "best_of"})
    if (const json* value = find(body, name); value != nullptr && *value != json(1))
      refuse(std::string(name) + " must be 1: a request gets one completion", "unsupported_value");
  if (const json* value = find(body, "top_p"); value != nullptr && *value != json(1))
    refuse("top_p must be 1: tinylm samples without filters", "unsupported_value");
  if (find(body, "suffix") != nullptr) refuse("suffix is not served", "unsupported_value");
}

CompletionRequest parse(const json& body, const std::string& model, std::size_t max_positions) {
  if (!body.is_object()) refuse("the body must be a JSON object", "invalid_json");
  if (const json* name = find(body, "model"); name != nullptr && *name != json(model))
    refuse("no such model: this engine serves " + model, "model_not_found", 404);
  check_unsupported(body);
  CompletionRequest request;
  request.prompt = prompt_tokens(body);
  request.max_tokens = size_field(body, "max_tokens", max_positions).value_or(16);
  request.temperature = temperature_field(body);
  if (const json* seed = find(body, "seed")) {
    if (!seed->is_number_integer()) refuse("seed must be an integer");
    request.seed = static_cast<std::uint64_t>(seed->get<std::int64_t>());
  }
  request.stream = bool_field(body, "stream");
  request.echo = bool_field(body, "echo");
  if (const json* options = find(body, "stream_options")) {
    if (!options->is_object()) refuse("stream_options must be an object");
    request.stream_usage = bool_field(*options, "include_usage");
  }
  request.logprobs = size_field(body, "logprobs", kMaxLogprobs);
  request.stop = stop_field(body);
  if (request.prompt.size() + request.max_tokens > max_positions)
    refuse("prompt (" + std::to_string(request.prompt.size()) + " tokens) and max_tokens (" +
               std::to_string(request.max_tokens) + ") exceed the context of " +
               std::to_string(max_positions) + ": shorten one",
           "context_length_exceeded");
  return request;
}

}  // namespace

std::expected<CompletionRequest, ApiError> parse_completion(const std::string& body, const std::string& model,
                                                            std::size_t max_positions) {
  try {
    return parse(json::parse(body), model, max_positions);
  } catch (const Refused& refused) {
    return std::unexpected(refused.error);
  } catch (const json::exception& error) {
    return std::unexpected(ApiError{400, "invalid_request_error", "invalid_json",
                                    std::string("the body is not valid JSON: ") + error.what()});
  }
}

}  // namespace tinylm
