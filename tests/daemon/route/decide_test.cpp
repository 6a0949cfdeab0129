#include "daemon/route/table/decide.hpp"

#include <doctest/doctest.h>

#include <string>

#include "daemon/route/table/bucket.hpp"
#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;

namespace {

int candidates(const ModelRoute& route, const SliceAttributes& slice) {
  int count = 0;
  for (int i = 0; i < 1'000; ++i) {
    count += decide(route, "key" + std::to_string(i), slice).served == Served::candidate ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("the candidate serves exactly the buckets below its share") {
  auto route = sample_route();
  route.candidate_bp = 2'500;
  for (int i = 0; i < 1'000; ++i) {
    const auto key = "key" + std::to_string(i);
    const auto decision = decide(route, key, {});
    CHECK((decision.served == Served::candidate) == (bucket_of(key, route.seed) < 2'500));
    CHECK(decision.candidate_bp == 2'500);
    CHECK(decision.arm->version == (decision.served == Served::candidate ? "v2" : "v1"));
  }
}

TEST_CASE("the first matching slice overrides the share") {
  auto route = sample_route();
  route.candidate_bp = 10'000;
  route.slices = {{{{"language", "de"}}, 0, false},
                  {{{"domain", "code"}}, 0, true},
                  {{{"language", "de"}}, 10'000, false}};
  CHECK(candidates(route, {}) == 1'000);
  CHECK(candidates(route, {{"language", "de"}, {"domain", "code"}}) == 0);
  const auto fallback = decide(route, "k", {{"domain", "code"}});
  CHECK(fallback.served == Served::fallback);
  CHECK(fallback.candidate_bp == 0);
  CHECK_FALSE(fallback.mirror);
}

TEST_CASE("pins win over shares, and everything to the fallback wins over pins") {
  auto route = sample_route();
  route.pins = {{"alice", "candidate"}, {"bob", "incumbent"}};
  CHECK(decide(route, "alice", {}).served == Served::candidate);
  CHECK(decide(route, "alice", {}).pinned);
  route.candidate_bp = 10'000;
  CHECK(decide(route, "bob", {}).served == Served::incumbent);
  route.all_to_fallback = true;
  CHECK(decide(route, "alice", {}).served == Served::fallback);
  CHECK_FALSE(decide(route, "alice", {}).pinned);
}

TEST_CASE("only requests of the incumbent are mirrored, and none without a budget") {
  auto route = sample_route();
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 100;
  CHECK(decide(route, "k", {}).mirror);
  route.mirror_token_budget = 0;
  CHECK_FALSE(decide(route, "k", {}).mirror);
  route.mirror_token_budget = 100;
  route.candidate_bp = 10'000;
  CHECK_FALSE(decide(route, "k", {}).mirror);
}

TEST_CASE("without a candidate answers of the incumbent are kept, and nobody is exposed to anything") {
  auto route = sample_route();
  route.candidate.reset();
  route.candidate_bp = 0;
  route.slices.clear();
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 100;
  CHECK(decide(route, "k", {}).mirror);
  CHECK(decide(route, "k", {}).served == Served::incumbent);
  CHECK(decide_placed(route).mirror);
  CHECK_FALSE(exposes_candidate(route));
  route.mirror_bp = 0;
  CHECK_FALSE(decide(route, "k", {}).mirror);
}

TEST_CASE("a reverted route shows the candidate to nobody and keeps the fallback") {
  auto route = sample_route();
  route.candidate_bp = 5'000;
  route.mirror_bp = 5'000;
  route.slices = {{{{"language", "de"}}, 10'000, false}, {{{"language", "fr"}}, 0, true}};
  route.pins = {{"alice", "candidate"}, {"bob", "incumbent"}};
  CHECK(exposes_candidate(route));
  CHECK(effective_route(route, false) == route);
  const auto reverted = effective_route(route, true);
  CHECK_FALSE(exposes_candidate(reverted));
  CHECK(candidates(reverted, {{"language", "de"}}) == 0);
  CHECK(decide(reverted, "alice", {}).served == Served::incumbent);
  CHECK(decide(reverted, "x", {{"language", "fr"}}).served == Served::fallback);
}

TEST_CASE("a request that HAProxy has placed goes to the incumbent, and is copied while the route mirrors") {
  auto route = sample_route();
  route.candidate_bp = 10'000;
  route.mirror_bp = 1;
  route.mirror_token_budget = 100;
  CHECK(decide_placed(route).served == Served::incumbent);
  CHECK(decide_placed(route).arm == &route.incumbent);
  CHECK(decide_placed(route).mirror);
  CHECK_FALSE(decide_placed(effective_route(route, true)).mirror);
  route.mirror_token_budget = 0;
  CHECK_FALSE(decide_placed(route).mirror);
}

TEST_CASE("with texts as HAProxy hashes them the same keys are the candidate's") {
  auto route = sample_route();
  route.candidate_bp = 2'500;
  for (int i = 0; i < 100; ++i) {
    const auto key = "key" + std::to_string(i);
    CHECK((decide(route, key, {}, KeyHash::text).served == Served::candidate) ==
          (bucket_of(key, route.seed, KeyHash::text) < 2'500));
  }
}
