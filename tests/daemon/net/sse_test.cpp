#include "daemon/net/sse.hpp"

#include <doctest/doctest.h>

#include <vector>

using driftgate::net::format_sse;
using driftgate::net::SseEvent;
using driftgate::net::SseParser;

namespace {

std::vector<SseEvent> parse_in_pieces(const std::string& bytes, std::size_t piece) {
  std::vector<SseEvent> events;
  SseParser parser;
  for (std::size_t i = 0; i < bytes.size(); i += piece)
    REQUIRE(parser.feed(std::string_view(bytes).substr(i, piece), [&](const SseEvent& event) {
      events.push_back(event);
      return true;
    }));
  return events;
}

}  // namespace

TEST_CASE("events survive formatting and parsing whatever pieces the bytes arrive in") {
  const std::string bytes = format_sse({"7", "state_changed", "{\"a\":1}\nsecond line"}) + ": heartbeat\n\n" +
                            format_sse({"8", "", ""}) + "event: x\r\ndata:y\r\n\r\nid: 9\rdata: z\r\r";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    CAPTURE(piece);
    const auto events = parse_in_pieces(bytes, piece);
    REQUIRE(events.size() == 4);
    CHECK(events[0].id == "7");
    CHECK(events[0].name == "state_changed");
    CHECK(events[0].data == "{\"a\":1}\nsecond line");
    CHECK(events[1].id == "8");
    CHECK(events[2].name == "x");
    CHECK(events[2].data == "y");
    CHECK(events[3].id == "9");
    CHECK(events[3].data == "z");
  }
}

TEST_CASE("an event without end is refused at the limit") {
  SseParser parser;
  const std::string endless(SseParser::kMaxEventBytes + 1, 'x');
  const auto fed = parser.feed(endless, [](const SseEvent&) { return true; });
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code == driftgate::schema::ErrorCode::limit_exceeded);
}
