#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/pipeline/requests/recipe_admin.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/store/registry/recipes.hpp"
#include "tests/daemon/pipeline/harness.hpp"
#include "tests/daemon/store/rows.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr std::int64_t kHourMs = 3'600'000;
constexpr const char* kStage =
    R"({"train":"train.safetensors","inf":"inf.safetensors","corpus":"corpus.jsonl"})";

json whole_recipe() {
  const auto stage = json::parse(kStage);
  return {{"contract", "test"}, {"captures", {{"numeric", stage}, {"slice", stage}}}};
}

/// With the recipes beside the pipeline, as in the daemon.
struct Kitchen : Harness {
  std::unique_ptr<pipeline::RecipeAdmin> recipes;
  std::unique_ptr<pipeline::ScheduleAdmin> schedules;
  void start() {
    set_up();
    open();
  }
  void open() {
    recipes = pipeline::stored_recipes(
        *store, [this] { return clock.now_us_; },
        [this](const std::string& document) { return pipeline->try_recipe(document); });
    schedules = pipeline::stored_schedules(
        *store, [this] { return clock.now_us_; },
        [this](const std::string& actor, const pipeline::PromotionRequest& request) {
          return pipeline->try_request(actor, request);
        });
  }
  schema::Result<pipeline::View> set(const json& recipe, std::optional<std::uint64_t> revision = {}) {
    return recipes->set("rita", "m", recipe.dump(), revision);
  }
  schema::Error refused(const json& recipe) {
    const auto done = set(recipe);
    REQUIRE(!done);
    return done.error();
  }
  std::string ask(const json& asked) {
    const auto request = recipes->complete(asked.dump());
    REQUIRE_MESSAGE(request.has_value(), (request ? "" : request.error().describe()));
    const auto made = pipeline->request_promotion("pia", *request);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().describe()));
    return made->id;
  }
  json requested(const std::string& id) {
    return entries(id, "promotion_requested").at(0)["body"]["request"];
  }
};

const json kWholeParts = {"/captures/numeric/corpus",
                          "/captures/numeric/inf",
                          "/captures/numeric/train",
                          "/captures/slice/corpus",
                          "/captures/slice/inf",
                          "/captures/slice/train",
                          "/contract"};
const json kBare = {{"model", "m"}, {"engine", "new"}};
const std::string kDigest = "sha256:" + std::string(64, '0');

}  // namespace

TEST_CASE("a promotion takes from the recipe what its request lacks, and says which recipe that was") {
  Kitchen h;
  h.start();
  const auto set = h.set(whole_recipe());
  REQUIRE(set.has_value());
  CHECK(set->created);
  const auto shown = json::parse(set->json);
  CHECK(shown["warnings"] == json::array());
  CHECK(shown["revision"] == 1);
  const auto id = h.ask(kBare);
  auto asked = whole_recipe();
  asked.update(kBare);
  asked["recipe"] = {
      {"revision", 1}, {"digest", shown["digest"]}, {"parts", kWholeParts}, {"set_by", "rita"}};
  CHECK(h.requested(id) == asked);
  const auto entry = h.entries("", "recipe_set").at(0);
  CHECK(entry["actor"] == "rita");
  CHECK(entry["subject"]["model"] == "m");
  CHECK(entry["body"]["recipe"] == whole_recipe());
  CHECK(entry["body"]["digest"] == shown["digest"]);
  // A change while it is under way, and a restart, leave it what it took.
  auto other = whole_recipe();
  other["captures"]["numeric"]["train"] = "another.safetensors";
  REQUIRE(h.set(other, 1).has_value());
  h.restart();
  h.open();
  CHECK(h.run_until(id, {"succeeded"}) == "succeeded");
  CHECK(h.requested(id) == asked);
  CHECK(json::parse(h.recipes->get("m")->json)["revision"] == 2);
}

