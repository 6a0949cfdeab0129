#include <string>
#include <vector>

#include "daemon/net/sse.hpp"
#include "daemon/route/http/sse_scan.hpp"
#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate;

std::vector<std::string> events_of(std::string_view bytes, std::size_t step) {
  net::SseParser parser;
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    const auto fed = parser.feed(bytes.substr(at, step), [&](const net::SseEvent& event) {
      events.push_back(event.id + "\n" + event.name + "\n" + event.data);
      return true;
    });
    if (!fed) break;
  }
  return events;
}

}  // namespace

/// Server-sent events, whole and in pieces.
void driftgate::fuzz::run(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t step = static_cast<unsigned char>(bytes.front()) % 7 + 1;
  bytes.remove_prefix(1);
  if (bytes.empty()) return;
  require(events_of(bytes, bytes.size()) == events_of(bytes, step), "pieces give the same events");
  route::SseScan whole;
  whole.feed(bytes, 1);
  route::SseScan pieces;
  for (std::size_t at = 0; at < bytes.size(); at += step) pieces.feed(bytes.substr(at, step), 1);
  require(whole.done() == pieces.done() && whole.garbage() == pieces.garbage() &&
              whole.tokens() == pieces.tokens(),
          "pieces are judged as the whole is");
}
