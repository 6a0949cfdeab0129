#include "daemon/store/promotions/spending.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "schema/contract/spending.hpp"
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

/// How many runs of a stage have spent α.
std::int64_t spent_runs(const Harness& h, const std::string& stage) {
  const auto rows = h.store->read([&](store::Reader& reader) {
    return reader.one(store::Sql("count", "SELECT count(*) FROM spending WHERE stage = ?1"), {stage},
                      [](const store::Row& row) { return row.integer(0); });
  });
  REQUIRE(rows.has_value());
  return rows->value_or(-1);
}

/// The level that the entry of a verdict states.
double alpha_of(const json& entry) {
  return std::stod(entry.at("alpha").at("dec").get<std::string>());
}

/// What a promotion ends with whose first stage cannot be decided.
std::string errored(Harness& h) {
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"errored"}) == "errored");
  return h.view(id)["reason"].get<std::string>();
}

/// A job whose file is not the one that its result names.
jobs::JobResult damaged(const std::string& folder, const char* name) {
  std::ofstream(folder + "/file") << "damaged";
  jobs::JobResult result;
  result.ok = true;
  result.files[name] = "file";
  result.digests = {{name, schema::sha256_digest("whole")}, {"train", "sha256:t"}, {"inf", "sha256:damaged"}};
  result.summary = "{}";
  return result;
}

/// The digest under which a run on the harness's numeric captures is stored. Version 1 of the rules named
/// none.
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

TEST_CASE("captures of another kernel, a job that fails and a damaged table spend nothing") {
  Harness h;
  h.set_up();
  h.behaviour.measured_kernel = "k-other";
  CHECK(errored(h).find("states the kernel 'k-other', and the contract wants 'k-inf' there") !=
        std::string::npos);
  CHECK(spent_runs(h, "offline-numeric") == 0);
  h.behaviour.measured_kernel = "k-inf";
  h.behaviour.capture_error = "rule \"header is JSON\": the header is not valid JSON";
  CHECK(errored(h).find("header is JSON") != std::string::npos);
  CHECK(spent_runs(h, "offline-numeric") == 0);
  h.behaviour.capture_error.clear();
  const auto make = h.runner.make;
  h.runner.make = [](const jobs::JobSpec&, const std::string& folder) { return damaged(folder, "table"); };
  CHECK(errored(h).find("does not match its digest") != std::string::npos);
  CHECK(spent_runs(h, "offline-numeric") == 0);
  h.runner.make = make;
  h.behaviour.numeric_tv = kDrifting;
  const json stage = rejected_on_numbers(h);
  CHECK(stage["run"] == 1);
  CHECK(alpha_of(stage) == schema::spent_alpha(schema::Stage::offline_numeric, 0.05, 1));
  CHECK(spent_runs(h, "offline-numeric") == 1);
}

TEST_CASE("an adapter that the settings have no more spends nothing") {
  Harness h;
  h.settings.adapters["torch"] = {.argv = {"/bin/true"}, .limits = {}};
  h.set_up();
  auto request = h.request_for();
  request.numeric->inf = {"", "torch"};
  const auto asked = h.pipeline->request_promotion("pia", request);
  REQUIRE(asked.has_value());
  h.kill();
  h.settings.adapters.clear();
  h.boot();
  REQUIRE(h.run_until(asked->id, {"errored"}) == "errored");
  CHECK(h.view(asked->id)["reason"].get<std::string>().find("there is no adapter 'torch'") !=
        std::string::npos);
  CHECK(spent_runs(h, "offline-numeric") == 0);
}

TEST_CASE("pairs that cannot be read spend nothing of the shadow stage") {
  Harness h;
  h.set_up();
  const auto make = h.runner.make;
  h.runner.make = [make](const jobs::JobSpec& spec, const std::string& folder) {
    return spec.kind == jobs::JobKind::rescore ? damaged(folder, "pairs") : make(spec, folder);
  };
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"errored"}) == "errored");
  CHECK(spent_runs(h, "statistical-slice") == 1);
  CHECK(spent_runs(h, "shadow-runtime") == 0);
}

TEST_CASE("a canary spends with its first window, and one that ended before it has spent nothing") {
  Harness h;
  h.set_up();
  const auto to_canary = [&](const std::string& id) {
    for (int i = 0; i < 200 && h.view(id)["stage"] != "canary"; ++i) h.second();
    REQUIRE(h.view(id)["stage"] == "canary");
  };
  const auto first = h.request();
  to_canary(first);
  CHECK(spent_runs(h, "canary") == 0);
  REQUIRE(h.pipeline->abort("olga", first, "seen enough").has_value());
  REQUIRE(h.run_until(first, {"aborted"}) == "aborted");
  CHECK(spent_runs(h, "canary") == 0);
  const auto second = h.request();
  to_canary(second);
  h.second();
  h.second();
  CHECK(spent_runs(h, "canary") == 1);
  REQUIRE(h.pipeline->abort("olga", second, "seen enough").has_value());
  REQUIRE(h.run_until(second, {"aborted"}) == "aborted");
  CHECK(spent_runs(h, "canary") == 1);  // its tests had looked
}

