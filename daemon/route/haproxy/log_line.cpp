#include "daemon/route/haproxy/log_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "daemon/route/table/route.hpp"
#include "daemon/route/table/slice.hpp"

namespace driftgate::route::haproxy {
namespace {

constexpr std::size_t kWords = 17;  // before the slice, which may have blanks
constexpr std::size_t kMaxWordBytes = 128;
constexpr std::string_view kAbsent = "-";

template <typename Number>
bool read_whole(std::string_view text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_flag(std::string_view text, bool& into) {
  into = text == "1";
  return into || text == "0";
}

using Words = std::array<std::string_view, kWords>;

/// The words before " |", and what stands behind it.
std::optional<Words> split(std::string_view& line) {
  Words words;
  for (auto& word : words) {
    const auto end = line.find(' ');
    if (end == std::string_view::npos || end == 0 || end > kMaxWordBytes) return std::nullopt;
    word = line.substr(0, end);
    line.remove_prefix(end + 1);
  }
  if (!line.starts_with('|')) return std::nullopt;
  line.remove_prefix(1);
  return words;
}

/// A header that HAProxy let pass and the router's parser refuses has no slice.
std::string canonical(const std::string& header) {
  const auto slice = parse_slice_header(header);
  return slice ? canonical_slice(*slice) : std::string();
}

Ending failed_with(std::string reason) {
  return {.outcome = Outcome::failed, .reason = std::move(reason)};
}

/// By the definition of `error_rate` (docs/design/measurement.md, "Registry of names"), as far as HAProxy
/// sees it. The first letter of `end` says who ended the request, the second one in which phase.
Ending ending_of(const LogLine& line) {
  const char who = line.end.front();
  const char phase = line.end.back();
  if (line.retried) {
    auto ending = failed_with("retried");
    ending.retried = true;
    return ending;
  }
  if (who == 'C' || who == 'c') return {.outcome = Outcome::excluded, .reason = "client_gone"};
  if (who == 's') return failed_with(phase == 'C' ? "connect" : "timeout");
  if (who == 'S') return failed_with(phase == 'C' ? "connect" : phase == 'D' ? "truncated_stream" : "closed");
  if (line.status != 429 && line.status >= 400 && line.status < 500)
    return {.outcome = Outcome::excluded, .reason = fmt::format("status_{}", line.status)};
  if (line.status < 200 || line.status >= 300) return failed_with(fmt::format("status_{}", line.status));
  return {};
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view text, std::string_view secret) {
  if (text.size() > kMaxLogLineBytes) return std::nullopt;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.remove_suffix(1);
  const auto words = split(text);
  if (!words || (*words)[0] != kLogLineName || (*words)[1] != secret) return std::nullopt;
  const auto& [name, said, boot, backend, order, tag, arm, keyless, pinned, share, hash, routed, ended,
               status, end, retries, server] = *words;
  LogLine line;
  std::int64_t signed_hash = 0;
  const bool read = read_whole(boot, line.boot) && read_whole(order, line.order) &&
                    read_flag(keyless, line.keyless) && read_flag(pinned, line.pinned) &&
                    read_whole(share, line.candidate_bp) && read_whole(hash, signed_hash) &&
                    read_whole(routed, line.routed_us) && read_whole(ended, line.ended_us) &&
                    read_whole(status, line.status);
  const bool sensible = read && arm.size() == 1 && std::string_view("imcf").contains(arm.front()) &&
                        end.size() == 2 && line.candidate_bp <= kFullShareBp && line.routed_us >= 0 &&
                        line.ended_us >= 0;
  if (!sensible) return std::nullopt;
  line.backend = backend;
  line.tag = tag;
  line.arm = arm.front();
  line.key_hash = static_cast<std::uint64_t>(signed_hash);
  line.end = end;
  line.retried = retries != "0";  // "1", or "+1" when another server was asked
  line.slice = text == kAbsent ? std::string() : std::string(text.substr(0, kMaxSliceHeaderBytes));
  return line;
}

Observation observation_of(const LogLine& line) {
  Observation seen;
  static_cast<Ending&>(seen) = ending_of(line);
  seen.ttft_ms = std::numeric_limits<double>::quiet_NaN();
  seen.inter_token_ms = std::numeric_limits<double>::quiet_NaN();
  seen.total_ms = static_cast<double>(std::max<std::int64_t>(line.ended_us - line.routed_us, 0)) / 1'000;
  seen.key_hash = line.key_hash;
  seen.keyless = line.keyless;
  seen.pinned = line.pinned;
  seen.candidate = line.arm == 'c';
  seen.candidate_bp = line.candidate_bp;
  seen.slice = canonical(line.slice);
  seen.routed_us = line.routed_us;
  return seen;
}

}  // namespace driftgate::route::haproxy
