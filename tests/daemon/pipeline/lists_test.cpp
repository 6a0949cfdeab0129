#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/idempotency.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

std::vector<json> listed(const Harness& h, const pipeline::PromotionFilter& filter) {
  const auto page = h.pipeline->promotions(filter, {});
  REQUIRE_MESSAGE(page.has_value(), (page ? "" : page.error().describe()));
  std::vector<json> items;
  for (const auto& item : page->items) items.push_back(json::parse(item.json));
  return items;
}

std::vector<std::string> ids(const Harness& h, const pipeline::PromotionFilter& filter) {
  std::vector<std::string> found;
  for (const auto& item : listed(h, filter)) found.push_back(item["id"]);
  return found;
}

json overview_item(const Harness& h) {
  const auto overview = h.pipeline->overview("", {});
  REQUIRE(overview);
  REQUIRE(overview->page.items.size() == 1);
  return json::parse(overview->page.items.front().json);
}

json counts(const Harness& h) {
  return json::parse(h.pipeline->overview("", {})->counts);
}

/// What a request is told that it made.
class Answers final : public store::WriteScope {
 public:
  std::vector<std::string> made_json;
  bool wanted = true;
  store::Result<void> allow(store::Reader&) override { return {}; }
  store::Result<void> made(store::Tx&, const store::Made& made) override {
    made_json.emplace_back(made.json);
    return {};
  }
  [[nodiscard]] bool wants_answer() const override { return wanted; }
};

}  // namespace

TEST_CASE("an item of the list is the promotion without the sentences of its verdicts") {
  Harness h;
  h.behaviour.german_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 30 && h.state(id) != "rejected"; ++i) {
    auto view = h.view(id);
    for (auto& stage : view["stages"]) stage["summary"].erase("open");
    const auto items = listed(h, {});
    REQUIRE(items.size() == 1);
    CHECK(items[0] == view);
    CHECK(json::parse(h.pipeline->promotion_item(id)->json) == view);
    CHECK_FALSE(view["why"].get<std::string>().empty());
    h.second();
  }
  REQUIRE(h.state(id) == "rejected");
  const auto item = listed(h, {}).at(0);
  CHECK(
      item["why"].get<std::string>().starts_with("It was rejected: statistical-slice: statistical.slice-tv"));
  CHECK(item["needs"].empty());
  const auto& slice = item["stages"][1];
  CHECK(slice["stage"] == "statistical-slice");
  CHECK(slice["counts"]["violated"] == 1);
  CHECK_FALSE(h.view(id)["stages"][1]["summary"]["open"].empty());
}

TEST_CASE("lists are filtered and ordered as asked") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto first = h.request();
  REQUIRE(h.run_until(first, {"rejected"}) == "rejected");
  h.behaviour.numeric_tv = 0.01;
  const auto second = h.request("newer");
  REQUIRE(h.run_until(second, {"awaiting_approval"}, false) == "awaiting_approval");
  using Ids = std::vector<std::string>;
  CHECK(ids(h, {}) == Ids{second, first});
  CHECK(ids(h, {.order = "oldest"}) == Ids{first, second});
  CHECK(ids(h, {.open = true}) == Ids{second});
  CHECK(ids(h, {.needs = true}) == Ids{second});
  CHECK(ids(h, {.state = "rejected"}) == Ids{first});
  CHECK(ids(h, {.requester = "pia"}).size() == 2);
  CHECK(ids(h, {.contract = "test", .order = "updated"}) == Ids{second, first});
  CHECK(ids(h, {.text = "NEWER"}) == Ids{second});
  CHECK(h.pipeline->promotions({.state = "gone"}, {}).error().code == ErrorCode::invalid_argument);
  CHECK(h.pipeline->promotions({.order = "best"}, {}).error().code == ErrorCode::invalid_argument);
  CHECK(h.pipeline->promotions({.text = std::string(300, 'x')}, {}).error().code ==
        ErrorCode::invalid_argument);
  const auto open = h.pipeline->open_items();
  REQUIRE(open);
  REQUIRE(open->size() == 1);
  CHECK(json::parse(open->at(0).json) == listed(h, {.open = true}).at(0));
}

TEST_CASE("a promotion says why it stands where it stands on the whole way to its success") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  std::set<std::string> said;
  for (int i = 0; i < 200 && h.state(id) != "succeeded"; ++i) {
    const auto view = h.view(id);
    said.insert(view["why"].get<std::string>().substr(0, 22));
    const bool waits = view["state"] == "awaiting_approval";
    CHECK(view["needs"].empty() == !waits);
    if (waits) CHECK(view["needs"][0]["action"] == "approve");
    h.approve_if_asked(id);
    h.second();
  }
  REQUIRE(h.state(id) == "succeeded");
  CHECK(said.contains("Shadow-runtime mirrors"));
  CHECK(said.contains("The canary is at step "));
  CHECK(said.contains("Every clause holds at "));
  CHECK(said.contains("The canary is at the b"));
  const auto view = h.view(id);
  CHECK(view["share_bp"] == 10'000);
  CHECK(view["why"] == "It succeeded: all four stages passed; the candidate serves 100%.");
}

