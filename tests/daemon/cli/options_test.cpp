#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/cli/command_line.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;
using cli::test::ScriptedDaemon;

namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("options that contradict each other are a usage error that names them, and nothing is sent") {
  const std::string request = file_with(R"({"model":"m"})");
  const std::pair<Words, const char*> commands[] = {
      {{"promote", "m", "--request", request}, "--request"},
      {{"promote", "--engine", "e", "--request", request}, "--request"},
      {{"promote", "--contract", "c", "--request", request}, "--request"},
      {{"promote", "--note", "n", "--request", request}, "--request"},
      {{"promote", "--fallback-engine", "f", "--request", request}, "--request"},
      {{"promote", "--slice-corpus", "c", "--request", request}, "--request"},
      {{"promote", "m", "--engine", "e", "--contract", "c", "--dry-run", "--wait"}, "--wait"},
      {{"promote", "m", "--contract", "c"}, "--engine"},
      {{"promote", "--no-recipe", "--request", request}, "--request"},
      {{"promote", "m", "--engine", "e", "--contract", "c", "--numeric-train", "a", "--numeric-inf", "b",
        "--numeric-adapter", "x"},
       "one of --numeric-inf and --numeric-adapter"},
      {{"promote", "m", "--engine", "e", "--contract", "c", "--numeric-floor-inf", "b",
        "--numeric-floor-inf-adapter", "x"},
       "--numeric-floor-inf"},
      {{"engine", "register", "e", "--engine-url", "http://a", "--kernel", "k", "--checkpoint", "/w",
        "--checkpoint-digest", "sha256:d"},
       "--checkpoint"},
      {{"engine", "register", "e", "--engine-url", "http://a", "--kernel", "k", "--engine-key-header",
        "X-Key"},
       "--engine-key-file"},
      {{"schedule", "create", "s", "--cron", "* * * * *", "--request", request, "--misfire", "later"},
       "--misfire"},
      {{"schedule", "create", "s", "--cron", "* * * * *", "--request", request, "--if-running", "kill"},
       "--if-running"},
      {{"schedule", "next", "s", "--count", "0"}, "--count"},
      {{"schedule", "next", "s", "--count", "101"}, "--count"},
      {{"audit", "sample", "--seed", "s", "--count", "1001"}, "--count"},
      {{"audit", "query", "--limit", "0"}, "--limit"},
      {{"audit", "query", "--limit", "x"}, "--limit"},
      {{"evidence", "--limit", "1000001"}, "--limit"},
      {{"evidence", "4", "--promotion", "pr-1"}, "--promotion"},
      {{"evidence", "4", "--newest"}, "--newest"},
      {{"token", "issue", "--name", "a", "--scope", "viewer", "--expires-in", "-1"}, "--expires-in"},
      {{"token", "issue", "--name", "a", "--scope", "viewer", "--expires-in", "0"}, "--expires-in"},
      {{"engine", "register", "e", "--engine-url", "http://a", "--kernel", "k", "--max-requests-per-second",
        "-1"},
       "--max-requests-per-second"},
      {{"audit", "sample", "--seed", "s", "--size", "-1"}, "--size"},
      {{"schedule", "create", "s", "--cron", "* * * * *", "--request", request, "--grace", "-1"}, "--grace"},
  };
  for (const auto& [words, named] : commands) {
    CAPTURE(words[0]);
    CAPTURE(named);
    ScriptedDaemon daemon;
    const Ran ran = daemon.run(words);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 64);
    CHECK(ran.err.starts_with("driftgate: "));
    CHECK(has(ran.err, named));
    CHECK(ran.out.empty());
    CHECK(daemon.requests().empty());
  }
}

