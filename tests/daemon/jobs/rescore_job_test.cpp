#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "gpu/table/measurement.hpp"
#include "tests/daemon/jobs/scripted_engine.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::ScriptedEngine;
using driftgate::jobs::testing::TempFolder;
using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr const char* kContract =
    R"({"apiVersion":"driftgate/v1","kind":"KernelContract","metadata":{"name":"t"},"kernels":{"train":{"ref":"a"},"inf":{"ref":"b"}},"numerical":[{"id":"tv","metric":"tv","aggregate":"mean","max":0.1}]})";

route::MirroredPair pair_of(std::uint64_t order, const std::string& prompt, const json& answer) {
  route::MirroredPair pair;
  pair.order = order;
  pair.key_hash = order;
  pair.slice = "language=de";
  pair.path = "/v1/completions";
  pair.request_body = json{{"prompt", prompt}}.dump();
  pair.incumbent.status = pair.candidate.status = 200;
  pair.incumbent.body = pair.candidate.body = json{{"choices", json::array({answer})}}.dump();
  return pair;
}

/// A rescore job between two engines on loopback and a spool of its own.
struct World {
  TempFolder folder;
  JobFolder job{folder.path / "job"};
  ScriptedEngine incumbent, candidate;
  RescorePayload payload;
  std::vector<std::string> lines;

  explicit World(ScriptedEngine::Twist incumbent_twist = {}, ScriptedEngine::Twist candidate_twist = {})
      : incumbent(std::move(incumbent_twist)), candidate(std::move(candidate_twist)) {
    std::filesystem::create_directories(job.path());
    candidate.logprob = -0.75;
    payload.incumbent = {incumbent.url(), "m", "a", Scoring::echo};
    payload.candidate = {candidate.url(), "m", "b", Scoring::echo};
    payload.contract = kContract;
    payload.checkpoint = "sha256:c";
  }
  void add(const route::MirroredPair& pair) { lines.push_back(route::pair_to_line(pair)); }
  void add(int pairs) {
    for (int i = 1; i <= pairs; ++i)
      add(pair_of(static_cast<std::uint64_t>(i), "ask " + std::to_string(i), {{"text", " yes"}}));
  }
  JobResult run() {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    payload.spool = folder.file("spool.jsonl", text);
    return run_from_spool();
  }
  [[nodiscard]] JobResult run_from_spool() const {
    auto done = run_rescore(payload, job);
    return done ? *done : failed(done.error());
  }
  [[nodiscard]] std::vector<stages::ShadowPair> pairs() const {
    const auto text = job.get("pairs.jsonl");
    REQUIRE(text);
    auto pairs = pairs_from_jsonl(*text);
    REQUIRE(pairs);
    return *pairs;
  }
};

json summary_of(const JobResult& result) {
  REQUIRE_MESSAGE(result.ok, (result.error ? result.error->describe() : ""));
  return json::parse(result.summary);
}

bool noted(const json& summary, const std::string& words) {
  return summary["notes"].dump().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the candidate's answers are scored by both engines, and only the tokens that it generated count") {
  World world;
  world.add(2);
  auto failed = pair_of(3, "ask", {{"text", "a"}});
  failed.candidate.status = 500;
  world.add(failed);
  auto chat = pair_of(4, "ask", {{"message", {{"content", "a"}}}});
  chat.path = "/v1/chat/completions";
  world.add(chat);
  world.add(pair_of(5, "ask", {{"text", ""}}));
  const auto result = world.run();
  const auto summary = summary_of(result);
  CHECK(summary["pairs"] == 5);
  CHECK(summary["wanted"] == 2);
  CHECK(summary["with_logprobs"] == 2);
  CHECK(summary["can_rescore"] == true);
  CHECK(summary["notes"].empty());
  const auto table = gpu::deserialise(world.job.get("table.bin").value());
  REQUIRE(table);
  CHECK(table->rows == 2 * std::string(" yes").size());
  CHECK(table->train.kernel == "a");
  CHECK(table->inf.kernel == "b");
  CHECK(table->inf.checkpoint_digest == "sha256:c");
  CHECK(result.digests.at("table") == file_digest(world.job.file("table.bin")).value());
  CHECK(result.digests.at("pairs") == file_digest(world.job.file("pairs.jsonl")).value());
  const auto pairs = world.pairs();
  REQUIRE(pairs.size() == 5);
  CHECK(pairs[0].has_logprobs);
  CHECK_FALSE(pairs[2].has_logprobs);
  CHECK(world.job.get("pairs.jsonl")->find("ask") == std::string::npos);
}

