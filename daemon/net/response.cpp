#include "daemon/net/response.hpp"

#include <fmt/core.h>

#include <ctime>

#include <nlohmann/json.hpp>

#include "daemon/base/http_status.hpp"

namespace driftgate::net {
namespace {

/// The time now as RFC 9110 writes it: clients see by it whether their clock agrees.
std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text,
          std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};  // the "C" locale's names
}

}  // namespace

Response plain_problem(int status, std::string_view code, std::string_view detail) {
  const nlohmann::json body{{"type", "about:blank"},
                            {"title", base::reason_phrase(status)},
                            {"status", status},
                            {"code", code},
                            {"detail", detail}};
  Response response;
  response.status = status;
  response.headers.push_back({"Content-Type", "application/problem+json"});
  if (status == 503) response.headers.push_back({"Retry-After", "1"});
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

std::string format_response_head(const Response& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, base::reason_phrase(response.status));
  out += fmt::format("Date: {}\r\n", date_now());
  for (const Header& header : response.headers) {
    out += header.name;
    out += ": ";
    // A value never ends its line, whatever it was made from.
    for (const char c : header.value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    out += "\r\n";
  }
  if (response.source) out += "Transfer-Encoding: chunked\r\n";
  // Of a 304 it would be the length of what the client has.
  const bool is_counted = !response.feed && !response.source && response.status != 304;
  if (is_counted) out += fmt::format("Content-Length: {}\r\n", response.body.size());
  out += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return out;
}

std::string format_whole(const Response& response) {
  return format_response_head(response, false) + response.body;
}

}  // namespace driftgate::net
