#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/route/http/http_head.hpp"
#include "daemon/route/http/operations.hpp"
#include "daemon/route/relay/endpoint.hpp"

namespace driftgate::route {

/// How the body of an answer is delimited towards the client.
enum class Framing : std::uint8_t { length, chunked, until_close };

/// The pseudonym of a router in Via (RFC 9110, section 7.6.3): "driftgate-" and its id.
[[nodiscard]] std::string via_mark(std::string_view router_id);

/// True when a value of Via names `mark` among those that passed the message on.
[[nodiscard]] bool via_names(std::string_view value, std::string_view mark);

/// The head sent to an engine: the client's, without fields of one hop, without `driftgate-*`, without
/// names that are not plain (limits::is_plain_header_name), and without Accept-Encoding (answers are read
/// by the router), framed by Content-Length. `mark` is added to Via, so that a request that comes back is
/// known. An engine with a key gets that key in place of the client's Authorization, and of the client's
/// header of the key's name.
[[nodiscard]] std::string engine_request_head(const RequestHead& head, const Endpoint& engine,
                                              std::uint64_t body_bytes, std::string_view mark);

/// The head sent to the client: the engine's, framed anew. `body_bytes` is used with Framing::length.
[[nodiscard]] std::string client_answer_head(const ResponseHead& head, Framing framing,
                                             std::uint64_t body_bytes, bool keep_alive);

/// A whole answer of the router's own; with 503 it asks to try again in a second.
[[nodiscard]] std::string own_answer(int status, std::string_view content_type, std::string_view body,
                                     bool keep_alive);

/// An error in the shape that OpenAI clients read: {"error": {"message", "type", "param", "code"}}.
[[nodiscard]] std::string openai_error(std::string_view type, std::string_view code,
                                       std::string_view message);

/// The same as Anthropic's clients read it: {"type": "error", "error": {"type", "message"}}. The type follows
/// from the status.
[[nodiscard]] std::string anthropic_error(int status, std::string_view message);

/// A failure of the client's request, or of the engines, as the client is told.
struct Refusal {
  int status = 400;
  std::string code;
  std::string message;
};

/// The whole answer for it, in the format of the API that the request is of; its type follows from the
/// status.
[[nodiscard]] std::string refusal_answer(const Refusal& refusal, bool keep_alive,
                                         ApiShape shape = ApiShape::completion);

}  // namespace driftgate::route
