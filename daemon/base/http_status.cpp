#include "daemon/base/http_status.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace driftgate::base {
namespace {

constexpr auto kPhrases = std::to_array<std::pair<int, std::string_view>>({
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
});

}  // namespace

std::string_view reason_phrase(int status) {
  const auto* const found = std::ranges::find(kPhrases, status, &std::pair<int, std::string_view>::first);
  return found == kPhrases.end() ? "Unknown" : found->second;
}

}  // namespace driftgate::base
