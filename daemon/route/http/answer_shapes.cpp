#include "daemon/route/http/answer_shapes.hpp"

#include "daemon/route/http/body_json.hpp"

namespace driftgate::route {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// The end of the string that begins behind the quote at `from`: the place of its closing quote, or npos.
std::size_t end_of_string(std::string_view json, std::size_t from) {
  for (std::size_t i = from; i < json.size(); ++i) {
    if (json[i] == '\\') {
      ++i;
    } else if (json[i] == '"') {
      return i;
    }
  }
  return std::string_view::npos;
}

/// The array that every answer of a shape has.
std::string_view list_of(ApiShape shape) {
  switch (shape) {
    case ApiShape::completion:
      return "choices";
    case ApiShape::response:
      return "output";
    case ApiShape::message:
      return "content";
    case ApiShape::embedding:
      return "data";
    case ApiShape::unread:
      break;
  }
  return {};
}

StreamEvent read_response_event(std::string_view type) {
  StreamEvent event;
  event.token = type.starts_with("response.") && type.ends_with(".delta");
  event.end = type == "response.completed" || type == "response.incomplete";
  event.failure = type == "response.failed" || type == "error";
  event.garbage = type.empty();  // servers have types of their own beside those of the API
  return event;
}

StreamEvent read_message_event(std::string_view type) {
  StreamEvent event;
  event.token = type == "content_block_delta";
  event.end = type == "message_stop";
  event.failure = type == "error";
  event.garbage = type.empty();  // further types may come, says the API
  return event;
}

}  // namespace

std::string_view top_text(std::string_view json, std::string_view name) {
  int depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (byte == '{' || byte == '[') ++depth;
    if (byte == '}' || byte == ']') --depth;
    if (byte != '"') continue;
    const auto end = end_of_string(json, i + 1);
    if (end == std::string_view::npos) return {};
    const auto text = json.substr(i + 1, end - i - 1);
    i = end;
    if (depth != 1 || text != name) continue;
    // Only a key has a colon behind it.
    const auto colon = json.find_first_not_of(kBlanks, end + 1);
    if (colon == std::string_view::npos || json[colon] != ':') continue;
    const auto value = json.find_first_not_of(kBlanks, colon + 1);
    if (value == std::string_view::npos || json[value] != '"') return {};
    const auto value_end = end_of_string(json, value + 1);
    return value_end == std::string_view::npos ? std::string_view()
                                               : json.substr(value + 1, value_end - value - 1);
  }
  return {};
}

StreamEvent read_stream_event(ApiShape shape, std::string_view payload) {
  if (payload == "[DONE]") return {};
  const auto last = payload.find_last_not_of(kBlanks);
  const bool object = payload.starts_with('{') && payload[last] == '}';
  if (!object) {
    StreamEvent event;
    event.garbage = true;
    return event;
  }
  const auto type = top_text(payload, "type");
  return shape == ApiShape::message ? read_message_event(type) : read_response_event(type);
}

AnswerKind read_answer(ApiShape shape, std::string_view body) {
  if (shape == ApiShape::unread) return AnswerKind::answer;
  const auto facts = scan_answer_body(body, list_of(shape));
  if (facts && shape == ApiShape::response && facts->status == "failed") return AnswerKind::failure;
  return facts && facts->has_list ? AnswerKind::answer : AnswerKind::garbage;
}

}  // namespace driftgate::route
