#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/route/http/operations.hpp"

namespace driftgate::route {

/// What one `data:` line of a stream says.
struct StreamEvent {
  bool token = false;    ///< it carries a piece of the answer
  bool end = false;      ///< the answer is whole
  bool failure = false;  ///< the engine gave up
  bool garbage = false;  ///< it is not what the API promises
};

/// Reads an event of a responses or messages stream: its end is `response.completed` or
/// `response.incomplete` (the answer reached its limit of tokens), or `message_stop`. A `data: [DONE]`, which
/// some servers send behind that, says nothing.
[[nodiscard]] StreamEvent read_stream_event(ApiShape shape, std::string_view payload);

enum class AnswerKind : std::uint8_t {
  answer,
  failure,  ///< the engine says, with status 200, that it gave up
  garbage,  ///< it is not what the API promises
};

/// Reads a whole answer of status 200. Shapes that nothing is known of are answers, whatever they hold.
[[nodiscard]] AnswerKind read_answer(ApiShape shape, std::string_view body);

/// The text of a member of the top object, as it is written between its quotes; empty when there is none. For
/// members whose values need no escapes; the rest of the text is not checked.
[[nodiscard]] std::string_view top_text(std::string_view json, std::string_view name);

}  // namespace driftgate::route
