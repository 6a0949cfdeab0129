#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "daemon/evidence/log/query.hpp"
#include "tests/daemon/pipeline/harness.hpp"
#include "tests/fault/column.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;

namespace {

constexpr std::int64_t kYear_us = 365LL * 86'400 * 1'000'000;

std::size_t clock_entries(Harness& h) {
  evidence::EntryFilter filter;
  filter.kind = schema::EvidenceKind::clock_stepped;
  filter.limit = evidence::kMaxPage;
  const auto page =
      h.store->read([&](store::Reader& reader) { return evidence::query_entries(reader, filter); });
  REQUIRE(page.has_value());
  return page->entries.size();
}

}  // namespace

TEST_CASE("a wall clock that jumps by years or stands still is logged and changes nothing about the end") {
  const auto seed = driftgate::fault::seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  Harness undisturbed;
  undisturbed.set_up();
  const auto reference = undisturbed.request();
  REQUIRE(undisturbed.run_until(reference, {"succeeded", "rejected", "errored"}) == "succeeded");
  const int count = driftgate::fault::rounds(20, 200);
  int jumps = 0, frozen = 0;
  while (jumps + frozen < count) {
    Harness h;
    h.set_up();
    const auto id = h.request();
    std::size_t steps = clock_entries(h);
    for (int i = 0; i < 400 && !h.pipeline->outcome(id)->terminal; ++i) {
      h.approve_if_asked(id);
      switch (random() % 6) {
        case 0:
          h.clock.offset_us_ += kYear_us;
          ++steps, ++jumps;
          break;
        case 1:
          h.clock.offset_us_ -= kYear_us;
          ++steps, ++jumps;
          break;
        case 2:  // the monotonic clock goes on and the wall clock does not
          h.clock.offset_us_ -= 10'000'000;
          ++steps, ++frozen;
          break;
        default:
          break;
      }
      h.second();
    }
    CHECK(h.state(id) == "succeeded");
    CHECK(h.states(id) == undisturbed.states(reference));
    CHECK(h.verdicts(id) == undisturbed.verdicts(reference));
    CHECK(clock_entries(h) == steps);
  }
  driftgate::fault::tell("clock jumps in all four stages", seed,
                         fmt::format("{} jumps of a year, {} of a clock that stood still", jumps, frozen));
}
