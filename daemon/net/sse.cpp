#include "daemon/net/sse.hpp"

#include <utility>

namespace driftgate::net {

std::string format_sse(const SseEvent& event) {
  std::string out;
  if (!event.id.empty()) out += "id: " + event.id + "\n";
  if (!event.name.empty()) out += "event: " + event.name + "\n";
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = event.data.find('\n', start);
    out += "data: " + event.data.substr(start, end == std::string::npos ? end : end - start) + "\n";
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return out + "\n";
}

void SseParser::take_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == 0) return;
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") {
    event_.id = value;
  } else if (field == "event") {
    event_.name = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
}

schema::Result<void> SseParser::feed(std::string_view bytes,
                                     const std::function<bool(const SseEvent&)>& on_event) {
  for (const char c : bytes) {
    const bool second_of_crlf = c == '\n' && after_cr_;
    after_cr_ = c == '\r';
    if (second_of_crlf) continue;
    if (c != '\n' && c != '\r') {
      line_ += c;
      if (line_.size() + event_.data.size() > kMaxEventBytes)
        return schema::fail(schema::ErrorCode::limit_exceeded,
                            "an event of the stream is larger than 1 MB: is this an event stream?");
      continue;
    }
    if (!line_.empty()) {
      take_line(line_);
      line_.clear();
      continue;
    }
    const SseEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false) && !on_event(event)) return {};
  }
  return {};
}

}  // namespace driftgate::net
