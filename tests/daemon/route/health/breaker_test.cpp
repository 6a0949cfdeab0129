#include "daemon/route/health/breaker.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace driftgate::route;

namespace {

using std::chrono::milliseconds;
const Breaker::Time kStart{std::chrono::hours(1)};

enum class Event { fails, succeeds, probe_fails, probe_answers, asks, gives_up };
using enum Event;
constexpr BreakerState kClosed = BreakerState::closed;
constexpr BreakerState kOpen = BreakerState::open;
constexpr BreakerState kHalfOpen = BreakerState::half_open;

struct Row {
  int at_ms;
  Event event;
  BreakerState state;     ///< after it
  bool admitted = false;  ///< of `asks`
};

/// Runs the rows on one breaker: it opens after 3 failures, waits 500 ms, then twice as long each time up to
/// 2 s.
void check(const std::string& name, const std::vector<Row>& rows, bool probed = true) {
  CAPTURE(name);
  const BreakerLimits limits{
      .failures = 3, .first_wait = milliseconds(500), .longest_wait = milliseconds(2'000), .probed = probed};
  Breaker breaker(limits);
  for (const auto& row : rows) {
    CAPTURE(row.at_ms);
    const auto now = kStart + milliseconds(row.at_ms);
    if (row.event == fails) breaker.failed(now);
    if (row.event == succeeds) breaker.succeeded();
    if (row.event == probe_fails) breaker.probed(false, now);
    if (row.event == probe_answers) breaker.probed(true, now);
    if (row.event == asks) CHECK(breaker.admits(now) == row.admitted);
    if (row.event == gives_up) breaker.gave_up();
    CHECK(to_string(breaker.state()) == to_string(row.state));
  }
}

}  // namespace

TEST_CASE("a breaker opens after failures in a row, of requests and of probes together") {
  check("requests", {{0, fails, kClosed},
                     {10, fails, kClosed},
                     {20, asks, kClosed, true},
                     {30, fails, kOpen},
                     {40, asks, kOpen, false},
                     {50, fails, kOpen}});
  check("probes alone", {{0, probe_fails, kClosed}, {10, probe_fails, kClosed}, {20, probe_fails, kOpen}});
  check("both", {{0, fails, kClosed}, {10, probe_fails, kClosed}, {20, probe_fails, kOpen}});
  check("a first byte ends the row", {{0, fails, kClosed},
                                      {10, probe_fails, kClosed},
                                      {20, succeeds, kClosed},
                                      {30, fails, kClosed},
                                      {40, fails, kClosed},
                                      {50, succeeds, kClosed}});
  check("an answered probe ends only the row of probes: its model may hang", {{0, fails, kClosed},
                                                                              {10, probe_fails, kClosed},
                                                                              {20, probe_answers, kClosed},
                                                                              {30, fails, kClosed},
                                                                              {40, probe_answers, kClosed},
                                                                              {50, fails, kOpen}});
}

TEST_CASE(
    "an open breaker lets one request try after its wait and an answered probe, whose first byte closes it") {
  check("it recovers", {{0, fails, kClosed},
                        {0, fails, kClosed},
                        {0, fails, kOpen},
                        {499, probe_answers, kOpen},
                        {500, asks, kOpen, false},
                        {501, probe_answers, kHalfOpen},
                        {502, asks, kHalfOpen, true},
                        {503, asks, kHalfOpen, false},
                        {510, succeeds, kClosed},
                        {511, asks, kClosed, true}});
  check("a trial that shows nothing leaves its place to the next", {{0, fails, kClosed},
                                                                    {0, fails, kClosed},
                                                                    {0, fails, kOpen},
                                                                    {500, probe_answers, kHalfOpen},
                                                                    {501, asks, kHalfOpen, true},
                                                                    {502, gives_up, kHalfOpen},
                                                                    {503, asks, kHalfOpen, true}});
  check("a probe that fails ends the trials", {{0, fails, kClosed},
                                               {0, fails, kClosed},
                                               {0, fails, kOpen},
                                               {500, probe_answers, kHalfOpen},
                                               {600, probe_fails, kOpen},
                                               {601, asks, kOpen, false},
                                               {700, probe_answers, kHalfOpen}});
  check("without probes time alone lets a request try",
        {{0, fails, kClosed},
         {0, fails, kClosed},
         {0, fails, kOpen},
         {499, asks, kOpen, false},
         {500, asks, kHalfOpen, true},
         {501, asks, kHalfOpen, false},
         {600, succeeds, kClosed}},
        false);
  check("an answer to a request that was sent before closes it too",
        {{0, fails, kClosed}, {0, fails, kClosed}, {0, fails, kOpen}, {20, succeeds, kClosed}});
}

TEST_CASE("each trial that fails doubles the wait up to a limit, and an answer brings it back") {
  check("failed trials", {{0, fails, kClosed},
                          {0, fails, kClosed},
                          {0, fails, kOpen},
                          {500, probe_answers, kHalfOpen},
                          {500, asks, kHalfOpen, true},
                          {600, fails, kOpen},
                          {1'599, probe_answers, kOpen},
                          {1'600, probe_answers, kHalfOpen},
                          {1'600, asks, kHalfOpen, true},
                          {1'700, fails, kOpen},
                          {3'699, probe_answers, kOpen},
                          {3'700, probe_answers, kHalfOpen},
                          {3'700, asks, kHalfOpen, true},
                          {3'800, fails, kOpen},
                          {5'799, probe_answers, kOpen},
                          {5'800, probe_answers, kHalfOpen}});
  check("it answered in between", {{0, fails, kClosed},
                                   {0, fails, kClosed},
                                   {0, fails, kOpen},
                                   {500, probe_answers, kHalfOpen},
                                   {500, asks, kHalfOpen, true},
                                   {600, fails, kOpen},
                                   {1'600, probe_answers, kHalfOpen},
                                   {1'600, succeeds, kClosed},
                                   {1'700, fails, kClosed},
                                   {1'700, fails, kClosed},
                                   {1'700, fails, kOpen},
                                   {2'199, probe_answers, kOpen},
                                   {2'200, probe_answers, kHalfOpen}});
}

TEST_CASE("the time of an opening stays through trials that fail") {
  Breaker breaker;
  for (int i = 0; i < 3; ++i) breaker.failed(kStart);
  breaker.probed(true, kStart + milliseconds(500));
  REQUIRE(breaker.admits(kStart + milliseconds(500)));
  breaker.failed(kStart + milliseconds(600));
  CHECK(breaker.opened() == kStart);
  CHECK(breaker.failures() == 4);
}

TEST_CASE("a breaker of no failures never opens") {
  Breaker breaker(BreakerLimits{.failures = 0});
  for (int i = 0; i < 1'000; ++i) breaker.failed(kStart);
  CHECK(breaker.state() == BreakerState::closed);
  CHECK(breaker.admits(kStart));
}