TEST_CASE("the same spool gives pair records of another digest each time, and the same pairs") {
  World world;
  world.add(2);
  const auto first = world.run();
  const auto pairs = world.pairs();
  const auto second = world.run();
  CHECK(first.digests.at("pairs") != second.digests.at("pairs"));
  CHECK(pairs_to_jsonl(world.pairs()) == pairs_to_jsonl(pairs));
  CHECK(first.digests.at("table") == second.digests.at("table"));
}

TEST_CASE("lines of the spool that cannot be read are counted, and what is left is used") {
  World world;
  world.add(1);
  const std::string whole = world.lines[0];
  world.lines.insert(world.lines.end(), {"", "no json", whole.substr(0, whole.size() / 2), "{}", "[]"});
  world.add(pair_of(9, "ask", {{"text", "a"}}));
  const auto summary = summary_of(world.run());
  CHECK(summary["pairs"] == 2);
  CHECK(noted(summary, "5 lines of the spool could not be read"));
}

TEST_CASE("a spool that is gone is an error by its name, and none at all is a stage without pairs") {
  World world;
  world.payload.spool = (world.folder.path / "gone.jsonl").string();
  const auto gone = world.run_from_spool();
  REQUIRE_FALSE(gone.ok);
  CHECK(gone.error->code == ErrorCode::not_found);
  CHECK(gone.error->message.find("gone.jsonl cannot be opened") != std::string::npos);
  world.payload.spool.clear();
  const auto none = world.run_from_spool();
  CHECK(summary_of(none)["pairs"] == 0);
  CHECK_FALSE(none.files.contains("table"));
  CHECK(world.job.get("pairs.jsonl").value().empty());
}

TEST_CASE("a seed chooses the same pairs each time, and another seed others") {
  World world;
  world.add(40);
  world.payload.max_rescored = 8;
  const auto chosen = [&](std::uint64_t seed) {
    world.payload.seed = seed;
    CHECK(summary_of(world.run())["with_logprobs"] == 8);
    std::set<std::uint64_t> orders;
    for (const auto& pair : world.pairs())
      if (pair.has_logprobs) orders.insert(pair.order);
    return orders;
  };
  const auto once = chosen(7);
  CHECK(once.size() == 8);
  CHECK(chosen(7) == once);
  CHECK(chosen(8) != once);
}

TEST_CASE("where an engine cannot rescore, answers are compared and the note says whose engine it is") {
  for (const bool incumbent : {true, false}) {
    World world;
    (incumbent ? world.payload.incumbent : world.payload.candidate).scoring = Scoring::none;
    auto pair = pair_of(1, "ask", {{"text", "same start"}});
    pair.candidate.body = R"({"choices":[{"text":"same end"}]})";
    world.add(pair);
    auto failed = pair;
    failed.order = failed.key_hash = 2;
    failed.incumbent.status = 503;
    world.add(failed);
    const auto result = world.run();
    const auto summary = summary_of(result);
    CHECK(noted(summary, incumbent ? "the incumbent's engine" : "the candidate's engine"));
    CHECK(summary["can_rescore"] == false);
    CHECK_FALSE(result.files.contains("table"));
    const auto pairs = world.pairs();
    CHECK(pairs[0].equal_tokens == 5U);
    CHECK(pairs[0].compared_tokens == 6U);
    CHECK_FALSE(pairs[1].equal_tokens.has_value());
    CHECK(world.incumbent.asked().empty());
    CHECK(world.candidate.asked().empty());
  }
}

