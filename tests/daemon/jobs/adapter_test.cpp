#include <nlohmann/json.hpp>

#include "daemon/jobs/program.hpp"
#include "daemon/jobs/worker.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using nlohmann::json;
using schema::ErrorCode;

namespace {

JobResult run_adapter(const TempFolder& folder, std::vector<std::string> argv, const JobLimits& limits = {}) {
  auto done = run_capture({"torch", std::move(argv)}, limits, JobFolder(folder.path));
  return done ? *done : failed(done.error());
}

JobResult run_script(const TempFolder& folder, const std::string& script, const JobLimits& limits = {}) {
  return run_adapter(folder, {"/bin/sh", "-c", script, "sh", "{out}"}, limits);
}

std::string said(const JobResult& result) {
  REQUIRE(result.error.has_value());
  return result.error->describe();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "{out} stands for the capture's path in every word, also within one and twice, and other braces stay") {
  const TempFolder folder;
  const std::string out = (folder.path / kCaptureFile).string();
  const auto result = run_adapter(folder, {"/bin/sh", "-c", "echo weights > \"$1\"", "sh", "{out}",
                                           "--to={out}:{out}", "{model}", "{out", ""});
  REQUIRE_MESSAGE(result.ok, said(result));
  const auto summary = json::parse(result.summary);
  CHECK(summary["argv"] == json({"/bin/sh", "-c", "echo weights > \"$1\"", "sh", out,
                                 "--to=" + out + ":" + out, "{model}", "{out", ""}));
  CHECK(summary["adapter"] == "torch");
  CHECK(summary["output_cut"] == false);
  CHECK(result.files.at("capture") == kCaptureFile);
  CHECK(result.digests.at("capture") == file_digest(out).value());
  CHECK(result.digests.at("adapter") == file_digest("/bin/sh").value());
}

TEST_CASE("an adapter runs in the job's folder, where its group is noted for who has to kill it") {
  const TempFolder folder;
  const auto result = run_script(folder, "pwd > where; cat > \"$1\"");  // its input has ended already
  REQUIRE_MESSAGE(result.ok, said(result));
  std::ifstream where(folder.path / "where");
  std::string path;
  CHECK(std::getline(where, path));
  CHECK(path == folder.path.string());
  CHECK(JobFolder(folder.path).number_in("group") > 1);
  CHECK(JobFolder(folder.path).progress()->text == "written");
}

TEST_CASE("how an adapter ended is told by its exit code or its signal, with the last words it said") {
  const TempFolder folder;
  const auto failed =
      run_script(folder, "echo early; head -c 5000 /dev/zero | tr '\\0' x; echo no device; exit 9");
  CHECK(failed.error->code == ErrorCode::unavailable);
  CHECK(has(said(failed), "adapter torch ended with exit code 9; its last output: "));
  CHECK(said(failed).ends_with("no device\n"));
  CHECK_FALSE(has(said(failed), "early"));
  CHECK(said(failed).size() < 600);
  CHECK(has(said(run_script(folder, "kill -SEGV $$")), "ended with signal 11"));
  CHECK_FALSE(std::filesystem::exists(folder.path / kCaptureFile));
}

TEST_CASE("an adapter that does not find a program is told what its environment is") {
  const TempFolder folder;
  const auto missing = run_script(folder, "capture-my-model --out \"$1\"");
  CHECK(has(said(missing), "ended with exit code 127 (a program or a library was not found: "));
  CHECK(has(said(missing), "capture-my-model: not found"));
  CHECK(has(said(missing), "PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8"));
  CHECK(has(said(missing), "absolute paths"));
  CHECK_FALSE(has(said(run_script(folder, "exit 9")), "PATH="));
}

TEST_CASE("an adapter that ends well without a capture, or with something else in its place, has failed") {
  const TempFolder folder;
  for (const char* script : {"true", "mkdir \"$1\""}) {
    CAPTURE(script);
    const auto result = run_script(folder, script);
    REQUIRE_FALSE(result.ok);
    CHECK(result.error->code == ErrorCode::not_found);
    CHECK(has(said(result), "adapter torch succeeded but did not write capture.safetensors"));
    CHECK(result.files.empty());
  }
}

TEST_CASE("what an adapter leaves where its capture should be is not waited for and not followed") {
  const TempFolder folder;
  const auto secret = folder.file("secret", "kept");
  for (const std::string& script : {std::string("mkfifo \"$1\""), "ln -s " + secret + " \"$1\""}) {
    CAPTURE(script);
    const auto result = run_script(folder, script);
    CHECK_FALSE(result.ok);
    CHECK(has(said(result), "did not write capture.safetensors"));
    std::filesystem::remove(folder.path / kCaptureFile);
  }
}

TEST_CASE("an adapter that cannot be started is an error that names it") {
  const TempFolder folder;
  const std::tuple<std::vector<std::string>, ErrorCode, const char*> starts[] = {
      {{}, ErrorCode::invalid_argument, "must be the absolute path of a program"},
      {{""}, ErrorCode::invalid_argument, "must be the absolute path of a program"},
      {{"sh"}, ErrorCode::invalid_argument, "must be the absolute path of a program"},
      {{"./sh"}, ErrorCode::invalid_argument, "must be the absolute path of a program"},
      {{"/nowhere/adapter"}, ErrorCode::not_found, "/nowhere/adapter is not an executable program"},
      {{folder.file("script", "#!/bin/sh\n")}, ErrorCode::not_found, "script is not an executable program"},
  };
  for (const auto& [argv, code, words] : starts) {
    CAPTURE(words);
    const auto result = run_adapter(folder, argv);
    CHECK(result.error->code == code);
    CHECK(has(said(result), words));
  }
  Program program{{"/bin/true"}, (folder.path / "none").string(), {}, {}};
  CHECK(run_program(program)->exit_code == 127);
}

TEST_CASE("the limits of an adapter hold: memory, processor time, output") {
  const TempFolder folder;
  JobLimits limits;
  limits.address_space_bytes = 64u << 20;
  const auto hungry =
      run_script(folder, "head -c 200000000 /dev/zero | tail -c 150000000 > \"$1\"; exit $?", limits);
  CHECK(has(said(hungry), "ended with"));
  limits = {};
  limits.cpu_seconds = 1;
  CHECK(has(said(run_script(folder, "while :; do :; done", limits)), "raise jobs.cpu_limit_s"));
  limits = {};
  limits.output_bytes = 0;
  const auto silent = run_script(folder, "echo words; echo x > \"$1\"", limits);
  REQUIRE(silent.ok);
  CHECK(json::parse(silent.summary)["output_cut"] == true);
  CHECK(has(said(run_script(folder, "echo words; exit 2", limits)), "its last output: "));
}

TEST_CASE("a core is not dumped and no descriptor of the worker is open in an adapter") {
  const TempFolder folder;
  const auto ended = run_program(
      {{"/bin/sh", "-c", "ulimit -c; ls /proc/self/fd | wc -l; env | sort"}, folder.path.string(), {}, {}});
  REQUIRE(ended);
  // Standard input, output and error, and what ls reads the folder by.
  CHECK(ended->output.starts_with("0\n4\nLANG=C.UTF-8\n"));
  CHECK(has(ended->output, "PATH=/usr/local/bin:/usr/bin:/bin\n"));
}

TEST_CASE("the digest of a file that is none is an error, never that of nothing") {
  const TempFolder folder;
  const auto gone = file_digest((folder.path / "none").string());
  REQUIRE_FALSE(gone);
  CHECK(gone.error().code == ErrorCode::not_found);
  CHECK(has(gone.error().message, "none"));
  const auto of_folder = file_digest(folder.path.string());
  REQUIRE_FALSE(of_folder);
  CHECK(of_folder.error().code == ErrorCode::io);
  CHECK(file_digest(folder.file("empty", "")).value() ==
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("what an adapter prints is in its log while it runs, as far as its limit goes") {
  const TempFolder folder;
  // It goes on only when its words are in the log.
  const auto result = run_script(
      folder, "echo hello; while ! grep -q hello log 2>/dev/null; do :; done; echo bye >&2; echo w > \"$1\"");
  REQUIRE_MESSAGE(result.ok, said(result));
  CHECK(JobFolder(folder.path).get("log").value() == "hello\nbye\n");
  const TempFolder other;
  REQUIRE(run_script(other, "echo 123456789; echo w > \"$1\"", {.output_bytes = 4}).ok);
  CHECK(JobFolder(other.path).get("log").value() == "1234");
}
