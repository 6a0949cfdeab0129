#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

std::string digest_of(const Harness& h, const std::string& id) {
  return h.view(id)["waiver"]["evidence_digest"].get<std::string>();
}

schema::Result<pipeline::View> waive(Harness& h, const std::string& who, const std::string& id,
                                     const std::string& clause = "numerical.tv") {
  return h.pipeline->waive(who, id, clause, digest_of(h, id), "looked at the rows");
}

ErrorCode refused(const schema::Result<pipeline::View>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

/// A promotion whose first stage is inconclusive.
std::string undecided(Harness& h) {
  h.behaviour.numeric_tv = 0.1;  // the limit
  h.behaviour.numeric_spread = 0.09;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"inconclusive", "rejected", "succeeded", "errored"}) == "inconclusive");
  return id;
}

}  // namespace

TEST_CASE("two other people waive an inconclusive clause and the promotion goes past its stage") {
  Harness h;
  const auto id = undecided(h);
  const auto waiver = h.view(id)["waiver"];
  CHECK(waiver["needed"] == 2);
  REQUIRE(waiver["clauses"].size() == 1);
  CHECK(waiver["clauses"][0]["clause"] == "numerical.tv");
  REQUIRE(waive(h, "anna", id).has_value());
  CHECK(h.state(id) == "inconclusive");
  CHECK(h.view(id)["waiver"]["clauses"][0]["given"][0]["who"] == "anna");
  CHECK(h.view(id)["reason"] == "numerical.tv has 1 of 2 waivers");
  h.restart();
  REQUIRE(waive(h, "bob", id).has_value());
  CHECK(h.view(id)["stage"] == "statistical-slice");
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  const auto seen = h.view(id);
  CHECK(seen["stages"][0]["verdict"] == "inconclusive");
  CHECK(seen["outcome"]["waived"] == json{"numerical.tv"});
  CHECK(seen["reason"].get<std::string>().find("waived (numerical.tv)") != std::string::npos);
  const auto entries = h.entries(id, "waiver_given");
  REQUIRE(entries.size() == 2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    CHECK(entries[i]["actor"] == (i == 0 ? "anna" : "bob"));
    CHECK(entries[i]["body"]["decision"] == "waive");
    CHECK(entries[i]["body"]["clause"] == "numerical.tv");
    CHECK(entries[i]["body"]["evidence_digest"] == waiver["evidence_digest"]);
    CHECK(entries[i]["subject"]["stage"] == "offline-numeric");
    CHECK(entries[i]["body"]["given"] == i + 1);
  }
}

TEST_CASE("neither the requester nor the same person twice waives a clause") {
  Harness h;
  const auto id = undecided(h);
  CHECK(refused(waive(h, "pia", id)) == ErrorCode::forbidden);
  const auto tried = h.entries(id, "waiver_given");
  REQUIRE(tried.size() == 1);
  CHECK(tried[0]["body"]["decision"] == "refused_self");
  REQUIRE(waive(h, "anna", id).has_value());
  CHECK(refused(waive(h, "anna", id)) == ErrorCode::conflict);
  CHECK(refused(waive(h, "pia", id)) == ErrorCode::forbidden);
  CHECK(h.state(id) == "inconclusive");
}

TEST_CASE("an item of a list names the clauses to waive by the report, as a waiver does") {
  Harness h;
  const auto id = undecided(h);
  REQUIRE(waive(h, "anna", id).has_value());
  const auto item = [&] { return json::parse(h.pipeline->promotion_item(id)->json); };
  CHECK(item()["waiver"] == h.view(id)["waiver"]);
  // Rows with several limits of a clause in one tell less than the report, so they decide nothing here.
  const auto set_rows = [&h](const char* verdict) {
    REQUIRE(h.store->write("change the rows", [&](store::Tx& tx) -> schema::Result<void> {
      TRY(tx.run({"change the rows", "UPDATE verdicts SET verdict = ?1 WHERE clause = 'numerical.tv'"}, {verdict}));
      return {};
    }));
  };
  set_rows("pass");
  REQUIRE(item()["waiver"]["clauses"].size() == 1);
  CHECK(item()["waiver"]["clauses"][0]["clause"] == "numerical.tv");
  CHECK(item()["waiver"]["clauses"][0]["given"][0]["who"] == "anna");
  CHECK(item()["needs"][0]["action"] == "waive");
  set_rows("inconclusive");
}

TEST_CASE("names that look alike are one person to a waiver") {
  Harness h;
  const auto id = undecided(h);
  for (const char* requester : {"Pia", "PIA", "p1a", "pIa"})
    CHECK_MESSAGE(refused(waive(h, requester, id)) == ErrorCode::forbidden, requester);
  REQUIRE(waive(h, "rob", id).has_value());
  for (const char* same : {"Rob", "r0b", "R0B"})
    CHECK_MESSAGE(refused(waive(h, same, id)) == ErrorCode::conflict, same);
  CHECK(h.state(id) == "inconclusive");
  REQUIRE(waive(h, "robin", id).has_value());
  CHECK(h.view(id)["stage"] == "statistical-slice");
  for (const auto& entry : h.entries(id, "waiver_given")) CHECK(entry["body"]["people_rule"] == 2);
}

