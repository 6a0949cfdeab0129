#include "daemon/web/accept_encoding.hpp"

#include <algorithm>

#include "daemon/base/http_text.hpp"

namespace driftgate::web {
namespace {

/// Takes what stands before `separator` off `text`.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = base::trimmed(text.substr(0, end));
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return part;
}

/// "q=0", "q=0.000": not taken.
bool is_refused(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view parameter = take(parameters, ';');
    if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) continue;
    return std::ranges::none_of(parameter.substr(2), [](char c) { return c >= '1' && c <= '9'; });
  }
  return false;
}

}  // namespace

AcceptedCodings accepted_codings(std::optional<std::string_view> field) {
  std::string_view rest = field.value_or("");
  std::optional<bool> gzip, brotli;
  bool others = false;
  while (!rest.empty()) {
    std::string_view parameters = take(rest, ',');
    const std::string_view name = take(parameters, ';');
    const bool taken = !is_refused(parameters);
    if (base::equal_ignoring_case(name, "gzip") || base::equal_ignoring_case(name, "x-gzip")) gzip = taken;
    if (base::equal_ignoring_case(name, "br")) brotli = taken;
    if (name == "*") others = taken;
  }
  return {.gzip = gzip.value_or(others), .brotli = brotli.value_or(others)};
}

}  // namespace driftgate::web
