#include "daemon/route/haproxy/log_line.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

using namespace driftgate::route;
using namespace driftgate::route::haproxy;

namespace {

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

// A line as HAProxy 2.6.12 wrote it, with another secret.
std::string line_with(const std::string& arm, const std::string& status, const std::string& end,
                      const std::string& retries, const std::string& slice = "-") {
  return fmt::format(
      "driftgate1 {} 1795421913791868 driftgate_1 7 9.10 {} 0 0 10000 -4960042845211112703 1795421917957112 "
      "1795421918161207 {} {} {} ve-cut |{}",
      kSecret, arm, status, end, retries, slice);
}

Observation seen(const std::string& text) {
  const auto line = parse_log_line(text, kSecret);
  REQUIRE(line);
  return observation_of(*line);
}

}  // namespace

TEST_CASE("a line says process, order, route, arm, key and times of a request") {
  const auto line =
      parse_log_line(line_with("c", "200", "--", "0", "domain=my code; language = de") + "\n", kSecret);
  REQUIRE(line);
  CHECK(line->boot == 1'795'421'913'791'868);
  CHECK(line->backend == "driftgate_1");
  CHECK(line->order == 7);
  CHECK(line->tag == "9.10");
  CHECK(line->arm == 'c');
  CHECK(line->candidate_bp == 10'000);
  CHECK(line->key_hash == static_cast<std::uint64_t>(-4960042845211112703LL));
  const auto observation = observation_of(*line);
  CHECK(observation.candidate);
  CHECK(observation.slice == "domain=my code;language=de");
  CHECK(observation.routed_us == 1'795'421'917'957'112);
  CHECK(observation.total_ms == doctest::Approx(204.095));
  CHECK(std::isnan(observation.ttft_ms));
  CHECK(std::isnan(observation.inter_token_ms));
  CHECK(observation.outcome == Outcome::ok);
}

TEST_CASE("outcomes follow from status, from who ended the request, and from the second try") {
  struct Row {
    const char *status, *end, *retries;
    Outcome outcome;
    const char* reason;
  };
  for (const auto& row :
       {Row{"200", "--", "0", Outcome::ok, ""}, Row{"200", "--", "+1", Outcome::failed, "retried"},
        Row{"502", "PH", "1", Outcome::failed, "retried"},
        Row{"400", "CH", "0", Outcome::excluded, "client_gone"},
        Row{"200", "CD", "0", Outcome::excluded, "client_gone"},
        Row{"408", "cR", "0", Outcome::excluded, "client_gone"},
        Row{"200", "SD", "0", Outcome::failed, "truncated_stream"},
        Row{"200", "sD", "0", Outcome::failed, "timeout"}, Row{"504", "sH", "0", Outcome::failed, "timeout"},
        Row{"503", "SC", "0", Outcome::failed, "connect"}, Row{"503", "sC", "0", Outcome::failed, "connect"},
        Row{"502", "SH", "0", Outcome::failed, "closed"},
        Row{"502", "PH", "0", Outcome::failed, "status_502"},
        Row{"500", "--", "0", Outcome::failed, "status_500"},
        Row{"429", "--", "0", Outcome::failed, "status_429"},
        Row{"404", "--", "0", Outcome::excluded, "status_404"},
        Row{"-1", "--", "0", Outcome::failed, "status_-1"}}) {
    CAPTURE(row.status);
    CAPTURE(row.end);
    const auto observation = seen(line_with("i", row.status, row.end, row.retries));
    CHECK(observation.outcome == row.outcome);
    CHECK(observation.reason == row.reason);
    CHECK(observation.retried == (std::string(row.retries) != "0"));
  }
}

TEST_CASE("requests that the router mirrors are the incumbent's, and a header that is no slice gives none") {
  CHECK_FALSE(seen(line_with("m", "200", "--", "0")).candidate);
  CHECK_FALSE(seen(line_with("f", "200", "--", "0")).candidate);
  CHECK(seen(line_with("i", "200", "--", "0", "a=b;a=c")).slice.empty());
  CHECK(seen(line_with("i", "200", "--", "0", "")).slice.empty());
}

TEST_CASE("what is no line with the secret is left alone") {
  const auto good = line_with("i", "200", "--", "0");
  REQUIRE(parse_log_line(good, kSecret));
  CHECK_FALSE(parse_log_line(good, "another"));
  CHECK_FALSE(parse_log_line("", kSecret));
  CHECK_FALSE(parse_log_line("Proxy driftgate started.", kSecret));
  CHECK_FALSE(parse_log_line(good.substr(0, good.size() - 3), kSecret));
  CHECK_FALSE(parse_log_line(good + std::string(kMaxLogLineBytes, 'x'), kSecret));
  CHECK_FALSE(parse_log_line(line_with("q", "200", "--", "0"), kSecret));
  CHECK_FALSE(parse_log_line(line_with("i", "2x0", "--", "0"), kSecret));
  CHECK_FALSE(parse_log_line(line_with("i", "200", "---", "0"), kSecret));
  CHECK_FALSE(parse_log_line(line_with("i", "200", "", "0"), kSecret));
}
