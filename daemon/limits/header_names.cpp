#include "daemon/limits/header_names.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "daemon/base/ascii.hpp"

namespace driftgate::limits {
namespace {

constexpr std::string_view kOwnPrefix = "driftgate-";

/// What frames a message, says who asks, or steers it.
constexpr std::array<std::string_view, 17> kGuarded{
    "authorization",    "connection", "content-encoding",    "content-length",
    "content-type",     "cookie",     "expect",              "forwarded",
    "host",             "keep-alive", "proxy-authorization", "proxy-connection",
    "te",               "trailer",    "transfer-encoding",   "upgrade",
    "via"};

/// Letters and digits alone, in lower case.
std::string bare(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (base::is_alphanumeric(c)) out += base::lower(c);
  return out;
}

}  // namespace

bool is_plain_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return base::is_alphanumeric(c, "-"); });
}

std::optional<std::string_view> disguised_header(std::string_view name) {
  if (is_plain_header_name(name)) return std::nullopt;
  const std::string read = bare(name);
  for (const std::string_view guarded : kGuarded)
    if (read == bare(guarded)) return guarded;
  if (read.starts_with(bare(kOwnPrefix))) return kOwnPrefix;
  return std::nullopt;
}

}  // namespace driftgate::limits