TEST_CASE(
    "engines that give log-probabilities of what they generate are asked greedily, in chat and completions") {
  const auto words = [](const char* second) {
    return [=](const net::Request& request, const json& body) -> std::optional<net::Response> {
      if (request.path == "/v1/chat/completions") return std::nullopt;
      if (!body.contains("n_probs")) return ScriptedEngine::of(400, "");
      return ScriptedEngine::of(ScriptedEngine::choice(
          std::string("a") + second, {{"tokens", {"a", second}}, {"token_logprobs", {-0.5, -0.5}}}));
    };
  };
  World world(words("b"), words("c"));
  for (auto* side : {&world.payload.incumbent, &world.payload.candidate}) {
    side->scoring = Scoring::none;
    side->logprobs_by = LogprobsBy::n_probs;
    side->chat_logprobs = true;
  }
  auto completion = pair_of(1, "ask", {{"text", "what was sampled"}});
  completion.request_body =
      R"({"prompt":"ask","temperature":1,"top_p":0.9,"n":2,"stream":true,"stop":["."]})";
  world.add(completion);
  auto chat = pair_of(2, "", {{"message", {{"content", "a"}}}});
  chat.path = "/v1/chat/completions";
  chat.request_body = R"({"messages":[{"role":"user","content":"ask"}],"tools":[]})";
  world.add(chat);
  auto several = pair_of(3, "ask", {{"text", "a"}});
  several.request_body = R"({"prompt":["ask","and ask"]})";
  world.add(several);
  const auto result = world.run();
  const auto summary = summary_of(result);
  CHECK(summary["wanted"] == 2);
  CHECK(summary["with_logprobs"] == 2);
  CHECK(summary["can_rescore"] == false);
  CHECK(summary["no_logprobs"] == "");
  CHECK_FALSE(result.files.contains("table"));  // greedy tokens are no sample of the candidate's
  const auto pairs = world.pairs();
  CHECK(pairs[0].equal_tokens == 1U);
  CHECK(pairs[0].compared_tokens == 2U);
  CHECK(pairs[1].equal_tokens == 1U);
  CHECK(pairs[1].compared_tokens == 1U);
  CHECK_FALSE(pairs[2].has_logprobs);
  const auto asked = json::parse(world.candidate.asked().at(0).body);
  CHECK(asked["temperature"] == 0);
  CHECK(asked["stop"] == json({"."}));
  for (const char* dropped : {"n", "top_p", "stream"}) CHECK_FALSE(asked.contains(dropped));
  const auto talked = json::parse(world.candidate.asked().at(1).body);
  CHECK(talked["messages"][0]["content"] == "ask");
  CHECK(talked["logprobs"] == true);
}

TEST_CASE("pairs of which no log-probabilities can be had say why") {
  World world;
  world.payload.incumbent.scoring = world.payload.candidate.scoring = Scoring::none;
  world.payload.incumbent.chat_logprobs = true;
  world.add(1);
  CHECK(summary_of(world.run())["no_logprobs"] ==
        "the engine of the kernel b gives no log-probabilities in any way that is known");
  world.payload.candidate.chat_logprobs = true;
  CHECK(summary_of(world.run())["no_logprobs"] ==
        "no mirrored request was of a kind for which both engines give log-probabilities");
}

