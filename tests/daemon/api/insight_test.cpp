#include <doctest/doctest.h>

#include "fixture.hpp"

using namespace driftgate::api;
using driftgate::api::test::Fixture;

TEST_CASE("a series is asked for by stage, attempt and size, and only auditors see who did what") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/promotions/pr-1/series", "viewer").status == 200);
  CHECK(fixture
            .call("GET", "/v1/promotions/pr-1/series?stage=shadow-runtime&attempt=2&points=50",
                  "viewer,auditor")
            .status == 200);
  REQUIRE(fixture.insight.series_asked.size() == 2);
  const auto& first = fixture.insight.series_asked[0];
  CHECK(first.stage.empty());
  CHECK_FALSE(first.attempt.has_value());
  CHECK(first.points == 512);
  CHECK_FALSE(first.actors);
  const auto& second = fixture.insight.series_asked[1];
  CHECK(second.stage == "shadow-runtime");
  CHECK(second.attempt == 2);
  CHECK(second.points == 50);
  CHECK(second.actors);
  CHECK_FALSE(second.last.has_value());
  CHECK(fixture.call("GET", "/v1/promotions/pr-1/series?last=1", "viewer").status == 200);
  CHECK(fixture.insight.series_asked.back().last == 1);
  CHECK(fixture.call("GET", "/v1/promotions/pr-1/series?attempt=x", "viewer").status == 400);
  CHECK(fixture.call("GET", "/v1/promotions/pr-9/series", "viewer").status == 404);
}

TEST_CASE("a distribution is that of tv over the corpus unless another is named") {
  Fixture fixture;
  const std::string path = "/v1/promotions/pr-1/stages/statistical-slice/distribution";
  CHECK(fixture.call("GET", path, "viewer").status == 200);
  CHECK(fixture.call("GET", path + "?metric=kl_inf_train&slice=language%3Dde", "viewer").status == 200);
  REQUIRE(fixture.insight.distributions_asked.size() == 2);
  CHECK(fixture.insight.distributions_asked[0].metric == "tv");
  CHECK(fixture.insight.distributions_asked[0].stage == "statistical-slice");
  CHECK(fixture.insight.distributions_asked[0].slice.empty());
  CHECK(fixture.insight.distributions_asked[1].metric == "kl_inf_train");
  CHECK(fixture.insight.distributions_asked[1].slice == "language=de");
}

TEST_CASE("contracts are explained, and compared only with a named one") {
  Fixture fixture;
  CHECK(fixture.call("GET", "/v1/contracts/c/explain", "viewer").status == 200);
  CHECK(fixture.call("GET", "/v1/contracts/d/explain", "viewer").status == 404);
  CHECK(fixture.call("GET", "/v1/contracts/c/diff?with=c", "viewer").status == 200);
  CHECK(fixture.call("GET", "/v1/contracts/c/diff", "viewer").status == 400);
  CHECK(fixture.call("GET", "/v1/contracts/c/diff?with=d", "viewer").status == 404);
}