TEST_CASE("an order on what has changed since is refused and says what has changed") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto shown = h.view(id)["evidence_shown"].get<std::string>();
  REQUIRE(h.pipeline->approve("anna", id, h.view(id)["approval"]["evidence_digest"], "read it"));
  for (int i = 0; i < 2; ++i) h.second();
  const auto before = h.view(id);
  CHECK(before["evidence_shown"] != shown);
  for (const auto& refused :
       {h.pipeline->abort("olga", id, {"stop", shown}), h.pipeline->pause("olga", id, {"stop", shown}),
        h.pipeline->resume("olga", id, {"go", shown}), h.pipeline->rollback("olga", id, {"stop", shown})}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::conflict);
    CHECK(refused.error().message.find(
              "it was awaiting_approval in canary (attempt 1) at step 2, with 50% of the "
              "traffic, now it is running in canary") != std::string::npos);
  }
  CHECK(h.view(id) == before);
  CHECK(h.pipeline->abort("olga", "pr-none", {"stop", shown}).error().code == ErrorCode::not_found);
  REQUIRE(h.pipeline->pause("olga", id, {"look", before["evidence_shown"].get<std::string>()}));
  CHECK(h.state(id) == "paused");
  CHECK(h.view(id)["needs"][0]["action"] == "resume");
  REQUIRE(h.pipeline->abort("olga", id, "enough"));
  CHECK(h.state(id) == "aborted");
}

TEST_CASE(
    "what a person changes is noted as the answer in the transaction of the change, and nothing after it "
    "is") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = h.view(id)["approval"]["evidence_digest"].get<std::string>();
  const auto answer_of = [&](const std::function<schema::Result<pipeline::View>()>& change) {
    Answers answers;
    const store::EnterWriteScope entered(&answers);
    const auto done = change();
    REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().describe()));
    REQUIRE(answers.made_json.size() == 1);
    return json::parse(answers.made_json.front());
  };
  CHECK(answer_of([&] { return h.pipeline->pause("olga", id, "look"); })["state"] == "paused");
  CHECK(answer_of([&] { return h.pipeline->resume("olga", id, "go on"); })["state"] == "running");
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  CHECK(answer_of([&] { return h.pipeline->approve("anna", id, digest, "read it"); })["state"] == "running");
  CHECK(answer_of([&] { return h.pipeline->rollback("olga", id, "smells"); })["state"] == "rolling_back");
  CHECK(answer_of([&] { return h.pipeline->lift_hold("olga", "m", "mended"); })["hold"].is_null());
}

TEST_CASE("no answer is made that nobody wants, and one that cannot be made fails nothing") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  Answers answers;
  const store::EnterWriteScope entered(&answers);
  int made = 0;
  const auto note = [&](const std::function<schema::Result<pipeline::View>()>& view) {
    return h.store->write("note", [&](store::Tx& tx) {
      return pipeline::note_made(tx, "pr-1", [&] {
        ++made;
        return view();
      });
    });
  };
  CHECK(note([] { return schema::Result<pipeline::View>(schema::fail(ErrorCode::corrupt, "torn")); }));
  CHECK(note([]() -> schema::Result<pipeline::View> { throw std::runtime_error("a bug"); }));
  CHECK(made == 2);
  CHECK(answers.made_json == std::vector<std::string>(2, R"({"id":"pr-1"})"));
  answers.wanted = false;
  CHECK(note([] { return schema::Result<pipeline::View>(schema::fail(ErrorCode::internal, "asked")); }));
  CHECK(made == 2);
  REQUIRE(h.pipeline->abort("olga", id, "enough"));
  CHECK(answers.made_json.size() == 2);
  CHECK(h.state(id) == "aborted");
}

TEST_CASE("the rollback of what serves is not answered with the end of its successor") {
  Harness h;
  h.set_up();
  const auto first = h.request();
  REQUIRE(h.run_until(first, {"succeeded"}) == "succeeded");
  const auto second = h.request("newer");
  REQUIRE(h.run_until(second, {"awaiting_approval"}, false) == "awaiting_approval");
  Answers answers;
  {
    const store::EnterWriteScope entered(&answers);
    REQUIRE(h.pipeline->rollback("olga", first, "smells"));
  }
  CHECK(answers.made_json.empty());
  CHECK(
      h.view(first)["why"].get<std::string>().starts_with("It succeeded and was rolled back later: smells"));
}

TEST_CASE("the overview has each model with what is open, what ended last and what waits for people") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  auto item = overview_item(h);
  CHECK(item["model"] == "m");
  CHECK(item["incumbent"]["engine"] == "old");
  CHECK(item["route_agrees"] == true);
  CHECK(item["promotion"].is_null());
  CHECK(item["last"].is_null());
  CHECK(item["guard"].is_null());
  const auto first = h.request();
  REQUIRE(h.run_until(first, {"rejected"}) == "rejected");
  h.behaviour.numeric_tv = 0.01;
  const auto second = h.request("newer");
  REQUIRE(h.run_until(second, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto queued = h.request();
  item = overview_item(h);
  CHECK(item["promotion"] == listed(h, {.needs = true}).at(0));
  CHECK(item["last"]["id"] == first);
  CHECK(item["last"]["why"].get<std::string>().starts_with("It was rejected: offline-numeric"));
  CHECK(counts(h) == json{{"models", 1}, {"open", 2}, {"need_people", 1}, {"holds", 0}, {"alarms", 0}});
  CHECK(h.view(queued)["why"] == "It waits for promotion " + second + ", which has model m now.");
  REQUIRE(h.pipeline->rollback("olga", second, "smells"));
  item = overview_item(h);
  CHECK(item["hold"]["reason"].get<std::string>().starts_with("smells"));
  CHECK(item["promotion"]["id"] == queued);
  CHECK(item["promotion"]["needs"][0]["action"] == "lift_hold");
  CHECK(counts(h)["holds"] == 1);
  CHECK(h.pipeline->overview("x", {})->page.items.empty());
  CHECK(h.pipeline->overview("M", {})->page.items.size() == 1);
  CHECK(h.pipeline->overview("", {"", 0}).error().code == ErrorCode::invalid_argument);
  CHECK(h.pipeline->overview("", {})->tree_size > 0);
}
