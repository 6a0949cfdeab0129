#include "daemon/pipeline/stages/report_json.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/statistical_slice.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;

TEST_CASE("a stage's report gives each slice its role, its verdicts and its place in the ranking") {
  auto contract = stages::make::contract();
  contract.confidence.means = schema::Means::approximate;
  contract.slices.dimensions = {"language", "domain"};
  contract.slices.critical = {{{"language", "fr"}}};
  contract.slices.discover = schema::Slices::Discover{1, false, {}};
  contract.clauses = {stages::make::slice_clause(
      "tv", schema::MetricSubject{schema::Metric::tv, schema::Aggregate::sequence_mean},
      stages::make::max(0.03), {schema::SliceRole::critical})};
  stages::Random random(1);
  auto table = stages::make::table();
  for (std::size_t i = 0; i < 2'000; ++i) {
    const char* language = i % 8 == 0 ? "de" : (i % 8 == 1 ? "fr" : "en");
    const double tv = (i % 8 == 0 ? 0.06 : 0.01) * (0.5 + random.uniform());
    stages::make::append(table, {10, tv, {{"language", language}, {"domain", i % 16 < 8 ? "code" : "chat"}}});
  }
  table.slices = {{{}, {}}, {{{"language", "fr"}}, {}}, {{{"language", "en"}}, {}}};
  const auto report = stages::evaluate_statistical_slice(contract, table, {});
  const auto json = nlohmann::json::parse(pipeline::report_json(report, &table, contract));
  const auto slice = [&](const char* language) {
    return *std::find_if(json["slices"].begin(), json["slices"].end(), [&](const nlohmann::json& item) {
      return item["where"] == nlohmann::json{{"language", language}};
    });
  };
  // The corpus, three languages, two domains and their six combinations.
  REQUIRE(json["slices"].size() == 12);
  const auto pair =
      std::find_if(json["slices"].begin(), json["slices"].end(), [](const nlohmann::json& item) {
        return item["where"] == nlohmann::json{{"domain", "chat"}, {"language", "en"}};
      });
  REQUIRE(pair != json["slices"].end());
  CHECK((*pair)["role"] == "described");
  CHECK((*pair)["sequences"] == 750);
  CHECK((*pair)["metrics"]["tv"]["mean"].get<double>() == doctest::Approx(0.01).epsilon(0.1));
  CHECK_FALSE((*pair)["metrics"]["tv"].contains("p50"));
  CHECK((*pair)["test"].empty());
  CHECK(json["slices"][0]["role"] == "corpus");
  CHECK(slice("fr")["role"] == "critical");
  CHECK(slice("fr")["test"][0]["verdict"] == "pass");
  CHECK(slice("en")["role"] == "monitored");
  CHECK(slice("en")["test"].empty());
  CHECK(slice("de")["role"] == "discovered");
  CHECK(slice("de")["sequences"] == 250);
  CHECK(slice("de")["test"][0]["verdict"] == "violated");
  CHECK(json["ranking"][0]["where"] == slice("de")["where"]);
  CHECK(json["ranking"][0]["role"] == "discovered");
  CHECK(json["ranking"][0]["lower"].get<double>() > 0.02);
  CHECK(json["ranking"][0]["hidden_by_mean"] == true);
  CHECK(json["verdict"] == "pass");
}