TEST_CASE("a waiver names a clause that is open and the evidence that was read") {
  Harness h;
  const auto id = undecided(h);
  CHECK(refused(waive(h, "anna", id, "numerical.finite")) == ErrorCode::not_found);
  CHECK(refused(waive(h, "anna", id, "numerical.nothing")) == ErrorCode::not_found);
  CHECK(refused(h.pipeline->waive("anna", id, "numerical.tv", "sha256:0", "unread")) == ErrorCode::conflict);
  CHECK(h.entries(id, "waiver_given").empty());
}

TEST_CASE("another attempt has its own evidence and needs its own waivers") {
  Harness h;
  const auto id = undecided(h);
  const auto first = digest_of(h, id);
  REQUIRE(waive(h, "anna", id).has_value());
  h.behaviour.numeric_tv = 0.1001;
  REQUIRE(h.pipeline->resume("olga", id, "measure again").has_value());
  REQUIRE(h.run_until(id, {"inconclusive", "rejected", "succeeded", "errored"}) == "inconclusive");
  CHECK(h.view(id)["attempt"] == 2);
  CHECK(h.view(id)["waiver"]["clauses"][0]["given"].empty());
  CHECK(refused(h.pipeline->waive("bob", id, "numerical.tv", first, "old figures")) == ErrorCode::conflict);
  REQUIRE(waive(h, "bob", id).has_value());
  CHECK(h.state(id) == "inconclusive");
  REQUIRE(waive(h, "anna", id).has_value());
  CHECK(h.view(id)["stage"] == "statistical-slice");
}

TEST_CASE("a violated clause and an error cannot be waived") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"rejected"}) == "rejected");
  CHECK(h.view(id)["waiver"].is_null());
  const auto violated = h.pipeline->waive("anna", id, "numerical.tv", "sha256:0", "never mind");
  CHECK(refused(violated) == ErrorCode::conflict);
  CHECK(violated.error().message.find("violated clause cannot be waived") != std::string::npos);
  h.behaviour.capture_error = "not a capture";
  const auto other = h.request("newer");
  REQUIRE(h.run_until(other, {"errored"}) == "errored");
  CHECK(refused(h.pipeline->waive("anna", other, "numerical.tv", "sha256:0", "x")) == ErrorCode::conflict);
  CHECK(refused(h.pipeline->waive("anna", "pr-none", "a.b", "sha256:0", "x")) == ErrorCode::not_found);
}

TEST_CASE("an undecided canary cannot be waived, only tried again") {
  Harness h;
  const std::string from = "max_duration: 30d";
  h.contract.replace(h.contract.find(from), from.size(), "max_duration: 4s");
  const std::string errors = "runtime:";
  h.contract.replace(h.contract.find(errors), errors.size(),
                     "runtime:\n  - {id: strict, metric: error_rate, max: 0.0001, stages: [canary]}");
  h.set_up();
  const auto id = h.request();
  const auto end = h.run_until(id, {"inconclusive", "rejected", "succeeded", "errored"});
  CAPTURE(h.view(id).dump());
  REQUIRE(end == "inconclusive");
  REQUIRE(h.state(id) == "inconclusive");
  REQUIRE(h.view(id)["stage"] == "canary");
  CHECK(h.view(id)["waiver"].is_null());
  const auto digest = h.view(id)["stages"].back()["report_digest"].get<std::string>();
  const auto waived = h.pipeline->waive("anna", id, "runtime.strict", digest, "ship it");
  CHECK(refused(waived) == ErrorCode::conflict);
  CHECK(waived.error().message.find("resume it") != std::string::npos);
}

TEST_CASE("an inconclusive promotion that nobody decides expires") {
  Harness h;
  const auto id = undecided(h);
  REQUIRE(waive(h, "anna", id).has_value());
  h.clock.advance_ms(h.settings.inconclusive_deadline_ms + 1);
  h.pipeline->tick();
  CHECK(h.state(id) == "expired");
  const auto late = h.pipeline->waive("bob", id, "numerical.tv", "sha256:0", "late");
  CHECK(refused(late) == ErrorCode::conflict);
}

TEST_CASE("of a clause with two limits the one that is not met is shown and can be waived") {
  Harness h;
  const std::string limits = "max_ratio: 1.5, max: 0.2";
  h.contract.replace(h.contract.find(limits), limits.size(), "max_ratio: 1.5, max: 0.0001");
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"inconclusive", "rejected", "succeeded", "errored"}) == "inconclusive");
  REQUIRE(h.view(id)["stage"] == "shadow-runtime");
  const auto open = h.view(id)["stages"].back()["summary"]["open"];
  REQUIRE(open.size() == 1);
  CHECK(open[0]["clause"] == "runtime.errors");
  CHECK(open[0]["verdict"] == "inconclusive");
  REQUIRE(waive(h, "anna", id, "runtime.errors").has_value());
  REQUIRE(waive(h, "bob", id, "runtime.errors").has_value());
  CHECK(h.view(id)["stage"] == "canary");
}
