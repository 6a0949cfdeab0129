#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "examples/tinylm/src/capture.hpp"
#include "tests/examples/tinylm/server_process.hpp"

using namespace tinylm;
using nlohmann::json;
using tinylm_tests::run_tinylm;
using tinylm_tests::ServerProcess;
using tinylm_tests::shipped;

TEST_CASE("the server states its model, kernel and checkpoint") {
  const ServerProcess server({"--kernel", "int8"});
  CHECK(server.request("GET", "/health", "").status == 200);
  const json models = json::parse(server.request("GET", "/v1/models", "").body);
  CHECK(models["data"][0]["id"] == "tinylm");
  CHECK(models["data"][0]["kernel"] == "tinylm-int8");
  CHECK(models["data"][0]["checkpoint_digest"] == tinylm_tests::model().checkpoint_digest);
}

TEST_CASE("the same seed gives the same text, whole and streamed") {
  const ServerProcess server({"--kernel", "f32"});
  const json body = {{"prompt", "The option"}, {"max_tokens", 12}, {"seed", 4}};
  const json whole = json::parse(server.complete(body.dump()).body);
  CHECK(whole["choices"][0]["token_ids"].size() == 12);
  CHECK(whole["usage"]["completion_tokens"] == 12);
  CHECK(json::parse(server.complete(body.dump()).body)["choices"][0]["text"] == whole["choices"][0]["text"]);
  json streamed_body = body;
  streamed_body["stream"] = true;
  const auto streamed = server.complete(streamed_body.dump());
  CHECK(streamed.content_type == "text/event-stream");
  CHECK(streamed.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  for (std::size_t at = streamed.body.find("data: {"); at != std::string::npos;
       at = streamed.body.find("data: {", at + 1))
    text +=
        json::parse(streamed.body.substr(at + 6, streamed.body.find('\n', at) - at - 6))["choices"][0]["text"]
            .get<std::string>();
  CHECK(text == whole["choices"][0]["text"]);
}

TEST_CASE("rescoring by echo gives the log-probabilities of K_train's capture") {
  const ServerProcess server({"--kernel", "f32"});
  const Corpus corpus = read_corpus(shipped("data/numeric.jsonl"), 512).value();
  TensorFile train = read_safetensors(shipped("data/captures/numeric_train.safetensors")).value();
  const auto& ids = train.tensors["sequence_ids"].integers;
  for (std::size_t row = 0; row < ids.size() && ids[row] < 12; row += 5) {
    const Sequence& sequence = corpus.sequences[static_cast<std::size_t>(ids[row])];
    const json body = {{"prompt", sequence.tokens}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}};
    const json choice = json::parse(server.complete(body.dump()).body)["choices"][0];
    CHECK(choice["token_ids"] == sequence.tokens);
    const json logprobs = choice["logprobs"]["token_logprobs"];
    CHECK(logprobs[0].is_null());
    const auto next = static_cast<std::size_t>(train.tensors["positions"].integers[row]) + 1;
    // The capture stores float32; both programs sum in float32 (see the capture test).
    CHECK(logprobs[next].get<double>() ==
          doctest::Approx(train.tensors["logprobs"].floats[row]).epsilon(1e-4));
  }
}

TEST_CASE("rescoring the tokens that were generated gives their own log-probabilities") {
  const ServerProcess server({"--kernel", "f32"});
  const json body = {{"prompt", "Für die"}, {"max_tokens", 16}, {"seed", 11}, {"logprobs", 3}};
  const json first = json::parse(server.complete(body.dump()).body)["choices"][0];
  json tokens = first["prompt_token_ids"];
  for (const json& token : first["token_ids"]) tokens.push_back(token);
  const json rescored = json::parse(
      server.complete(json{{"prompt", tokens}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 3}}.dump())
          .body)["choices"][0];
  const std::size_t start = first["prompt_token_ids"].size();
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(rescored["logprobs"]["token_logprobs"][start + i].get<double>() ==
          doctest::Approx(first["logprobs"]["token_logprobs"][i].get<double>()).epsilon(1e-3));
}

TEST_CASE("a stop string ends the text before itself") {
  const ServerProcess server({"--kernel", "f32"});
  const json body = {{"prompt", "The option"}, {"max_tokens", 100}, {"seed", 2}, {"stop", " "}};
  const json choice = json::parse(server.complete(body.dump()).body)["choices"][0];
  CHECK(choice["finish_reason"] == "stop");
  CHECK(choice["text"].get<std::string>().find(' ') == std::string::npos);
  CHECK(choice["text"].get<std::string>().size() == choice["token_ids"].size());
}

TEST_CASE("forty clients at once are all served") {
  const ServerProcess server({"--kernel", "bf16", "--threads", "2"});
  std::vector<int> statuses(40);
  std::vector<std::jthread> clients;
  for (std::size_t i = 0; i < statuses.size(); ++i)
    clients.emplace_back([&, i] {
      const json body = {
          {"prompt", "Client " + std::to_string(i)}, {"max_tokens", 20}, {"stream", i % 2 == 0}};
      statuses[i] = server.complete(body.dump()).status;
    });
  clients.clear();
  for (const int status : statuses) CHECK(status == 200);
}

TEST_CASE("failures begin only after the stated number of generating requests, and rescoring stays clean") {
  const ServerProcess server({"--kernel", "f32", "--fail-share", "1", "--fail-after-requests", "3"});
  const std::string generate = R"({"prompt":"a","max_tokens":1})";
  for (int i = 0; i < 3; ++i) CHECK(server.complete(generate).status == 200);
  for (int i = 0; i < 3; ++i) {
    const auto failed = server.complete(generate);
    CHECK(failed.status == 500);
    CHECK(json::parse(failed.body)["error"]["code"] == "injected_failure");
  }
  CHECK(server.complete(R"({"prompt":"a","max_tokens":0,"echo":true,"logprobs":0})").status == 200);
}

TEST_CASE("a garbage share of one answers no valid JSON") {
  const ServerProcess server({"--kernel", "f32", "--garbage-share", "1"});
  const auto answer = server.complete(R"({"prompt":"a","max_tokens":1})");
  CHECK(answer.status == 200);
  CHECK_FALSE(json::accept(answer.body));
}

TEST_CASE("SIGTERM ends the server with success while a client is connected") {
  ServerProcess server({"--kernel", "f32"});
  const Socket idle = server.connect();
  CHECK(server.request("GET", "/health", "").status == 200);
  CHECK(server.terminate() == 0);
}

TEST_CASE("load ends by itself and is refused for other machines") {
  const ServerProcess server({"--kernel", "f32"});
  const tinylm_tests::TemporaryFolder folder;
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  CHECK(run_tinylm({"load", "--url", url, "--prompts", shipped("data/prompts.jsonl"), "--rate", "200",
                    "--requests", "60", "--json", folder.file("report")}) == 0);
  std::ifstream file(folder.file("report"));
  const json report = json::parse(file);
  CHECK(report["ok"] == 60);
  CHECK(report["by_status"]["200"] == 60);
  CHECK(run_tinylm({"load", "--url", "http://192.0.2.1:80", "--prompts", shipped("data/prompts.jsonl"),
                    "--requests", "1"}) == 4);
}
