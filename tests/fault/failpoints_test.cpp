#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/evidence/log/log.hpp"
#include "tests/daemon/pipeline/harness.hpp"
#include "tests/fault/column.hpp"
#include "tests/fault/failpoints.hpp"

using namespace driftgate;
using driftgate::fault::boot;
using driftgate::fault::Failpoints;
using driftgate::fault::Killed;
using driftgate::pipeline::fakes::Harness;

namespace {

struct Walk {
  std::string state;
  std::vector<std::string> states, verdicts, steps;
  std::map<std::string, int> entries;  ///< of each kind that records an effect
};

/// A promotion from its request to its end; `at` is the step to be killed at, −1 for none.
Walk walk(std::int64_t at, bool after) {
  Harness h;
  h.set_up();
  const auto id = h.request();
  Failpoints points(at, after);
  points.attach(h);
  Walk walked;
  for (int i = 0; i < 400; ++i) {
    try {
      if (h.pipeline->outcome(id)->terminal) break;
      h.approve_if_asked(id);
      h.second();
    } catch (const Killed&) {
      boot(h);
    }
  }
  walked.state = h.state(id);
  walked.states = h.states(id);
  walked.verdicts = h.verdicts(id);
  walked.steps = points.names;
  for (const auto& kind : h.kinds(id)) {
    if (kind.starts_with("job_finished") || kind.starts_with("state_changed")) ++walked.entries[kind];
  }
  CHECK(h.model()["incumbent"]["engine"] == "new");
  const auto verified = evidence::verify_log(*h.store);
  CHECK_MESSAGE(verified.has_value(), (verified ? "" : verified.error().describe()));
  return walked;
}

}  // namespace

TEST_CASE("a daemon killed before and after each durable step of all four stages comes to the same end") {
  const auto reference = walk(-1, false);
  REQUIRE(reference.state == "succeeded");
  const auto steps = static_cast<std::int64_t>(reference.steps.size());
  REQUIRE(steps > 30);
  for (std::int64_t at = 0; at < steps; ++at) {
    for (const bool after : {false, true}) {
      CAPTURE(at);
      CAPTURE(after);
      CAPTURE(reference.steps[static_cast<std::size_t>(at)]);
      const auto killed = walk(at, after);
      CHECK(killed.state == "succeeded");
      CHECK(killed.verdicts == reference.verdicts);
      for (const auto& state : reference.states) {
        CHECK_MESSAGE(std::ranges::find(killed.states, state) != killed.states.end(), "missing: ", state);
      }
      for (const auto& [entry, count] : killed.entries) {
        const auto wanted = reference.entries.find(entry);
        CHECK_MESSAGE(wanted != reference.entries.end(), "an entry too many: ", entry);
        if (wanted == reference.entries.end()) continue;
        // A restart takes the smaller of the desired and the observed share, so a step may be taken again.
        const int again = entry == "state_changed running>running canary" ? 1 : 0;
        CHECK_MESSAGE(count >= wanted->second, entry, " ", count, " times");
        CHECK_MESSAGE(count <= wanted->second + again, entry, " ", count, " times");
      }
    }
  }
  const std::set<std::string> names(reference.steps.begin(), reference.steps.end());
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  driftgate::fault::tell(
      "failpoints before and after each durable step", 0,
      fmt::format("{} steps of {} kinds, both sides, the same end ({})", steps, names.size(), list));
}
