#include "daemon/route/http/sse_scan.hpp"

#include <cstring>
#include <limits>

#include "daemon/route/http/answer_shapes.hpp"

namespace driftgate::route {
namespace {

/// What follows `"name":` and blanks, at its first place; empty when there is none.
std::string_view after_key(std::string_view json, std::string_view quoted_name) {
  // A text has many quotes, at each of which string_view::find would begin to compare.
  const void* const at = ::memmem(json.data(), json.size(), quoted_name.data(), quoted_name.size());
  if (at == nullptr) return {};
  const auto before = static_cast<std::size_t>(static_cast<const char*>(at) - json.data());
  auto rest = json.substr(before + quoted_name.size());
  const auto skip = [&] {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
  };
  skip();
  if (!rest.starts_with(':')) return {};
  rest.remove_prefix(1);
  skip();
  return rest;
}

bool text_at(std::string_view json, std::string_view quoted_name) {
  const auto value = after_key(json, quoted_name);
  return value.size() > 1 && value[0] == '"' && value[1] != '"';
}

/// `choices` is what follows that key. An event is a token when it carries text, or, without text, neither
/// ends a choice nor opens a message (byte-level engines send empty text inside a character of several
/// bytes). A plain search is enough: quotes inside strings are escaped.
bool is_token(std::string_view json, std::string_view choices) {
  if (!choices.starts_with('[')) return false;
  const auto inside = choices.substr(1);
  const auto first = inside.find_first_not_of(" \t");
  if (first == std::string_view::npos || inside[first] == ']') return false;
  if (text_at(json, "\"text\"") || text_at(json, "\"content\"")) return true;
  return !after_key(json, "\"finish_reason\"").starts_with('"') && after_key(json, "\"role\"").empty();
}

}  // namespace

void SseScan::feed(std::string_view bytes, double now_ms) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    if (end != std::string_view::npos && line_.empty() && !too_long_ && end <= kMaxJudgedLineBytes) {
      end_of_line(piece, now_ms);
      bytes.remove_prefix(end + 1);
      continue;
    }
    if (line_.size() + piece.size() > kMaxJudgedLineBytes) {
      too_long_ = true;
      line_.clear();
    }
    if (!too_long_) line_.append(piece);
    if (end == std::string_view::npos) return;
    if (!too_long_) end_of_line(line_, now_ms);
    line_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void SseScan::end_of_line(std::string_view line, double now_ms) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with("data:")) return;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  data_event(line, now_ms);
}

void SseScan::count_token(double now_ms) {
  if (tokens_++ == 0) first_ms_ = now_ms;
  last_ms_ = now_ms;
}

void SseScan::data_event(std::string_view payload, double now_ms) {
  if (shape_ == ApiShape::unread) return;
  if (shape_ != ApiShape::completion) {
    const auto event = read_stream_event(shape_, payload);
    done_ = done_ || event.end;
    failed_ = failed_ || event.failure;
    garbage_ = garbage_ || event.garbage;
    if (event.token) count_token(now_ms);
    return;
  }
  if (payload == "[DONE]") {
    done_ = true;
    return;
  }
  const auto last = payload.find_last_not_of(" \t");
  const bool object = payload.starts_with('{') && payload[last] == '}';
  const auto choices = after_key(payload, "\"choices\"");
  if (!object || choices.empty()) {
    garbage_ = true;
    return;
  }
  if (is_token(payload, choices)) count_token(now_ms);
}

double SseScan::inter_token_ms() const {
  if (tokens_ < 2) return std::numeric_limits<double>::quiet_NaN();
  return (last_ms_ - first_ms_) / static_cast<double>(tokens_ - 1);
}

}  // namespace driftgate::route