TEST_CASE("what the request names wins, and null takes nothing") {
  Kitchen h;
  h.start();
  auto recipe = whole_recipe();
  recipe["captures"]["slice"]["floor"] = {{"train", "floor.safetensors"}};
  recipe["fallback_engine"] = "old";
  REQUIRE(h.set(recipe).has_value());
  const auto complete = [&](const json& asked) {
    auto whole = kBare;
    whole.update(asked);
    const auto request = h.recipes->complete(whole.dump());
    REQUIRE_MESSAGE(request.has_value(), (request ? "" : request.error().describe()));
    return *request;
  };
  auto one = complete({{"captures", {{"numeric", {{"inf", {{"adapter", "own"}}}, {"corpus", nullptr}}}}},
                       {"fallback_engine", nullptr},
                       {"contract", "mine"}});
  CHECK(one.contract == "mine");
  CHECK(one.fallback_engine.empty());
  CHECK(one.numeric->inf.adapter == "own");
  CHECK(one.numeric->train.uri == "train.safetensors");
  CHECK(one.numeric->corpus.empty());
  CHECK(one.recipe->parts == std::vector<std::string>{"/captures/numeric/train", "/captures/slice/corpus",
                                                      "/captures/slice/floor/train", "/captures/slice/inf",
                                                      "/captures/slice/train"});
  one = complete({{"captures", {{"slice", nullptr}}}});
  CHECK_FALSE(one.slice.has_value());
  one = complete({{"captures", {{"slice", {{"floor", nullptr}}}}}});
  CHECK_FALSE(one.slice->floor_train.has_value());
  // A request that names everything, or wants nothing, has taken nothing.
  auto own = whole_recipe();
  own["captures"]["slice"]["floor"] = nullptr;
  own["fallback_engine"] = nullptr;
  CHECK_FALSE(complete(own).recipe.has_value());
  own["recipe"] = false;
  own["captures"]["slice"].erase("floor");
  CHECK_FALSE(complete(own).slice->floor_train.has_value());
  // What is written comes back as it was.
  CHECK(pipeline::parse_promotion_request(pipeline::to_json(one)).value() == one);
}

TEST_CASE("a request that lacks something still says what and where it may come from") {
  Kitchen h;
  h.start();
  const auto fault = [&](const json& asked) {
    auto whole = kBare;
    whole.update(asked);
    const auto request = h.recipes->complete(whole.dump());
    REQUIRE(!request);
    return request.error();
  };
  CHECK(fault(json::object()).where == "/contract");
  CHECK(fault(json::object()).message.find("driftgate recipe set m") != std::string::npos);
  REQUIRE(h.set({{"captures", {{"numeric", {{"train", "train.safetensors"}}}}}}).has_value());
  CHECK(fault(json::object()).message.find("add it to the model's recipe") != std::string::npos);
  CHECK(fault({{"contract", "test"}}).where == "/captures/numeric/inf");
  CHECK(fault({{"contarct", "test"}}).where == "/contarct");
  CHECK(fault({{"recipe", true}}).where == "/recipe");
  const auto digest = json::parse(h.recipes->get("m")->json)["digest"];
  CHECK(fault({{"recipe", {{"digest", digest}}}}).where == "/contract");
  const auto overtaken = fault({{"recipe", {{"digest", kDigest}}}, {"contract", "test"}});
  CHECK(overtaken.code == ErrorCode::conflict);
  CHECK(overtaken.where == "/recipe/digest");
  // A digest that a script failed to fill in is no check that was not asked for.
  for (const json& wish : {json{{"digest", ""}}, json{{"digest", "sha256:00"}}, json{{"digest", nullptr}},
                           json{{"digest", digest}, {"revison", 1}}, json::object()}) {
    CAPTURE(wish.dump());
    const auto bad = fault({{"recipe", wish}, {"contract", "test"}});
    CHECK(bad.code == ErrorCode::invalid_document);
    CHECK(bad.where.starts_with("/recipe"));
  }
  CHECK(fault({{"engine", nullptr}}).where == "/engine");
  CHECK(fault({{"model", 5}}).where == "/model");
}

TEST_CASE("a recipe gives candidates of a kernel what it says of them") {
  Kitchen h;
  h.start();
  auto recipe = whole_recipe();
  const auto kernel = json::parse(h.pipeline->engine("new")->json)["kernel"].get<std::string>();
  recipe["kernels"][kernel] = {{"captures", {{"slice", {{"inf", "own.safetensors"}, {"corpus", nullptr}}}}}};
  REQUIRE(h.set(recipe).has_value());
  const auto request = h.recipes->complete(kBare.dump());
  REQUIRE(request.has_value());
  CHECK(request->slice->inf.uri == "own.safetensors");
  CHECK(request->slice->corpus.empty());
  CHECK(request->numeric->corpus == "corpus.jsonl");
}

