#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/jobs/slurm/batch_script.hpp"
#include "daemon/jobs/slurm/command.hpp"
#include "daemon/jobs/slurm/slurm_commands.hpp"
#include "daemon/jobs/slurm/submissions.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using schema::ErrorCode;

namespace {

std::string line(const std::vector<std::string>& fields) {
  std::string text;
  for (const auto& field : fields) text += field + '\x1f';
  return text + '\n';
}

JobSpec drift_job(const std::string& key, std::uint32_t ranks) {
  JobSpec spec{key, JobKind::drift, {}, "{}"};
  spec.ranks = ranks;
  spec.limits.wall_ms = 3'600'000;
  return spec;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

TEST_CASE("squeue's lines are read, and all others are left out") {
  const auto jobs = queue_from_text(
      line({"7", "RUNNING", "None", "n[1-2]", "1", "0", "1-00:00:05", "2:00", "driftgate/p/s/1/drift",
            "/j/a b"}) +
      "slurm_load_jobs error\n" + line({"7x", "RUNNING", "", "", "0", "0", "", "", "", ""}) +
      line({"8", "FAILED", "NonZeroExitCode", "n1", "0", "19200", "0:03", "UNLIMITED", "", "/j"}) +
      line({"9", "FAILED"}) + line({"10", "FAILED", "None", "", "-1", "9", "x", "", "", "/"}));
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].id == "7");
  CHECK(jobs[0].reason.empty());
  CHECK(jobs[0].nodes == "n[1-2]");
  CHECK(jobs[0].restarts == 1);
  CHECK(jobs[0].used_s == 86'405);
  CHECK(jobs[0].limit_s == 120);
  CHECK(jobs[0].comment == "driftgate/p/s/1/drift");
  CHECK(jobs[0].folder == "/j/a b");
  CHECK(jobs[1].exit_code == 75);
  CHECK(jobs[1].limit_s == 0);
  CHECK(jobs[2].signal == 9);
  CHECK(jobs[2].restarts == 0);
}

TEST_CASE("durations of Slurm") {
  CHECK(duration_from_text("04") == 4);
  CHECK(duration_from_text("3:04") == 184);
  CHECK(duration_from_text("1-02:03:04") == 93'784);
  for (const auto* none : {"", "UNLIMITED", "INVALID", "1:", ":", "9999999999", "1-2-3",
                           "9223372036854775807-0", "999999999:999999999:999999999"})
    CHECK_MESSAGE(duration_from_text(none) == 0, none);
}

TEST_CASE("sacct's line says by whom a job was cancelled") {
  const auto job = accounted_from_text("12|CANCELLED by 1000|0:15|n3\n13|COMPLETED|0:0|n1\n");
  REQUIRE(job);
  CHECK(job->state == "CANCELLED by 1000");
  CHECK(job->signal == 15);
  CHECK(job->nodes == "n3");
  const auto more = accounted_from_text("12|FAILED|143:0|n3|3550|60|/jobs/a|b\n");
  REQUIRE(more);
  CHECK(more->used_s == 3'550);
  CHECK(more->limit_s == 3'600);
  CHECK(more->folder == "/jobs/a|b");
  CHECK_FALSE(accounted_from_text(""));
  CHECK_FALSE(accounted_from_text("12.batch|FAILED|1:0|n1"));
  CHECK_FALSE(accounted_from_text("12|FAILED"));
}

TEST_CASE("the shipped template runs the worker, under srun where there are ranks") {
  CHECK(check_template(shipped_template()));
  const auto one =
      batch_script(shipped_template(), drift_job("p/s/1/drift", 1), "/j/x", "/opt/driftgate", {});
  CHECK(one.ends_with("\nexec '/opt/driftgate' worker '/j/x'\n"));
  const SlurmResources resources{.gres = "gpu:h100:1", .cpus_per_rank = 4};
  const auto four =
      batch_script(shipped_template(), drift_job("p/s/1/drift", 4), "/j/x", "/opt/driftgate", resources);
  CHECK(
      four.ends_with("\nexec srun --mpi=pmix --export=ALL --kill-on-bad-exit=1 --ntasks=4 --cpus-per-task=4 "
                     "--gpus-per-task=h100:1 '/opt/driftgate' worker '/j/x'\n"));
}

TEST_CASE("no name in a job can say anything to the shell that runs its script") {
  const TempFolder folder;
  const auto marker = (folder.path / "marker").string();
  const std::string nasty =
      "/j/'; touch " + marker + "; echo \"$(touch " + marker + ")`touch " + marker + "` \\";
  const auto worker = folder.file("it's a \"worker\" $HOME", "#!/bin/sh\nprintf '%s|' \"$@\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto script = folder.file(
      "batch.sh",
      batch_script("#!/bin/sh\necho @name@ @key@ someone@example.org \"$@\" @ranks@\nexec @command@\n",
                   drift_job("p/s/1/" + nasty, 1), nasty, worker, {}));
  const auto ended = run_command({.argv = {"/bin/sh", script, "word"}, .environment = {}});
  REQUIRE(ended);
  CHECK(ended->exit_code == 0);
  CHECK(ended->out.find("someone@example.org word 1\n") != std::string::npos);
  CHECK(ended->out.ends_with("worker|" + nasty + "|"));
  CHECK_FALSE(std::filesystem::exists(marker));
}

TEST_CASE("a template that cannot run a job is refused with the reason") {
  const auto refused = [](const std::string& text) {
    const auto checked = check_template(text);
    return checked ? std::string("accepted") : checked.error().message;
  };
  CHECK(refused("exec @command@\n").find("#!/bin/sh") != std::string::npos);
  CHECK(refused("#!/bin/sh\nmodule load x\n").find("never runs the job") != std::string::npos);
  CHECK(refused("#!/bin/sh\n@worker@ worker\n").find("never runs the job") != std::string::npos);
  CHECK(refused("#!/bin/sh\nexec @comand@\n").find("no variable @comand@; there are command,") !=
        std::string::npos);
  CHECK(refused("#!/bin/sh\n#SBATCH --mail-user=a@b\nexec @launch@ @worker@ worker @job_dir@\n") ==
        "accepted");
}

TEST_CASE("sbatch's words say who the job is and what it needs") {
  const SlurmResources resources{.partition = "gpu",
                                 .account = "team",
                                 .qos = "night",
                                 .constraint = "h100&ib",
                                 .gres = "gpu:2",
                                 .nodes = 2,
                                 .cpus_per_rank = 3,
                                 .memory_bytes_per_rank = std::uint64_t{4} << 30,
                                 .time_limit_s = 61};
  const auto words = sbatch_words(drift_job("pr-1/offline/2/drift", 4), "/j/%a", resources);
  for (const auto* word :
       {"--parsable", "--export=NONE", "--requeue", "--open-mode=append", "--job-name=driftgate-drift",
        "--comment=driftgate/pr-1/offline/2/drift", "--chdir=/j/%a", "--output=slurm-%j.out", "--ntasks=4",
        "--nodes=2", "--cpus-per-task=3", "--gpus-per-task=2", "--mem-per-cpu=1366M", "--time=2",
        "--signal=TERM@12", "--partition=gpu", "--account=team", "--qos=night", "--constraint=h100&ib"})
    CHECK_MESSAGE(has(words, word), word);
  CHECK(words.back() == "/j/%a/batch.sh");
  auto rescore = drift_job("p/s/1/rescore", 1);
  rescore.kind = JobKind::rescore;
  const auto plain = sbatch_words(rescore, "/j", {.gres = "gpu:2", .nodes = 2});
  CHECK(has(plain, "--nodes=1"));
  CHECK(has(plain, "--time=61"));  // the job's own limit comes first
  CHECK(std::ranges::none_of(plain, [](const auto& word) { return word.starts_with("--signal"); }));
  CHECK(has(sbatch_words(drift_job("p/s/1/drift", 1), "/j", {}), "--signal=B:TERM@60"));
  CHECK_FALSE(has(plain, "--gpus-per-task=2"));
}

TEST_CASE("settings that sbatch would take for something else are refused") {
  CHECK(check_resources({}));
  CHECK(check_resources({.partition = "a,b", .constraint = "[rack1*2&rack2]", .gres = "gpu:a100:8"}));
  CHECK_FALSE(check_resources({.partition = "a b"}));
  CHECK_FALSE(check_resources({.account = "a\n#SBATCH --uid=0"}));
  CHECK_FALSE(check_resources({.constraint = "a;b"}));
  for (const auto* gres : {"gpu", "gpu:", "gpu:0", "gpu:a:b", "shard:1", "gpu::1", "gpu:x y:1", "gpu:1000"})
    CHECK_MESSAGE(!check_resources({.gres = gres}), gres);
}

TEST_CASE("the record of submissions reads back as it was written") {
  SubmissionRecord record;
  record.submissions.push_back({"12", 5, "NODE_FAIL", "NodeDown", "n1", 2, 75, 9, 3'500, 3'600, false});
  record.submissions.push_back({"13", 6, "PENDING", "Priority", "", 0, 0, 0, 0, 0, false});
  record.submissions.push_back({"14", 7, "CANCELLED", "", "n2", 0, 0, 0, 0, 0, true});
  record.measured_bytes = 77;
  record.stalled = 1;
  record.cancelled = true;
  record.ended = schema::Error{ErrorCode::unavailable, "gone", {}, nullptr};
  const auto again = submission_record_from_json(to_json(record));
  REQUIRE(again);
  CHECK(*again == record);
  const auto place = place_of(*again);
  CHECK(place.remote == "13");
  CHECK(place.reason == "NODE_FAIL, submitted again as 13; Priority");
  CHECK(place.submissions == std::vector<std::string>{"12", "13", "14"});
  for (const auto* damaged : {"", "[]", "{}", R"({"submissions":7})", R"({"submissions":[{"id":"--me"}]})",
                              R"({"submissions":[{}]})"})
    CHECK_FALSE(submission_record_from_json(damaged));
}

TEST_CASE("a command ends at its limit, at the order to stop, and when it says too much") {
  const auto slow = run_command(
      {.argv = {"/bin/sleep", "1000"}, .environment = {}, .limit = std::chrono::milliseconds(50)});
  REQUIRE_FALSE(slow);
  CHECK(slow.error().code == ErrorCode::deadline_exceeded);
  const auto loud = run_command({.argv = {"/bin/sh", "-c", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaa; done"},
                                 .environment = {},
                                 .output_bytes = 10'000});
  REQUIRE_FALSE(loud);
  CHECK(loud.error().code == ErrorCode::limit_exceeded);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "x", 1) == 1);
  const auto stopped = run_command({.argv = {"/bin/sleep", "1000"}, .environment = {}, .stop_fd = ends[0]});
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == ErrorCode::unavailable);
  ::close(ends[0]);
  ::close(ends[1]);
  const auto missing = run_command({.argv = {"/nowhere/sbatch"}, .environment = {}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  const auto both =
      run_command({.argv = {"/bin/sh", "-c", "echo $A; echo err >&2; exit 3"}, .environment = {"A=b"}});
  REQUIRE(both);
  CHECK(both->exit_code == 3);
  CHECK(both->out == "b\n");
  CHECK(both->err == "err\n");
}