TEST_CASE("what a command without a daemon cannot make sense of is exit 64") {
  const std::string capture = "tests/vectors/tiny_f32.safetensors";
  const Words commands[] = {
      {"drift"},
      {"drift", capture},
      {"drift", "--train", capture},
      {"drift", capture, capture, "--train", capture},
      {"drift", capture, capture, "--inf", capture},
      {"drift", capture, capture, "third"},
      {"drift", capture, capture, "--metrics", "some"},
      {"drift", capture, capture, "--threads", "-1"},
      {"drift", capture, capture, "--top-k", "many"},
      {"drift", capture, capture, "--certificate", "-"},
      {"drift", capture, capture, "--rows-out", "-"},
      {"contract", "lint"},
      {"contract", "explain"},
      {"contract", "explain", "a", "b"},
      {"contract", "diff", "a"},
      {"contract", "suggest", "--train", capture},
      {"contract", "test", "c.yaml", "--train", capture},
      {"capture", "import", "a.json", "--format", "nonsense", "--out", "o"},
      {"capture", "import", "a.json"},
      {"capture", "import", "--format", "vllm", "--out", "o"},
      {"capture", "import", "a.json", "--format", "vllm", "--out", "o", "--vocabulary", "0"},
      {"capture", "import", "a.json", "--format", "llamacpp-logits", "--out", "o", "--top-k", "0"},
      {"capture", "import", "a.json", "--format", "vllm", "--out", "o", "--first-sequence", "-1"},
      {"key", "generate", "--use", "head"},
      {"key", "rotate", "--use", "head"},
      {"restore"},
      {"token", "recover", "--name", "ada"},
      {"router"},
      {"worker"},
      {"contract"},
      {"audit"},
  };
  for (const Words& words : commands) {
    CAPTURE(words.size() > 1 ? words[0] + " " + words[1] : words[0]);
    const Ran ran = run_captured(words);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 64);
    CHECK(ran.out.empty());
  }
}

TEST_CASE("commands on a data folder get what was asked of them, and their exit code is the program's") {
  cli::OfflineArgs seen;
  cli::ServeArgs served;
  int code = 0;
  cli::Hooks hooks;
  const auto keep = [&](const cli::OfflineArgs& args) {
    seen = args;
    return code;
  };
  hooks.restore = hooks.key = hooks.verify_folder = hooks.recover = keep;
  hooks.serve = [&](const cli::ServeArgs& args) {
    served = args;
    return 7;
  };
  hooks.settings = [](bool markdown) { return markdown ? 21 : 20; };
  hooks.openapi = [] { return 22; };
  const auto run = [&](const Words& words) {
    std::vector<const char*> argv{"driftgate"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    seen = {};
    return cli::run(static_cast<int>(argv.size()), argv.data(), hooks);
  };
  CHECK(run({"serve", "--config", "c", "--listen", ":1", "--data-dir", "d"}) == 7);
  CHECK((served.config == "c" && served.listen == ":1" && served.data_dir == "d"));
  CHECK(run({"settings"}) == 20);
  CHECK(run({"settings", "--markdown"}) == 21);
  CHECK(run({"openapi"}) == 22);
  code = 4;
  CHECK(run({"restore", "b", "--data-dir", "d", "--accept-loss", "--reason", "r"}) == 4);
  CHECK((seen.backup == "b" && seen.data_dir == "d" && seen.accept_loss && seen.reason == "r" && !seen.json));
  for (const char* action : {"list", "trust"}) {
    CHECK(run({"key", action, "--json"}) == 4);
    CHECK((seen.action == action && seen.json));
  }
  CHECK(run({"key", "generate", "--use", "webhook", "--out", "o"}) == 4);
  CHECK((seen.action == "generate" && seen.use == "webhook" && seen.out == "o"));
  CHECK(run({"key", "rotate", "--use", "head", "--reason", "r"}) == 4);
  CHECK((seen.action == "rotate" && seen.reason == "r"));
  CHECK(run({"token", "recover", "--name", "ada", "--reason", "r"}) == 4);
  CHECK((seen.name == "ada" && seen.out.empty()));
  CHECK(run({"audit", "verify", "--data-dir", "d", "--trust", "t", "--older-head", "h", "--json"}) == 4);
  CHECK((seen.data_dir == "d" && seen.trust == "t" && seen.older_head == "h" && seen.json));
  CHECK(run({"audit", "verify", "--config", "c"}) == 4);
  CHECK((seen.config == "c" && seen.trust.empty()));
}

TEST_CASE("the help of each command names its options and ends with 0") {
  for (const Words& words : {Words{"drift"},
                             {"promote"},
                             {"audit", "verify"},
                             {"capture", "import"},
                             {"capture", "digest"},
                             {"token", "issue"},
                             {"contract", "test"},
                             {"schedule", "create"}}) {
    auto asked = words;
    asked.push_back("--help");
    const Ran ran = run_captured(asked);
    CHECK(ran.exit_code == 0);
    CHECK(ran.err.empty());
    CHECK(has(ran.out, "Usage: driftgate " + words[0]));
    CHECK(has(ran.out, "--"));
  }
  CHECK(has(run_captured({"audit", "verify", "--help"}).out, "1 tampered, 2 fork or rollback"));
}