TEST_CASE("a recipe that can never do is refused with the place of the fault; what may come is a warning") {
  Kitchen h;
  h.start();
  const auto with = [](const std::string& pointer, const json& value) {
    auto recipe = whole_recipe();
    recipe[json::json_pointer(pointer)] = value;
    return recipe;
  };
  CHECK(h.refused(with("/contract", "none")).where == "/contract");
  CHECK(h.refused(with("/fallback_engine", "none")).where == "/fallback_engine");
  CHECK(h.refused(with("/captures/numeric/inf", {{"adapter", "none"}})).where == "/captures/numeric/inf");
  CHECK(h.refused(with("/captures/numeric/floor", {{"train", {{"adapter", "none"}}}})).where ==
        "/captures/numeric/floor/train");
  CHECK(h.refused(with("/captures/slice/corpus", "/etc/passwd")).code == ErrorCode::forbidden);
  CHECK(h.refused(with("/captures/slice/corpsu", "x")).where == "/captures/slice/corpsu");
  CHECK(h.refused(with("/engine", "new")).where == "/engine");
  CHECK(h.refused(with("/kernels", {{"none", {{"contract", "test"}}}})).where == "/kernels/none");
  CHECK(h.refused(json::object()).code == ErrorCode::invalid_document);
  const auto incumbent = json::parse(h.pipeline->engine("old")->json)["kernel"].get<std::string>();
  CHECK(h.refused(with("/kernels", {{incumbent, {{"fallback_engine", "old"}}}})).where ==
        "/kernels/" + incumbent + "/contract");
  CHECK(h.refused(with("/accept_undecidable", true)).where == "/accept_undecidable");
  CHECK(h.refused(with("/kernels", {{incumbent, {{"accept_undecidable", false}}}})).where ==
        "/kernels/" + incumbent + "/accept_undecidable");
  CHECK(h.recipes->set("rita", "none", whole_recipe().dump(), {}).error().code == ErrorCode::not_found);
  CHECK(h.entries("", "recipe_set").empty());
  const auto later = h.set(with("/captures/slice/train", "later.safetensors"));
  REQUIRE(later.has_value());
  CHECK(json::parse(later->json)["warnings"].size() == 1);
  const auto parts =
      h.set({{"contract", "test"}, {"captures", {{"numeric", {{"train", "train.safetensors"}}}}}}, 1);
  REQUIRE(parts.has_value());
  CHECK(json::parse(parts->json)["warnings"].size() == 2);  // no captures.numeric.inf, no captures.slice
}

TEST_CASE("revisions of a recipe count on over its deletion, and the same recipe again is no change") {
  Kitchen h;
  h.start();
  CHECK(h.recipes->get("m").error().code == ErrorCode::not_found);
  CHECK(h.set(whole_recipe(), 1).error().code == ErrorCode::conflict);  // there is none
  REQUIRE(h.set(whole_recipe()).has_value());
  CHECK(h.set({{"contract", "test"}}).error().code == ErrorCode::conflict);
  CHECK(h.set({{"contract", "test"}}, 2).error().code == ErrorCode::conflict);
  const auto again = h.set(whole_recipe());
  REQUIRE(again.has_value());
  CHECK_FALSE(again->created);
  CHECK(again->seq == 1);
  CHECK(h.recipes->remove("rita", "m", 7).error().code == ErrorCode::conflict);
  REQUIRE(h.recipes->remove("rita", "m", 1).has_value());
  CHECK(h.recipes->get("m").error().code == ErrorCode::not_found);
  CHECK(h.recipes->remove("rita", "m", 2).error().code == ErrorCode::not_found);
  const auto anew = h.set(whole_recipe());
  REQUIRE(anew.has_value());
  CHECK(anew->created);
  CHECK(anew->seq == 3);
  CHECK(h.entries("", "recipe_set").size() == 2);
  CHECK(h.entries("", "recipe_deleted").at(0)["body"]["revision"] == 2);
}