TEST_CASE("engines that split a text differently, refuse it or answer nonsense yield notes and no figures") {
  const auto answering = [](net::Response response) {
    return [=](const net::Request&, const json&) -> std::optional<net::Response> { return response; };
  };
  const std::pair<ScriptedEngine::Twist, const char*> twists[] = {
      {answering(
           ScriptedEngine::of(ScriptedEngine::choice("x", {{"tokens", {"x"}}, {"token_logprobs", {-1}}}))),
       "the engines split a text into different tokens"},
      {answering(ScriptedEngine::of(503, "")), "answered 503 to a request for scores"},
      {answering(ScriptedEngine::of(200, "nonsense")), "is not valid JSON"},
      {answering(ScriptedEngine::of(200, R"({"choices":[]})")), "it holds no log-probabilities"},
  };
  for (const auto& [twist, note] : twists) {
    CAPTURE(note);
    World world(twist);
    world.add(3);
    const auto result = world.run();
    const auto summary = summary_of(result);
    CHECK(summary["wanted"] == 3);
    CHECK(summary["with_logprobs"] == 0);
    CAPTURE(summary["notes"].dump());
    CHECK(summary["notes"].size() == 1);  // once, however often
    CHECK(noted(summary, note));
    CHECK_FALSE(result.files.contains("table"));
  }
}

TEST_CASE("an engine that fails again and again is not asked for every pair") {
  World world({}, [](const net::Request&, const json&) { return ScriptedEngine::of(500, ""); });
  world.add(60);
  const auto summary = summary_of(world.run());
  CHECK(noted(summary, "rescoring stopped: an engine failed many times in a row"));
  CHECK(world.candidate.asked().size() == 20);
  CHECK(summary["with_logprobs"] == 0);
}

TEST_CASE("one failure in between does not stop the rescoring") {
  World world({}, [](const net::Request&, const json& body) -> std::optional<net::Response> {
    if (!body.contains("prompt")) return std::nullopt;  // GET /props
    const auto prompt = body["prompt"].get<std::string>();
    if (prompt.starts_with("ask 1")) return ScriptedEngine::of(500, "");
    return std::nullopt;
  });
  world.add(30);
  CHECK(summary_of(world.run())["with_logprobs"] == 30 - 11);  // 1 and 10 to 19
}

TEST_CASE("answers with token ids are scored by their ids, where both engines take them") {
  const json answer{{"text", "ab"}, {"prompt_token_ids", {7, 8, 9}}, {"token_ids", {1, 2}}};
  World world;
  world.payload.incumbent.token_ids = world.payload.candidate.token_ids = true;
  world.add(pair_of(1, "ask", answer));
  CHECK(summary_of(world.run())["with_logprobs"] == 1);
  for (ScriptedEngine* engine : {&world.incumbent, &world.candidate})
    CHECK(json::parse(engine->asked().at(0).body)["prompt"] == json({7, 8, 9, 1, 2}));
  CHECK(gpu::deserialise(world.job.get("table.bin").value())->rows == 2);
  World other;
  other.payload.candidate.token_ids = true;
  other.add(pair_of(1, "ask", answer));
  CHECK(summary_of(other.run())["with_logprobs"] == 1);
  CHECK(json::parse(other.candidate.asked().at(0).body)["prompt"] == "askab");
}

TEST_CASE("an answer that is not UTF-8 is not rescored as the text that it never was") {
  World world;
  world.add(pair_of(1, "ask", {{"text", "a\xEF\xBF\xBD"}}));
  const auto summary = summary_of(world.run());
  CHECK(summary["wanted"] == 1);
  CHECK(summary["with_logprobs"] == 0);
  CHECK(noted(summary, "not valid UTF-8"));
  CHECK(world.candidate.asked().empty());
}

TEST_CASE(
    "what cannot be decided with is an error of the job: a contract with faults, an engine out of bounds") {
  World world;
  world.add(1);
  world.payload.contract = R"({"kind":"KernelContract"})";
  const auto faults = world.run();
  REQUIRE_FALSE(faults.ok);
  CHECK(faults.error->code == ErrorCode::invalid_document);
  CHECK(faults.error->message.find("the contract") != std::string::npos);
  world.payload.contract = kContract;
  world.payload.candidate.url = "http://192.0.2.1:80";
  const auto forbidden = world.run();
  REQUIRE_FALSE(forbidden.ok);
  CHECK(forbidden.error->code == ErrorCode::forbidden);
  world.payload.candidate.url = "engine";
  CHECK(world.run().error->code == ErrorCode::invalid_argument);
}

