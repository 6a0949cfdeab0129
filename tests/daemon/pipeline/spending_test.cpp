#include "daemon/store/promotions/spending.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "schema/verdict.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

constexpr double kDrifting = 0.3;

/// Of the verdicts that the first stage of a promotion of the drifting kernel came to.
json rejected_on_numbers(Harness& h) {
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"rejected"}) == "rejected");
  const auto verdicts = h.entries(id, "verdict_reached");
  REQUIRE_FALSE(verdicts.empty());
  const json stage = verdicts.back().at("body");
  REQUIRE(stage.at("scope") == "stage");
  return stage;
}

/// The digest under which a run on the harness's numeric captures is stored. Version 1 of the rules named none.
std::string stored_digest(std::uint32_t rules) {
  json inputs = {{"train", schema::sha256_digest("train")},
                 {"inf", schema::sha256_digest("inf" + std::to_string(kDrifting))}};
  if (rules != schema::kFirstRules) inputs["rules"] = rules;
  return schema::document_digest(schema::canonical_json(inputs));
}

}  // namespace

TEST_CASE("the same captures under the same rules have the stored verdicts and spend nothing") {
  Harness h;
  h.behaviour.numeric_tv = kDrifting;
  h.set_up();
  const json first = rejected_on_numbers(h);
  const json second = rejected_on_numbers(h);
  CHECK(first["run"] == 1);
  CHECK(second["run"] == 1);
  CHECK(second["alpha"] == first["alpha"]);
  CHECK(second["message"].get<std::string>().find("no α is spent") != std::string::npos);
}

TEST_CASE("verdicts of earlier rules on the same captures are not reused: the captures are a new run") {
  Harness h;
  h.behaviour.numeric_tv = kDrifting;
  h.set_up();
  const json first = rejected_on_numbers(h);
  const auto changed = h.store->write("make the stored run one of version 1", [](store::Tx& tx) {
    return tx.run({"set digest", "UPDATE spending SET inputs_digest = ?1 WHERE inputs_digest = ?2"},
                  {stored_digest(schema::kFirstRules), stored_digest(schema::kCurrentRules)});
  });
  REQUIRE(changed.value() == 1);
  const json second = rejected_on_numbers(h);
  CHECK(second["run"] == 2);
  CHECK(second["rules"] == schema::kCurrentRules);
  CHECK(second["alpha"] != first["alpha"]);
}