TEST_CASE("a canary whose run was taken before its first window tests at the levels of the next one") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 200 && h.view(id)["stage"] != "canary"; ++i) h.second();
  REQUIRE(spent_runs(h, "canary") == 0);
  const auto taken = h.store->write("another promotion of the same checkpoint", [](store::Tx& tx) {
    return tx.run({"take run",
                   "INSERT INTO spending SELECT checkpoint, kernel, contract, 'canary', 1, 'sha256:other', "
                   "'pr-other', 'canary', 1, 1 FROM spending WHERE stage = 'shadow-runtime'"},
                  {});
  });
  REQUIRE(taken.value() == 1);
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  CHECK(spent_runs(h, "canary") == 2);
  std::int64_t run = 0;
  for (const auto& entry : h.entries(id, "verdict_reached")) {
    if (entry["subject"]["stage"] == "canary" && entry["body"].value("scope", "") == "stage")
      run = entry["body"]["run"];
  }
  CHECK(run == 2);
}

TEST_CASE("a plan has the sizes of the run that the promotion will spend") {
  Harness h;
  h.set_up();
  const auto planned = [&] {
    const auto plan = h.pipeline->plan_promotion("pia", h.request_for());
    REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().describe()));
    const json stages = json::parse(plan->json).at("stages");
    for (const auto& clause : stages[0].at("clauses")) {
      const json& need = clause["needs"][0];
      if (clause["clause"] == "numerical.tv")
        return json::array({stages[0]["run"], need["alpha"], need["n"]});
    }
    return json();
  };
  const auto level = [](std::uint32_t k) {
    return schema::spent_alpha(schema::Stage::offline_numeric, 0.05, k);
  };
  const json first = planned();
  CHECK(first[0] == 1);
  CHECK(first[1] == level(1));
  h.behaviour.measured_kernel = "k-other";
  (void)errored(h);
  CHECK(planned() == first);  // nothing was spent
  h.behaviour.measured_kernel = "k-inf";
  h.behaviour.numeric_tv = kDrifting;
  CHECK(alpha_of(rejected_on_numbers(h)) == first[1]);
  const json second = planned();
  CHECK(second[0] == 2);
  CHECK(second[1] == level(2));
  CHECK(second[2] > first[2]);
  h.behaviour.numeric_tv = 2 * kDrifting;  // other captures
  const json verdict = rejected_on_numbers(h);
  CHECK(verdict["run"] == 2);
  CHECK(alpha_of(verdict) == second[1]);
}

TEST_CASE("captures that are there are held against the promotion before it begins, in a plan too") {
  Harness h;
  h.set_up();
  const auto digest = [](const char* text) { return schema::sha256_digest(text); };
  const auto refused = [&](const std::map<std::string, std::string>& metadata, std::uint64_t vocabulary) {
    pipeline::fakes::write_capture(h.folder / "captures" / "other.safetensors", metadata, vocabulary);
    auto request = h.request_for();
    request.numeric->inf = {"other.safetensors", ""};
    const auto plan = h.pipeline->plan_promotion("pia", request);
    const auto asked = h.pipeline->request_promotion("pia", request);
    REQUIRE(plan.has_value() == asked.has_value());
    if (plan) return std::string();
    CHECK(asked.error().message == plan.error().message);
    CHECK(plan.error().where == "/captures/numeric/inf");
    return plan.error().message;
  };
  const auto says = [&](const std::string& message, const std::string& words) {
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  says(refused({{"kernel", "k-other"}}, 4),
       "the inf capture other.safetensors states the kernel 'k-other', and the contract wants 'k-inf' there");
  const auto weights = refused({{"checkpoint.digest", digest("others")}}, 4);
  says(weights, "the candidate's engine serves " + digest("weights"));
  says(weights, "driftgate capture digest --checkpoint DIR");
  says(refused({{"corpus.digest", digest("another")}}, 4), "the corpus given has " + digest("corpus.jsonl"));
  says(refused({}, 5), "a vocabulary of 4 and the inf capture other.safetensors one of 5");
  CHECK(refused({{"kernel", "k-inf"},
                 {"checkpoint.digest", digest("weights")},
                 {"corpus.digest", digest("corpus.jsonl")}},
                4)
            .empty());
  std::ofstream(h.folder / "captures" / "other.safetensors") << "no capture";
  auto request = h.request_for();
  request.slice->train = {"other.safetensors", ""};
  const auto plan = h.pipeline->plan_promotion("pia", request);
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().code == schema::ErrorCode::invalid_capture);
  CHECK(plan.error().where == "/captures/slice/train");
  says(plan.error().message, "other.safetensors");
}