TEST_CASE("each fire time of a schedule takes the recipe as it is then") {
  Kitchen h;
  h.start();
  const pipeline::ScheduleRequest hourly{
      .name = "hourly", .cron = "0 * * * *", .request = kBare.dump(), .if_running = "queue"};
  const auto early = h.schedules->create("sam", hourly);
  REQUIRE(!early);
  CHECK(early.error().where == "/promotion");
  CHECK(early.error().message.find("driftgate recipe set m") != std::string::npos);
  REQUIRE(h.set(whole_recipe()).has_value());
  const auto made = h.schedules->create("sam", hourly);
  REQUIRE(made.has_value());
  CHECK(json::parse(made->json)["promotion"] == kBare);
  const auto fire = [&] {
    h.clock.advance_ms(kHourMs + 1'000);
    h.pipeline->tick();
    h.clock.advance_ms(-1'000);
    return h.entries("", "schedule_fired").back()["subject"]["promotion"].get<std::string>();
  };
  const auto first = fire();
  auto other = whole_recipe();
  other["captures"]["numeric"]["corpus"] = nullptr;
  REQUIRE(h.set(other, 1).has_value());
  const auto second = fire();
  REQUIRE(first != second);
  CHECK(h.requested(first)["recipe"]["revision"] == 1);
  CHECK(h.requested(second)["recipe"]["revision"] == 2);
  CHECK_FALSE(h.requested(second)["captures"]["numeric"].contains("corpus"));
  // A recipe, or none, by which the schedule would lack something is told to who changes it.
  const auto lacking = h.set({{"captures", whole_recipe()["captures"]}}, 2);
  REQUIRE(lacking.has_value());
  const auto warnings = json::parse(lacking->json)["warnings"].dump();
  CHECK(warnings.find("Each fire time of the schedule hourly would be refused: 'contract' is missing") !=
        std::string::npos);
  const auto deleted = h.recipes->remove("rita", "m", 3);
  REQUIRE(deleted.has_value());
  REQUIRE(deleted->size() == 1);
  CHECK(deleted->front().find("the schedule hourly") != std::string::npos);
  h.clock.advance_ms(kHourMs + 1'000);
  h.pipeline->tick();
  const auto skipped = h.entries("", "schedule_skipped");
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0]["body"]["why"] == "refused");
  CHECK(skipped[0]["body"]["reason"].get<std::string>().find("'contract' is missing") != std::string::npos);
}

TEST_CASE("a plan shows the whole request and what of it came from the recipe") {
  Kitchen h;
  h.start();
  REQUIRE(h.set(whole_recipe()).has_value());
  const auto request = h.recipes->complete(kBare.dump());
  REQUIRE(request.has_value());
  const auto plan = h.pipeline->plan_promotion("pia", *request);
  REQUIRE(plan.has_value());
  const auto shown = json::parse(plan->json)["request"];
  CHECK(shown["recipe"]["parts"] == kWholeParts);
  CHECK(shown["captures"]["numeric"] == json::parse(kStage));
}

TEST_CASE("a floor is not inherited for a capture or a corpus that is another one") {
  Kitchen h;
  h.start();
  auto recipe = whole_recipe();
  recipe["captures"]["numeric"]["floor"] = {{"train", "floor.safetensors"}, {"inf", {{"adapter", "batch8"}}}};
  const auto kernel = json::parse(h.pipeline->engine("new")->json)["kernel"].get<std::string>();
  recipe["kernels"][kernel] = {{"captures", {{"numeric", {{"inf", "own.safetensors"}}}}}};
  const auto floors = [&](const json& of, const json& numeric) {
    const store::RecipeRow row{
        .model = "m", .document = schema::canonical_json(of), .digest = kDigest, .revision = 1};
    auto whole = kBare;
    whole["captures"]["numeric"] = numeric;
    const auto asked = store::testing::must(pipeline::parse_asked_promotion(whole.dump()));
    const auto request =
        h.store->read([&](store::Reader& reader) { return pipeline::complete_by(reader, asked, row); });
    REQUIRE_MESSAGE(request.has_value(), (request ? "" : request.error().describe()));
    return std::pair(request->numeric->floor_train.has_value(), request->numeric->floor_inf.has_value());
  };
  CHECK(floors(recipe, json::object()) == std::pair(true, false));  // its kernel has another capture
  recipe.erase("kernels");
  CHECK(floors(recipe, json::object()) == std::pair(true, true));
  CHECK(floors(recipe, {{"inf", "inf.safetensors"}}) == std::pair(true, true));  // the same one
  CHECK(floors(recipe, {{"inf", {{"adapter", "own"}}}}) == std::pair(true, false));
  CHECK(floors(recipe, {{"train", "own.safetensors"}}) == std::pair(false, true));
  CHECK(floors(recipe, {{"corpus", "own.jsonl"}}) == std::pair(false, false));
  CHECK(floors(recipe, {{"inf", {{"adapter", "own"}}}, {"floor", {{"inf", {{"adapter", "own8"}}}}}}) ==
        std::pair(true, true));
}

TEST_CASE("who set the recipe that a promotion took from does not decide on it, by whatever name") {
  Kitchen h;
  h.start();
  REQUIRE(h.set(whole_recipe()).has_value());
  const auto id = h.ask(kBare);
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = h.view(id)["approval"]["evidence_digest"].get<std::string>();
  for (const char* who : {"rita", "R1ta"}) {
    const auto own = h.pipeline->approve(who, id, digest, "mine");
    REQUIRE_FALSE(own.has_value());
    CHECK(own.error().code == ErrorCode::forbidden);
    CHECK(own.error().message.find("set revision 1 of the recipe") != std::string::npos);
  }
  CHECK(h.entries(id, "approval_given").at(0)["body"]["decision"] == "refused_self");
  const auto need = h.view(id)["needs"][0]["text"].get<std::string>();
  CHECK(need.find("pia and rita may not") != std::string::npos);
  // The recipe of before is what counts, not that of now.
  REQUIRE(h.recipes->remove("anna", "m", 1).has_value());
  CHECK(h.pipeline->approve("anna", id, digest, "read it").has_value());
}
