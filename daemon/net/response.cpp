#include "daemon/net/response.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace driftgate::net {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

Response plain_problem(int status, std::string_view code, std::string_view detail) {
  const nlohmann::json body{{"type", "about:blank"},
                            {"title", reason_phrase(status)},
                            {"status", status},
                            {"code", code},
                            {"detail", detail}};
  Response response;
  response.status = status;
  response.headers.push_back({"Content-Type", "application/problem+json"});
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

std::string format_response_head(const Response& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  for (const Header& header : response.headers) {
    out += header.name;
    out += ": ";
    // A value never ends its line, whatever it was made from.
    for (const char c : header.value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    out += "\r\n";
  }
  if (response.source) out += "Transfer-Encoding: chunked\r\n";
  if (!response.feed && !response.source) out += fmt::format("Content-Length: {}\r\n", response.body.size());
  out += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return out;
}

}  // namespace driftgate::net