TEST_CASE("one prompt of each key is asked alone and in a batch, and no more prompts than were wanted") {
  World world;
  world.payload.incumbent.scoring = Scoring::none;
  world.payload.batch_prompts = 3;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    auto pair = pair_of(i, "ask", {{"text", "a"}});
    pair.key_hash = i / 2;
    if (i == 1) pair.candidate.status = 404;  // excluded: it was no request that an engine could answer
    world.add(pair);
  }
  (void)summary_of(world.run());
  std::set<std::uint64_t> keys;
  for (const auto& pair : world.pairs())
    if (pair.batch_variant) CHECK(keys.insert(pair.key_hash).second);
  CHECK(keys.size() == 3);
  CHECK_FALSE(keys.contains(0));
  CHECK(world.candidate.asked().size() == 2 * 3);
}

namespace {

/// Answers completions greedily with these tokens, and scores given ones as usual.
ScriptedEngine::Twist generating(std::vector<std::string> tokens) {
  return [tokens = std::move(tokens)](const net::Request& request,
                                      const json& body) -> std::optional<net::Response> {
    if (request.path != "/v1/completions" || body.value("echo", false)) return std::nullopt;
    std::string text;
    for (const auto& token : tokens) text += token;
    const std::vector<double> values(tokens.size(), -0.5);
    return ScriptedEngine::of(ScriptedEngine::choice(text, {{"tokens", tokens}, {"token_logprobs", values}}));
  };
}

std::vector<json> greedily_asked(ScriptedEngine& engine) {
  std::vector<json> bodies;
  for (const auto& request : engine.asked()) {
    if (request.path != "/v1/completions") continue;
    const auto body = json::parse(request.body);
    if (!body.value("echo", false)) bodies.push_back(body);
  }
  return bodies;
}

}  // namespace

TEST_CASE("a clause on greedy answers has both engines asked for them, though they can score given tokens") {
  World world(generating({"a", "b", "c"}), generating({"a", "b", "d", "e"}));
  for (auto* side : {&world.payload.incumbent, &world.payload.candidate})
    side->logprobs_by = LogprobsBy::count;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    auto pair = pair_of(i, "ask " + std::to_string(i), {{"text", " yes"}});
    pair.key_hash = i == 4 ? 3 : i;  // the last prompt is of a key that has one
    world.add(pair);
  }
  (void)summary_of(world.run());
  CHECK(greedily_asked(world.incumbent).empty());
  world.payload.compare_greedy = true;
  const auto result = world.run();
  const auto summary = summary_of(result);
  CHECK(summary["can_rescore"] == true);
  CHECK(summary["with_logprobs"] == 4);
  CHECK(summary["unlisted_tokens"] == 0);
  CHECK(result.files.contains("table"));
  const auto pairs = world.pairs();
  REQUIRE(pairs.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    REQUIRE(pairs[i].greedy.has_value());
    CHECK(*pairs[i].greedy == stages::GreedyAgreement{2, 4});
    // The candidate's own answers do not depend on the batch.
    REQUIRE(pairs[i].greedy_floor.has_value());
    CHECK(*pairs[i].greedy_floor == stages::GreedyAgreement{4, 4});
    CHECK_FALSE(pairs[i].equal_tokens.has_value());
  }
  CHECK_FALSE(pairs[3].greedy.has_value());
  const auto asked = greedily_asked(world.incumbent);
  REQUIRE(asked.size() == 3);
  CHECK(asked[0]["max_tokens"] == 32);
  CHECK(asked[0]["temperature"] == 0);
  CHECK(asked[0]["logprobs"] == 1);
  CHECK(greedily_asked(world.candidate).size() == 3 + 2 * 3);  // compared, then alone and in a batch
}

