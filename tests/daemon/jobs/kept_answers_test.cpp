#include "daemon/jobs/rescoring/kept_answers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/route/control/telemetry_json.hpp"
#include "tests/daemon/jobs/scripted_engine.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::ScriptedEngine;
using driftgate::jobs::testing::TempFolder;
using nlohmann::json;
using schema::ErrorCode;

namespace {

route::MirroredPair kept(std::uint64_t key, const std::string& prompt, const json& choice) {
  route::MirroredPair pair;
  pair.order = pair.key_hash = key;
  pair.slice = "language=de";
  pair.path = "/v1/completions";
  pair.request_body = json{{"prompt", prompt}, {"temperature", 1}, {"top_p", 1},
                           {"top_k", 0},       {"min_p", 0},       {"repetition_penalty", 1}}
                          .dump();
  pair.incumbent.status = 200;
  pair.incumbent.body = json{{"choices", json::array({choice})}}.dump();
  return pair;
}

/// Two engines on loopback, and a spool file.
struct World {
  TempFolder folder;
  ScriptedEngine reference, served;
  std::string text;
  std::vector<std::uint64_t> unwanted{};
  bool token_ids = false;

  explicit World(ScriptedEngine::Twist twist = {}) : reference(std::move(twist)) { served.logprob = -0.75; }

  void add(const route::MirroredPair& pair) { text += route::pair_to_line(pair) + "\n"; }
  schema::Result<NextAnswer> next(std::uint64_t offset = 0) {
    const auto path = folder.file("kept.jsonl", text);
    const KeptAnswers answers{.path = path, .offset = offset, .wants = [this](std::uint64_t key) {
                                return std::ranges::find(unwanted, key) == unwanted.end();
                              }};
    return rescore_next(answers, engine("train", reference), engine("inf", served), {});
  }
  RescoreEngine engine(const char* name, const ScriptedEngine& at) const {
    return {
        .name = name, .base_url = at.url(), .model = "m", .scoring = Scoring::echo, .token_ids = token_ids};
  }
};

}  // namespace

TEST_CASE("the next answer is scored by both engines, and only the tokens that it generated count") {
  World world;
  world.add(kept(7, "ask", {{"text", " yes"}}));
  const auto next = world.next();
  REQUIRE(next.has_value());
  REQUIRE(next->scored.has_value());
  CHECK(next->scored->key_hash == 7);
  CHECK(next->scored->slice == "language=de");
  CHECK(next->scored->unfiltered);
  CHECK(next->scored->scores.log_p == std::vector<double>(4, -0.5));
  CHECK(next->scored->scores.log_q == std::vector<double>(4, -0.75));
  CHECK(next->scored->scores.tokens == 7);
  CHECK(next->offset == world.text.size());
  CHECK(next->file_bytes == world.text.size());
  const auto end = world.next(next->offset);
  REQUIRE(end.has_value());
  CHECK_FALSE(end->scored.has_value());
  CHECK(end->offset == next->offset);
}

TEST_CASE("answers that cannot be scored, and those of keys that are not wanted, are passed over") {
  World world;
  world.text = "no json\n{}\n\n";
  auto failed = kept(1, "ask", {{"text", "a"}});
  failed.incumbent.status = 500;
  world.add(failed);
  auto chat = kept(2, "ask", {{"message", {{"content", "a"}}}});
  chat.path = "/v1/chat/completions";
  world.add(chat);
  world.add(kept(3, "ask", {{"text", ""}}));
  world.add(kept(4, "ask", {{"text", "unwanted"}}));
  world.add(kept(5, "ask", {{"text", "\xEF\xBF\xBD"}}));
  auto hot = kept(6, "ask", {{"text", "b"}});
  hot.request_body = R"({"prompt":"ask","temperature":0.5})";
  world.add(hot);
  world.unwanted = {4};
  const auto next = world.next();
  REQUIRE(next.has_value());
  REQUIRE(next->scored.has_value());
  CHECK(next->scored->key_hash == 6);
  CHECK_FALSE(next->scored->unfiltered);
  CHECK(next->passed_over == 8);
}

TEST_CASE("answers with token ids are scored by them, chats too") {
  World world;
  world.token_ids = true;
  auto chat =
      kept(2, "", {{"message", {{"content", "ab"}}}, {"prompt_token_ids", {1, 2, 3}}, {"token_ids", {4, 5}}});
  chat.path = "/v1/chat/completions";
  chat.request_body = R"({"messages":[{"role":"user","content":"ask"}]})";
  world.add(chat);
  const auto next = world.next();
  REQUIRE(next.has_value());
  REQUIRE(next->scored.has_value());
  CHECK(next->scored->scores.log_p.size() == 2);
  CHECK(next->scored->scores.tokens == 5);
}

TEST_CASE("a line that is still being written waits for its end") {
  World world;
  world.add(kept(1, "ask", {{"text", "a"}}));
  const std::string whole = world.text;
  world.text.resize(whole.size() - 1);
  const auto waiting = world.next();
  REQUIRE(waiting.has_value());
  CHECK_FALSE(waiting->scored.has_value());
  CHECK(waiting->offset == 0);
  world.text = whole;
  CHECK(world.next()->scored.has_value());
}

TEST_CASE("an engine that does not answer is told from an answer that cannot be scored") {
  World world([](const net::Request&, const json&) -> std::optional<net::Response> {
    return ScriptedEngine::of(503, "");
  });
  world.add(kept(1, "ask", {{"text", "a"}}));
  world.add(kept(2, "ask", {{"text", "b"}}));
  const auto next = world.next();
  REQUIRE(next.has_value());
  CHECK_FALSE(next->scored.has_value());
  REQUIRE(next->failed.has_value());
  CHECK(next->failed->code == ErrorCode::unavailable);
  CHECK(next->offset == 0);
  CHECK(next->after_failed == world.text.find('\n') + 1);

  World other([](const net::Request&, const json&) -> std::optional<net::Response> {
    return ScriptedEngine::of(200, "{}");
  });
  other.add(kept(1, "ask", {{"text", "a"}}));
  const auto passed = other.next();
  REQUIRE(passed.has_value());
  CHECK_FALSE(passed->failed.has_value());
  CHECK(passed->passed_over == 1);
}

TEST_CASE(
    "a file that is gone is an error, and one that is shorter than what was read is read from its "
    "beginning") {
  World world;
  const KeptAnswers gone{.path = (world.folder.path / "gone.jsonl").string(), .offset = 0, .wants = {}};
  const auto none =
      rescore_next(gone, world.engine("train", world.reference), world.engine("inf", world.served), {});
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == ErrorCode::not_found);
  world.add(kept(1, "ask", {{"text", "a"}}));
  CHECK(world.next(1'000'000)->scored.has_value());
}
