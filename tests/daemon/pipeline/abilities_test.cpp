#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using namespace driftgate::pipeline;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

/// A candidate that gives no log-probabilities, under a contract with a clause on them.
struct World : Harness {
  explicit World(const char* severity) {
    const std::string signals = "observability:\n";
    contract.insert(contract.find(signals) + signals.size(),
                    std::string("  - {id: coverage, signal: logprobs, min_coverage: 0.95, severity: ") +
                        severity + "}\n");
    set_up();
    abilities.scoring = jobs::Scoring::none;
    abilities.logprobs = false;
    abilities.logprobs_by = jobs::LogprobsBy::none;
    add_engine("silent", "k-inf", 4);
  }
};

}  // namespace

TEST_CASE("a hard clause that an engine cannot have decided is refused when the promotion is requested") {
  World h("hard");
  const auto refused = h.pipeline->request_promotion("pia", h.request_for("silent"));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == schema::ErrorCode::conflict);
  const std::string& message = refused.error().message;
  CAPTURE(message);
  CHECK(message.starts_with("observability.coverage cannot be decided in shadow-runtime: "));
  CHECK(message.find("the engine silent does not") != std::string::npos);
  CHECK(message.find("--accept-undecidable") != std::string::npos);
  CHECK(h.pipeline->promotions({}, {}).value().items.empty());
  CHECK(h.pipeline->request_promotion("pia", h.request_for("new")).has_value());
}

TEST_CASE("the plan of such a promotion names clause, stage and engine") {
  World h("hard");
  const auto plan = h.pipeline->plan_promotion("pia", h.request_for("silent"));
  REQUIRE(plan.has_value());
  const json undecidable = json::parse(plan->json)["undecidable"];
  REQUIRE(undecidable.size() == 1);
  CHECK(undecidable[0]["clause"] == "observability.coverage");
  CHECK(undecidable[0]["stage"] == "shadow-runtime");
  CHECK(undecidable[0]["severity"] == "hard");
  CHECK(undecidable[0]["engine"] == "silent");
  const auto able = h.pipeline->plan_promotion("pia", h.request_for("new"));
  CHECK(json::parse(able->json)["undecidable"].empty());
}

TEST_CASE("it starts where the request accepts that, which the entry of the request keeps") {
  World h("hard");
  auto request = h.request_for("silent");
  request.accept_undecidable = true;
  const auto made = h.pipeline->request_promotion("pia", request);
  REQUIRE(made.has_value());
  const auto asked = h.entries(made->id, "promotion_requested");
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]["body"]["request"]["accept_undecidable"] == true);
}

TEST_CASE("a soft clause that cannot be decided refuses nothing") {
  World h("soft");
  CHECK(h.pipeline->request_promotion("pia", h.request_for("silent")).has_value());
}

TEST_CASE("what the incumbent's engine lacks is refused by its name") {
  World h("hard");
  REQUIRE(h.pipeline->create_model("olga", {"other", "silent", "a model of its own"}).has_value());
  auto request = h.request_for("new");
  request.model = "other";
  const auto refused = h.pipeline->request_promotion("pia", request);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("the engine silent does not") != std::string::npos);
}
