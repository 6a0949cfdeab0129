#include "daemon/evidence/audit/audit.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using nlohmann::json;
using schema::EntryValue;
using schema::EvidenceKind;

namespace {

EntryValue arm(const char* version, const char* kernel) {
  return EntryValue::Object{{"version", version}, {"kernel", kernel}, {"url", "http://127.0.0.1:1"}};
}

/// The log of a model: installed at 100 as ve-1, ve-2 promoted by pr-1 (asked for at 200, half of the traffic
/// at 300, all at 400), pr-2 to ve-3 taken back by hand at 600.
struct History {
  TempDir dir;
  std::unique_ptr<store::Store> store = open_store(dir.path());
  std::int64_t waiver = 0, refused = 0, verdict = 0, approval = 0;

  History() {
    add(EvidenceKind::model_bootstrapped, 100, "ada", "", {{"version", "ve-1"}, {"reason", "the first"}});
    route(110, "", arm("ve-1", "k1"), nullptr, 0);
    add(EvidenceKind::promotion_requested, 200, "bob", "pr-1", {{"candidate", "ve-2"}, {"kernel", "k2"}});
    verdict = add(EvidenceKind::verdict_reached, 250, "driftgate", "pr-1",
                  {{"clause", "numerical.kl"}, {"verdict", "pass"}}, "offline-numeric");
    state(290, "driftgate", "pr-1", "queued", "running");
    route(300, "pr-1", arm("ve-1", "k1"), arm("ve-2", "k2"), 5'000);
    refused = add(EvidenceKind::approval_given, 310, "bob", "pr-1",
                  {{"decision", "refused_self"}, {"evidence_digest", "sha256:e"}});
    approval = add(EvidenceKind::approval_given, 320, "cleo", "pr-1",
                   {{"decision", "approve"}, {"evidence_digest", "sha256:e"}});
    waiver = add(EvidenceKind::waiver_given, 330, "cleo", "pr-1",
                 {{"decision", "waive"}, {"clause", "runtime.x"}});
    state(400, "driftgate", "pr-1", "running", "finalizing");
    route(400, "", arm("ve-2", "k2"), nullptr, 0);
    state(410, "driftgate", "pr-1", "finalizing", "succeeded");
    add(EvidenceKind::promotion_requested, 500, "bob", "pr-2", {{"candidate", "ve-3"}});
    state(505, "driftgate", "pr-2", "queued", "running");
    route(510, "pr-2", arm("ve-2", "k2"), arm("ve-3", "k3"), 100);
    state(600, "ada", "pr-2", "running", "rolling_back");
    route(610, "", arm("ve-2", "k2"), nullptr, 0);
  }

  std::int64_t add(EvidenceKind kind, std::int64_t time_us, const std::string& actor,
                   const std::string& promotion, EntryValue::Object body, const std::string& stage = "") {
    schema::EntryDraft entry{.time_us = time_us, .kind = kind, .actor = actor, .subject = {.model = "tiny"}};
    if (!promotion.empty()) entry.subject.promotion = promotion;
    if (!stage.empty()) entry.subject.stage = stage;
    entry.subject.contract = "sha256:contract";
    entry.subject.checkpoint = "sha256:weights";
    entry.body = std::move(body);
    return append_one(*store, entry).seq;
  }

  void state(std::int64_t time_us, const std::string& actor, const std::string& promotion, const char* from,
             const char* to) {
    add(EvidenceKind::state_changed, time_us, actor, promotion, {{"from", from}, {"to", to}}, "canary");
  }

  /// `promotion`: whose stage the route is of, "" for none.
  void route(std::int64_t time_us, const std::string& promotion, EntryValue incumbent, EntryValue candidate,
             int candidate_bp) {
    const EntryValue::Object value{
        {"model", "tiny"},     {"incumbent", std::move(incumbent)}, {"candidate", std::move(candidate)},
        {"fallback", nullptr}, {"all_to_fallback", false},          {"slices", EntryValue::Array{}},
        {"mirror_bp", 0},      {"candidate_bp", candidate_bp},
        {"stage_key", promotion.empty() ? promotion : promotion + "/canary/1"}};
    for (const auto kind : {EvidenceKind::route_desired, EvidenceKind::route_applied}) {
      add(kind, time_us, "driftgate", promotion, {{"route", value}, {"reason", "because"}});
    }
  }

  json population_of(std::int64_t from_us) {
    return json::parse(read(*store, [&](store::Reader& reader) {
                         return population(reader, {.from_us = from_us, .to_us = 10'000});
                       }).items);
  }
  std::vector<std::int64_t> exceptions_since(std::int64_t from_us) {
    std::vector<std::int64_t> seqs;
    const auto page = read(*store, [&](store::Reader& reader) {
      return exceptions(reader, {.model = "tiny", .from_us = from_us});
    });
    for (const StoredEntry& entry : page.entries) seqs.push_back(entry.seq);
    return seqs;
  }

  json served(std::int64_t time_us) {
    return json::parse(
        read(*store, [&](store::Reader& reader) { return served_at(reader, "tiny", time_us); }));
  }
};

std::vector<std::int64_t> seqs_of(const EntryPage& page) {
  std::vector<std::int64_t> seqs;
  for (const StoredEntry& entry : page.entries) seqs.push_back(entry.seq);
  return seqs;
}

}  // namespace

TEST_CASE_FIXTURE(History, "what served a model at a time is told with what brought it there") {
  const json first = served(150)["served"];
  REQUIRE(first.size() == 1);
  CHECK(first[0]["version"] == "ve-1");
  CHECK(first[0]["share_bp"] == 10'000);
  CHECK(first[0]["since"]["time_us"] == 110);
  CHECK(first[0]["origin"]["how"] == "bootstrap");
  CHECK(first[0]["origin"]["actor"] == "ada");

  const json ramp = served(399)["served"];
  REQUIRE(ramp.size() == 2);
  CHECK(ramp[0]["version"] == "ve-1");
  CHECK(ramp[0]["since"]["time_us"] == 110);
  CHECK(ramp[0]["share_bp"] == 5'000);
  CHECK(ramp[1]["version"] == "ve-2");
  CHECK(ramp[1]["role"] == "candidate");
  CHECK(ramp[1]["since"]["time_us"] == 300);

  const json later = served(550)["served"];
  REQUIRE(later.size() == 2);
  CHECK(later[0]["version"] == "ve-2");
  CHECK(later[0]["since"]["time_us"] == 300);
  const json& origin = later[0]["origin"];
  CHECK(origin["promotion"] == "pr-1");
  CHECK(origin["requester"] == "bob");
  CHECK(origin["contract"] == "sha256:contract");
  CHECK(origin["state"]["state"] == "succeeded");
  CHECK(origin["waivers"][0]["seq"] == waiver);
  CHECK(origin["approvals"].size() == 2);
  CHECK(origin["approvals"][1]["seq"] == approval);
  CHECK(origin["verdicts"][0]["seq"] == verdict);
  CHECK(later[1]["origin"]["promotion"] == "pr-2");

  const json last = served(10'000);
  REQUIRE(last["served"].size() == 1);
  CHECK(last["served"][0]["version"] == "ve-2");
  CHECK(last["applied"]["time_us"] == 610);
}

TEST_CASE_FIXTURE(History, "before its first route, and of an unknown model, nothing served") {
  for (const auto& [model, time] : {std::pair{"tiny", 109}, std::pair{"other", 500}}) {
    const auto answer = store->read([&](store::Reader& reader) { return served_at(reader, model, time); });
    REQUIRE(!answer);
    CHECK(answer.error().code == store::ErrorCode::not_found);
  }
}

TEST_CASE_FIXTURE(History, "a population holds what came to serve in its time, between two tree sizes") {
  const auto of = [&](PopulationRequest request) {
    return read(*store, [&](store::Reader& reader) { return population(reader, request); });
  };
  const Population all = of({.from_us = 0, .to_us = 10'000});
  const json items = json::parse(all.items);
  REQUIRE(items.size() == 2);
  CHECK(items[0]["how"] == "bootstrap");
  CHECK(items[1]["promotion"] == "pr-1");
  CHECK(all.span.from_size == 0);
  CHECK(all.span.to_size == all.tree_size);
  const Population some = of({.from_us = 200, .to_us = 410});
  CHECK(json::parse(some.items).empty());
  CHECK(some.span.from_size == 3);  // the bootstrap and its two routes came before
  CHECK(json::parse(of({.from_us = 410, .to_us = 411}).items).size() == 1);
  const Population first = of({.from_us = 0, .to_us = 10'000, .limit = 1});
  REQUIRE(first.next);
  CHECK(json::parse(
            of({.from_us = 0, .to_us = 10'000, .cursor = first.next, .limit = 1}).items)[0]["promotion"] ==
        "pr-1");
  CHECK(of({.from_us = 20'000, .to_us = 30'000}).span.from_size == all.tree_size);
}

TEST_CASE_FIXTURE(History, "exceptions are what people did around the usual way, in pages too") {
  std::vector<std::int64_t> found;
  ExceptionsRequest request{.model = "tiny", .limit = 2};
  do {
    const EntryPage page = read(*store, [&](store::Reader& reader) { return exceptions(reader, request); });
    for (const std::int64_t seq : seqs_of(page)) found.push_back(seq);
    request.cursor = page.next;
  } while (request.cursor);
  REQUIRE(found.size() == 4);
  CHECK(found[0] == 0);  // the bootstrap
  CHECK(found[1] == refused);
  CHECK(found[2] == waiver);
  const auto last = read(*store, [&](store::Reader& reader) { return find_entry(reader, found[3]); });
  CHECK(json::parse(last->bytes)["body"]["to"] == "rolling_back");
}

TEST_CASE_FIXTURE(History, "a version that an applied route has without leave is an exception and of the population") {
  const json ramp = served(399);
  for (const json& arm : ramp["served"]) CHECK(arm["allowed"] == true);
  CHECK(exceptions_since(605).empty());
  std::string version;
  SUBCASE("as incumbent, of no promotion") {
    version = "ve-9";
    route(700, "", arm("ve-9", "k9"), nullptr, 0);
  }
  SUBCASE("as incumbent, the candidate of a promotion that was taken back") {
    version = "ve-3";
    route(700, "", arm("ve-3", "k3"), nullptr, 0);
  }
  SUBCASE("as incumbent, one that another replaced") {
    version = "ve-1";
    route(700, "", arm("ve-1", "k1"), nullptr, 0);
  }
  SUBCASE("as candidate, of a promotion that has ended") {
    version = "ve-2";
    route(700, "pr-1", arm("ve-2", "k2"), arm("ve-2", "k2"), 100);
  }
  SUBCASE("as candidate, another than the promotion's") {
    version = "ve-9";
    state(650, "driftgate", "pr-2", "rolling_back", "inconclusive");
    route(700, "pr-2", arm("ve-2", "k2"), arm("ve-9", "k9"), 100);
  }
  SUBCASE("as fallback, another than was asked for") {
    version = "ve-9";
    const EntryValue::Object value{{"incumbent", arm("ve-2", "k2")}, {"candidate", nullptr},
                                   {"fallback", arm("ve-9", "k9")},  {"all_to_fallback", true},
                                   {"slices", EntryValue::Array{}},  {"candidate_bp", 0},
                                   {"stage_key", ""}};
    add(EvidenceKind::route_applied, 700, "driftgate", "", {{"route", value}, {"reason", "because"}});
  }
  const auto found = exceptions_since(690);
  REQUIRE(found.size() == 1);
  route(800, "", arm("ve-2", "k2"), nullptr, 0);
  CHECK(exceptions_since(690) == found);
  const json items = population_of(690);
  if (version == "ve-2") {  // which served before already, as the incumbent
    CHECK(items.empty());
  } else {
    REQUIRE(items.size() == 1);
    CHECK(items[0]["how"] == "route");
    CHECK(items[0]["version"] == version);
    CHECK(items[0]["seq"] == found[0]);
  }
  int without = 0;
  const json then = served(750);
  for (const json& arm : then["served"]) without += arm["allowed"] == false;
  CHECK(without == 1);
}

TEST_CASE_FIXTURE(History, "what a rollback brings back has leave, and what it took away has none") {
  add(EvidenceKind::route_desired, 700, "driftgate", "", {{"route", EntryValue::Object{}}});
  state(700, "olga", "pr-1", "succeeded", "succeeded");
  route(710, "", arm("ve-1", "k1"), nullptr, 0);
  CHECK(exceptions_since(705).empty());
  route(720, "", arm("ve-2", "k2"), nullptr, 0);
  CHECK(exceptions_since(705).size() == 1);
}

TEST_CASE_FIXTURE(History, "a sample is what its documented order gives, and another seed gives another") {
  const auto drawn = [&](const SampleRequest& request) {
    return json::parse(read(*store, [&](store::Reader& reader) { return sample(reader, request); }));
  };
  const json sampled = drawn({.seed = "dice", .count = 3});
  std::vector<std::pair<std::string, std::int64_t>> order;
  for (std::int64_t seq = 0; seq < sampled["size"].get<std::int64_t>(); ++seq) {
    order.emplace_back(schema::to_hex(schema::sha256("dice:" + std::to_string(seq))), seq);
  }
  std::ranges::sort(order);
  REQUIRE(sampled["items"].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(sampled["items"][i]["order"] == order[i].first);
    CHECK(sampled["items"][i]["entry"]["seq"] == order[i].second);
  }
  CHECK(drawn({.seed = "other", .count = 3}) != sampled);
  // Of an older, smaller log it is the same as it was then.
  const json small = drawn({.seed = "dice", .count = 3, .size = 5});
  CHECK(small["population"] == 5);
  for (const json& item : small["items"]) CHECK(item["entry"]["seq"] < 5);
  const json kind = drawn({.seed = "dice", .count = 100, .filter = {.kind = EvidenceKind::route_applied}});
  CHECK(kind["population"] == 5);
  CHECK(kind["items"].size() == 5);
  for (const SampleRequest& bad : {SampleRequest{.seed = ""}, SampleRequest{.seed = "x", .count = 0},
                                   SampleRequest{.seed = "x", .size = 1'000}}) {
    CHECK(!store->read([&](store::Reader& reader) { return sample(reader, bad); }));
  }
}