TEST_CASE("no more pairs are compared greedily than may be rescored") {
  World world(generating({"a"}), generating({"a"}));
  for (auto* side : {&world.payload.incumbent, &world.payload.candidate})
    side->logprobs_by = LogprobsBy::count;
  world.payload.compare_greedy = true;
  world.payload.max_rescored = 2;
  world.add(6);
  (void)summary_of(world.run());
  const auto pairs = world.pairs();
  CHECK(std::ranges::count_if(pairs, [](const auto& pair) { return pair.greedy.has_value(); }) == 2);
}

TEST_CASE("greedy answers that list fewer tokens than they have are left out, counted and named by kernel") {
  const auto merged = [](const net::Request& request, const json& body) -> std::optional<net::Response> {
    if (request.path != "/v1/completions") return std::nullopt;
    const bool umlaut = body["prompt"] == "ask 1";
    const json entry{{"id", 5}, {"token", umlaut ? "ä" : "a"}, {"logprob", -0.5}};
    const json choice{{"text", umlaut ? "ä" : "a"}, {"logprobs", {{"content", json::array({entry})}}}};
    return ScriptedEngine::of(
        json{{"choices", json::array({choice})}, {"usage", {{"completion_tokens", umlaut ? 2 : 1}}}});
  };
  World world(merged, merged);
  for (auto* side : {&world.payload.incumbent, &world.payload.candidate}) {
    side->scoring = Scoring::none;
    side->logprobs_by = LogprobsBy::top_logprobs;
  }
  world.add(3);
  const auto summary = summary_of(world.run());
  CHECK(summary["unlisted_tokens"] == 1);
  CHECK(summary["with_logprobs"] == 3);
  CHECK(noted(summary, "1 greedy answers by a were left out"));
  CHECK(noted(summary, "1 greedy answers by b were left out"));
  const auto pairs = world.pairs();
  CHECK(pairs[0].unlisted_tokens);
  CHECK_FALSE(pairs[0].greedy.has_value());
  CHECK_FALSE(pairs[0].equal_tokens.has_value());
  CHECK(pairs[1].greedy == stages::GreedyAgreement{1, 1});
  CHECK(pairs[1].equal_tokens == 1U);
  CHECK_FALSE(pairs[1].unlisted_tokens);
}

TEST_CASE(
    "the filter of the scored tokens is what the requests say, and what the engine says where they are "
    "silent") {
  const auto filter_of = [](World& world) {
    (void)summary_of(world.run());
    return gpu::deserialise(world.job.get("table.bin").value())->inf.sampling_filter;
  };
  World silent;
  silent.add(1);
  CHECK(filter_of(silent).starts_with("unknown: "));
  const auto telling = [](const char* props) {
    return [=](const net::Request& request, const json&) -> std::optional<net::Response> {
      if (request.path != "/props") return std::nullopt;
      return ScriptedEngine::of(200, props);
    };
  };
  World neutral(
      {},
      telling(
          R"({"default_generation_settings":{"params":{"temperature":1,"top_p":1,"top_k":0,"min_p":0,"repeat_penalty":1}}})"));
  neutral.add(1);
  CHECK(filter_of(neutral) == "none");
  World llamacpp(
      {},
      telling(
          R"({"default_generation_settings":{"params":{"temperature":0.8,"top_p":0.95,"top_k":40,"min_p":0.05,"repeat_penalty":1}}})"));
  llamacpp.add(1);
  CHECK(filter_of(llamacpp).starts_with("filtered, "));
  World stated;
  auto pair = pair_of(1, "ask", {{"text", " yes"}});
  pair.request_body =
      R"({"prompt":"ask","temperature":1,"top_p":1,"top_k":0,"min_p":0,"repetition_penalty":1})";
  stated.add(pair);
  CHECK(filter_of(stated) == "none");
}
