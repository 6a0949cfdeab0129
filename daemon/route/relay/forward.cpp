#include "daemon/route/relay/forward.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "daemon/base/http_status.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/route/relay/engine_pass.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kUsualHeadBytes = 512;

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end);
}

void append_length(std::string& out, std::uint64_t body_bytes) {
  out += "Content-Length: ";
  append_number(out, body_bytes);
  out += "\r\n";
}

/// A field of a request that the router says itself, or keeps from the engine.
bool is_rewritten(FieldKind kind) {
  return kind == FieldKind::host || kind == FieldKind::content_length || kind == FieldKind::accept_encoding ||
         kind == FieldKind::driftgate;
}

/// Two credentials in one request would leave it to the engine which it takes.
bool is_of_key(std::string_view name, const EnginePass::State& pass) {
  return base::equal_ignoring_case(name, "authorization") || base::equal_ignoring_case(name, pass.key_name);
}

}  // namespace

std::string via_mark(std::string_view router_id) {
  return fmt::format("driftgate-{}", router_id);
}

bool via_names(std::string_view value, std::string_view mark) {
  while (!value.empty()) {
    const auto end = value.find_first_of(" \t,");
    if (base::equal_ignoring_case(value.substr(0, end), mark)) return true;
    value = end == std::string_view::npos ? std::string_view() : value.substr(end + 1);
  }
  return false;
}

std::string engine_request_head(const RequestHead& head, const Endpoint& engine, std::uint64_t body_bytes,
                                std::string_view mark) {
  const auto connection = named_by_connection(head);
  std::string out;
  out.reserve(kUsualHeadBytes);
  out.append(head.method).append(" ").append(engine.prefix).append(head.target).append(" HTTP/1.1\r\n");
  out.append("Host: ").append(engine.host_field()).append("\r\n");
  std::shared_ptr<const EnginePass::State> pass;
  if (engine.pass) pass = engine.pass->state();
  const bool has_key = pass != nullptr && !pass->key_name.empty();
  for (const auto& field : head.fields) {
    if (!field.plain_name || is_rewritten(field.kind) || hop_by_hop(field, connection)) continue;
    if (has_key && is_of_key(field.name, *pass)) continue;
    out += field.line;
  }
  if (has_key) out += pass->key_line;
  out.append(head.minor_version == 0 ? "Via: 1.0 " : "Via: 1.1 ").append(mark).append("\r\n");
  append_length(out, body_bytes);
  out += "\r\n";
  return out;
}

std::string client_answer_head(const ResponseHead& head, Framing framing, std::uint64_t body_bytes,
                               bool keep_alive) {
  const auto connection = named_by_connection(head);
  std::string out;
  out.reserve(kUsualHeadBytes);
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(head.status));
  out.append(" ").append(head.reason).append("\r\n");
  for (const auto& field : head.fields) {
    if (field.kind == FieldKind::content_length || hop_by_hop(field, connection)) continue;
    out += field.line;
  }
  if (framing == Framing::length) append_length(out, body_bytes);
  if (framing == Framing::chunked) out += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive || framing == Framing::until_close) out += "Connection: close\r\n";
  out += "\r\n";
  return out;
}

std::string own_answer(int status, std::string_view content_type, std::string_view body, bool keep_alive) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n{}", status,
                     base::reason_phrase(status), content_type, body.size(),
                     status == 503 ? "Retry-After: 1\r\n" : "", keep_alive ? "" : "Connection: close\r\n",
                     body);
}

std::string openai_error(std::string_view type, std::string_view code, std::string_view message) {
  const nlohmann::json error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", code}};
  return dumped({{"error", error}});
}

std::string anthropic_error(int status, std::string_view message) {
  std::string_view type = status >= 500 ? "api_error" : "invalid_request_error";
  if (status == 404) type = "not_found_error";
  if (status == 413) type = "request_too_large";
  if (status == 503) type = "overloaded_error";
  const nlohmann::json error = {{"type", type}, {"message", message}};
  return dumped({{"type", "error"}, {"error", error}});
}

std::string refusal_answer(const Refusal& refusal, bool keep_alive, ApiShape shape) {
  if (shape == ApiShape::message)
    return own_answer(refusal.status, "application/json", anthropic_error(refusal.status, refusal.message),
                      keep_alive);
  const auto* const type = refusal.status >= 500 ? "server_error" : "invalid_request_error";
  return own_answer(refusal.status, "application/json", openai_error(type, refusal.code, refusal.message),
                    keep_alive);
}

}  // namespace driftgate::route
