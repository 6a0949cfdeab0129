#include "stages/guard/rate_watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

constexpr std::int64_t kMeanUs = std::int64_t{30} * 86'400'000'000;
constexpr std::int64_t kBlockUs = 12'000'000;
constexpr std::int64_t kArmedUs = 1'000'000'000'000;

struct Seen {
  bool event = false;
  std::int64_t at_us = 0;
};

std::vector<Seen> requests(Random& random, int count, double rate) {
  std::vector<Seen> out;
  std::int64_t at = kArmedUs;
  for (int i = 0; i < count; ++i) {
    at += static_cast<std::int64_t>(random.uniform() * 2e6);
    out.push_back({random.uniform() < rate, at});
  }
  return out;
}

}  // namespace

TEST_CASE("a watch is the weighted sum of a detector over requests and one over blocks of time") {
  Random random(4);
  const double limit = 0.05;
  RateWatch watch(limit, Events::single_and_blocks, kMeanUs, kBlockUs, kArmedUs);
  EDetector single(limit, event_bets(limit)), blocks(limit, share_bets());
  std::int64_t newest = kArmedUs, block_newest = kArmedUs, block = kArmedUs / kBlockUs;
  double events = 0, all = 0;
  std::map<std::int64_t, double> by_period;  // the sum at the end of each period of 16 s
  for (const Seen& seen : requests(random, 4'000, 0.07)) {
    if (seen.at_us / kBlockUs != block) {
      const std::int64_t end = (block + 1) * kBlockUs;
      if (all > 0) {
        blocks.observe(events / all, start_mass(block_newest, end, kMeanUs), block * kBlockUs);
        block_newest = end;
      }
      events = all = 0;
      block = seen.at_us / kBlockUs;
    }
    events += seen.event ? 1 : 0;
    all += 1;
    single.observe(seen.event ? 1 : 0, start_mass(newest, seen.at_us, kMeanUs), seen.at_us);
    newest = seen.at_us;
    watch.observe(seen.event, seen.at_us, true);
    const std::int64_t period = seen.at_us / RateWatch::kSuddenUs;
    by_period[period] = single.sum();
    const auto later = by_period.upper_bound(period - 2);
    const double settled = later == by_period.begin() ? 0 : std::prev(later)->second;
    const double value = std::min(single.sum(), 20 * settled);
    REQUIRE(watch.single_value() == value);
    REQUIRE(watch.block_value() == blocks.sum());
    REQUIRE(watch.value() == 0.7 * value + (1 - 0.7) * blocks.sum());
  }
  CHECK(watch.seen() == 4'000);
  CHECK(watch.blocks() == blocks.seen());
}

TEST_CASE("what single events have shown is forgotten once they do not count, and begins anew when they do") {
  Random random(5);
  RateWatch watch(0.02, Events::single_and_blocks, kMeanUs, kBlockUs, kArmedUs);
  std::int64_t at = kArmedUs;
  const auto feed = [&](int count, bool single) {
    for (int i = 0; i < count; ++i) watch.observe(random.uniform() < 0.05, at += 100'000, single);
  };
  feed(2'000, true);
  CHECK(watch.single_value() > 0);
  CHECK(watch.single_part() == doctest::Approx(0.7));
  feed(1, false);
  CHECK(watch.single_value() == 0);
  CHECK(watch.single_part() == 0);
  const double by_blocks = watch.block_value();
  CHECK(watch.value() == watch.block_part() * by_blocks);
  feed(1'000, true);
  CHECK(watch.single_value() > 0);
  CHECK(watch.block_value() >= 0);
  watch.forget_single();
  CHECK(watch.single_value() == 0);
}

TEST_CASE("events that come together count once for each block of time") {
  // Four seconds in which everything fails, as often as one may expect of an engine that stalls.
  RateWatch watch(0.0113, Events::single_and_blocks, std::int64_t{365} * 86'400'000'000, kBlockUs, kArmedUs);
  Random random(6);
  std::int64_t at = kArmedUs;
  for (int i = 0; i < 200'000; ++i) watch.observe(random.uniform() < 0.01, at += 50'000, false);
  for (int i = 0; i < 80; ++i) watch.observe(true, at += 50'000, false);
  for (int i = 0; i < 2'000; ++i) watch.observe(random.uniform() < 0.01, at += 50'000, false);
  CHECK(watch.value() < 1);
  // A total failure that lasts is found within seven blocks.
  int needed = 0;
  while (watch.value() < 34 && needed < 10'000) {
    watch.observe(true, at += 50'000, false);
    ++needed;
  }
  CHECK(needed <= 7 * 240);
}

TEST_CASE("failures of a few seconds count once it can be seen whether they are a stall") {
  RateWatch watch(0.0113, Events::single_and_blocks, std::int64_t{365} * 86'400'000'000, kBlockUs, kArmedUs);
  Random random(8);
  std::int64_t at = kArmedUs;
  for (int i = 0; i < 20'000; ++i) watch.observe(random.uniform() < 0.01, at += 50'000, true);
  const std::int64_t period = at / RateWatch::kSuddenUs;
  const double before = watch.single_value();
  while (at / RateWatch::kSuddenUs < period + 2) {
    CHECK(watch.single_value() <= std::max(1.0, RateWatch::kMostSudden * before));
    watch.observe(true, at += 50'000, true);
  }
  CHECK(watch.single_value() > 34);
}

TEST_CASE("an answer that is too slow counts in blocks alone") {
  RateWatch watch(0.05, Events::blocks, kMeanUs, kBlockUs, kArmedUs);
  for (int i = 0; i < 1'000; ++i) watch.observe(i % 3 == 0, kArmedUs + 100'000 * i, true);
  CHECK(watch.single_value() == 0);
  CHECK(watch.block_part() == 1);
  CHECK(watch.value() == watch.block_value());
  CHECK(watch.change().mean == doctest::Approx(1.0 / 3).epsilon(0.05));
}

TEST_CASE("one failure exceeds a limit of none") {
  RateWatch watch(0, Events::single_and_blocks, kMeanUs, kBlockUs, kArmedUs);
  watch.observe(false, kArmedUs + 1, true);
  CHECK(watch.value() == 0);
  watch.observe(true, kArmedUs + 2, true);
  watch.observe(false, kArmedUs + 2 * RateWatch::kSuddenUs + 2, true);
  CHECK(watch.value() > 1e6);
}

TEST_CASE("a watch that was written and read goes on as if it had not been") {
  Random random(7);
  RateWatch steady(0.03, Events::single_and_blocks, kMeanUs, kBlockUs, kArmedUs);
  RateWatch restarted = steady;
  for (const Seen& seen : requests(random, 5'000, 0.05)) {
    const bool single = random.uniform() < 0.999;
    steady.observe(seen.event, seen.at_us, single);
    restarted.observe(seen.event, seen.at_us, single);
    if (random.uniform() > 0.01) continue;
    RateWatch read(0.03, Events::single_and_blocks, kMeanUs, kBlockUs, kArmedUs);
    read.restore(nlohmann::json::parse(restarted.to_json().dump()));
    restarted = read;
  }
  CHECK(restarted.value() == steady.value());
  CHECK(restarted.to_json() == steady.to_json());
}
