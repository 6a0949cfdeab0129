#include "daemon/jobs/slurm/slurm_runner.hpp"

#include "tests/daemon/jobs/slurm/slurm_daemon.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using namespace driftgate::jobs::testing;
using schema::ErrorCode;

TEST_CASE("a job goes to Slurm, its place is known, and its result is told") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  CHECK(slurm.get(1, "comment") == std::string("driftgate/") + kDriftKey);
  CHECK(slurm.get(1, "folder") == daemon.runner->folder(kDriftKey));
  slurm.set(1, "reason", "Priority");
  FakeSlurm::eventually([&] { return daemon.reason() == "Priority"; });
  slurm.set(1, "nodes", "n3");
  slurm.set(1, "state", "RUNNING");
  FakeSlurm::eventually([&] { return daemon.state() == "running"; });
  CHECK(daemon.runner->place(kDriftKey)->nodes == "n3");
  CHECK(daemon.runner->running() == 1);
  daemon.put_result();
  const auto done = daemon.wait();
  CHECK(done.result.ok);
  REQUIRE(done.place);
  CHECK(done.place->runner == "slurm");
  CHECK(done.place->remote == "1");
  CHECK(done.place->nodes == "n3");
  CHECK(done.place->submissions == std::vector<std::string>{"1"});
  CHECK(slurm.submitted() == 1);
  CHECK(daemon.runner->place(kDriftKey)->state == "ended");
}

TEST_CASE("a daemon that died between sbatch and its record finds the job again") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.say("hang", "");
  {
    Daemon first(slurm, folder);
    first.start();
    FakeSlurm::eventually([&] { return slurm.has(1); });
    CHECK_FALSE(std::filesystem::exists(first.folder().file(kSubmissionsFile)));
  }
  slurm.unsay("hang");
  Daemon second(slurm, folder);
  second.start();
  FakeSlurm::eventually([&] { return second.state() == "queued"; });
  slurm.let_look();
  CHECK(slurm.submitted() == 1);
  CHECK(record_of(second).submissions.front().id == "1");
  second.put_result();
  CHECK(second.wait().result.ok);
}

TEST_CASE("an answer of sbatch that was lost does not double the job") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.say("lost_answer",
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation");
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.let_look();
  CHECK(slurm.submitted() == 1);
}

TEST_CASE("a restarted daemon takes over what is recorded, and tells an old result or error again") {
  const FakeSlurm slurm;
  const TempFolder folder;
  for (const bool damaged : {false, true}) {
    const std::string key = damaged ? "pr-2/offline/1/drift" : kDriftKey;
    {
      Daemon first(slurm, folder);
      first.start(key);
      FakeSlurm::eventually([&] { return first.state(key) == "queued"; });
      if (damaged) REQUIRE(first.folder(key).put(kSubmissionsFile, "{\"subm").has_value());
    }
    Daemon second(slurm, folder);
    second.start(key);
    FakeSlurm::eventually([&] { return second.state(key) == "queued"; });
    second.put_result(key);
    CHECK(second.wait(key).result.ok);
  }
  CHECK(slurm.submitted() == 2);
  Daemon third(slurm, folder);
  third.start();
  CHECK(third.wait().result.ok);
  third.start("pr-3/offline/1/drift");
  FakeSlurm::eventually([&] { return slurm.has(3); });
  slurm.set(3, "state", "OUT_OF_MEMORY");
  check_error(third.wait("pr-3/offline/1/drift"), ErrorCode::limit_exceeded, "ran out of memory");
  Daemon fourth(slurm, folder);
  fourth.start("pr-3/offline/1/drift");
  check_error(fourth.wait("pr-3/offline/1/drift"), ErrorCode::limit_exceeded, "ran out of memory");
  CHECK(slurm.submitted() == 3);
}

TEST_CASE("a controller that is away is waited for, and results come without it") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.say("away", kAwayText);
  Daemon daemon(slurm, folder);
  daemon.start();
  daemon.start("pr-2/offline/1/drift");
  FakeSlurm::eventually([&] { return daemon.reason().find("Unable to contact") != std::string::npos; });
  CHECK(daemon.state() == "waiting");
  CHECK(slurm.submitted() == 0);
  slurm.unsay("away");
  FakeSlurm::eventually([&] { return daemon.state("pr-2/offline/1/drift") == "queued"; });
  slurm.say("away", kAwayText);
  FakeSlurm::eventually([&] { return daemon.reason().find("Unable to contact") != std::string::npos; });
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
  CHECK(daemon.results.size() == 1);
}

TEST_CASE("a controller that stays away ends what waits for it, not what runs") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder,
                [](SlurmRunnerOptions& options) { options.away = std::chrono::milliseconds(1); });
  const std::string other = "pr-2/offline/1/drift";
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  auto lock = daemon.folder().lock();
  REQUIRE(lock.has_value());
  slurm.say("away", kAwayText);
  daemon.start(other);
  check_error(daemon.wait(other), ErrorCode::unavailable, "slurm.away_s");
  CHECK(daemon.results.size() == 1);
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
}

TEST_CASE("a job that is cancelled while it queues ends as a conflict and leaves Slurm") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  daemon.runner->cancel(kDriftKey);
  check_error(daemon.wait(), ErrorCode::conflict, "cancelled");
  CHECK(slurm.get(1, "state") == "CANCELLED");
}

TEST_CASE("a job that is cancelled while the controller is away is cancelled there when it is back") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.say("away", kAwayText);
  daemon.runner->cancel(kDriftKey);
  check_error(daemon.wait(), ErrorCode::conflict, "cancelled");
  CHECK(slurm.get(1, "state") == "PENDING");
  slurm.unsay("away");
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
}

TEST_CASE("jobs that somebody else cancels say by whom where accounting tells") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.set(1, "state", "CANCELLED");
  check_error(daemon.wait(), ErrorCode::unavailable, "job 1 was cancelled, not by driftgate");
  slurm.unsay("no_accounting");
  Daemon other(slurm, folder);
  other.start("pr-2/offline/1/drift");
  FakeSlurm::eventually([&] { return slurm.has(2); });
  slurm.set(2, "accounted", "CANCELLED by 1000|0:0|n1");
  slurm.set(2, "state", "CANCELLED");
  check_error(other.wait("pr-2/offline/1/drift"), ErrorCode::unavailable, "cancelled by uid 1000");
}

TEST_CASE("a job that Slurm has forgotten is judged by accounting, else it is an error") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.unsay("no_accounting");
  Daemon daemon(slurm, folder);
  daemon.start();
  daemon.start("pr-2/offline/1/drift");
  FakeSlurm::eventually([&] { return daemon.state("pr-2/offline/1/drift") == "queued"; });
  auto lock = daemon.folder("pr-2/offline/1/drift").lock();
  REQUIRE(lock.has_value());
  slurm.set(1, "accounted", "OUT_OF_MEMORY|0:125|n1");
  slurm.set(1, "forgotten", "");
  slurm.set(2, "forgotten", "");
  check_error(daemon.wait(), ErrorCode::limit_exceeded, "memory");
  slurm.let_look();
  CHECK(daemon.results.size() == 1);  // the other one's worker lives
  *lock = base::UniqueFd();
  check_error(daemon.wait("pr-2/offline/1/drift"), ErrorCode::unavailable, "Slurm knows the job 2 no more");
}

TEST_CASE("lost nodes are made good by submitting again, as often as the settings say") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  for (int id = 1; id <= 3; ++id) {
    FakeSlurm::eventually(
        [&] { return slurm.has(id) && daemon.runner->place(kDriftKey)->remote == std::to_string(id); });
    if (id == 2) CHECK(daemon.reason() == "NODE_FAIL, submitted again as 2");
    slurm.set(id, "state", "NODE_FAIL");
  }
  const auto done = daemon.wait();
  check_error(done, ErrorCode::unavailable, "the 3. time in a row");
  CHECK(slurm.submitted() == 3);
  CHECK(done.place->submissions == std::vector<std::string>{"1", "2", "3"});
}

TEST_CASE("a time limit is followed by another submission while chunks are added") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  for (int id = 1; id <= 4; ++id) {
    FakeSlurm::eventually(
        [&] { return slurm.has(id) && daemon.runner->place(kDriftKey)->remote == std::to_string(id); });
    const auto chunk = daemon.folder().path() / "chunks" / std::to_string(id);
    std::filesystem::create_directories(chunk.parent_path());
    if (id < 4) std::ofstream(chunk) << "measured";
    slurm.set(id, "state", "TIMEOUT");
  }
  check_error(daemon.wait(), ErrorCode::deadline_exceeded, "slurm.time_limit_s");
  CHECK(slurm.submitted() == 4);
}

TEST_CASE("Slurm's own requeues of a job that gets no further are counted too") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.set(1, "restarts", "2");
  slurm.let_look();
  CHECK(daemon.results.empty());
  slurm.set(1, "restarts", "3");
  check_error(daemon.wait(), ErrorCode::unavailable, "slurm.resubmissions");
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
}

TEST_CASE("a failed job quotes its worker, nothing else that was printed, and a refused one Slurm's words") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  std::ofstream(daemon.folder().file("slurm-1.out")) << "+ export API_KEY=sesame\nAPI_KEY=sesame\n"
                                                      "driftgate worker: the corpus is none\n"
                                                      "srun: error: n1: task 0: Exited with exit code 127\n";
  slurm.set(1, "exit", "32512");
  slurm.set(1, "state", "FAILED");
  const auto done = daemon.wait();
  check_error(done, ErrorCode::internal, "exit status 127");
  check_error(done, ErrorCode::internal,
              "its last words: driftgate worker: the corpus is none\nsrun: error: n1: task 0: Exited");
  CHECK(done.result.error->message.find("sesame") == std::string::npos);
  slurm.say("refuse", "sbatch: error: Batch job submission failed: Invalid partition name specified");
  daemon.start("pr-2/offline/1/drift");
  check_error(daemon.wait("pr-2/offline/1/drift"), ErrorCode::invalid_argument, "Invalid partition name");
}

TEST_CASE("no more jobs are at Slurm at once than the settings and Slurm allow") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder, [](SlurmRunnerOptions& options) { options.queue_limit = 2; });
  const std::string keys[] = {"pr-1/s/1/a", "pr-1/s/1/b", "pr-1/s/1/c"};
  for (const auto& key : keys) daemon.start(key);
  FakeSlurm::eventually(
      [&] { return daemon.reason(keys[2]).find("slurm.queue_limit") != std::string::npos; });
  slurm.let_look();
  CHECK(slurm.submitted() == 2);
  slurm.say("refuse", "sbatch: error: QOSMaxSubmitJobPerUserLimit");
  daemon.put_result(keys[0]);
  FakeSlurm::eventually([&] { return daemon.reason(keys[2]).find("MaxSubmit") != std::string::npos; });
  slurm.unsay("refuse");
  FakeSlurm::eventually([&] { return daemon.state(keys[2]) == "queued"; });
  CHECK(slurm.submitted() == 3);
}

TEST_CASE("forgotten jobs leave Slurm and the disk, those of others stay") {
  const FakeSlurm slurm;
  const TempFolder folder;
  const TempFolder elsewhere;
  Daemon daemon(slurm, folder);
  Daemon stranger(slurm, elsewhere);
  daemon.start();
  stranger.start();  // the same key in another folder: a copy of the database
  FakeSlurm::eventually([&] { return daemon.state() == "queued" && stranger.state() == "queued"; });
  CHECK(slurm.submitted() == 2);
  const bool first_is_ours = slurm.get(1, "folder") == daemon.runner->folder(kDriftKey);
  const int own = first_is_ours ? 1 : 2;
  daemon.runner->forget("pr-1/");
  CHECK(daemon.runner->running() == 0);
  FakeSlurm::eventually([&] { return slurm.get(own, "state") == "CANCELLED"; });
  FakeSlurm::eventually([&] { return !std::filesystem::exists(daemon.runner->folder(kDriftKey)); });
  CHECK(slurm.get(3 - own, "state") == "PENDING");
  stranger.put_result();
  CHECK(stranger.wait().result.ok);
  CHECK(daemon.results.empty());
}

TEST_CASE("what a daemon gave up without telling Slurm is cancelled by the next one") {
  const FakeSlurm slurm;
  const TempFolder folder;
  {
    Daemon first(slurm, folder);
    first.start();
    first.start("pr-2/offline/1/drift");
    FakeSlurm::eventually([&] { return first.state("pr-2/offline/1/drift") == "queued"; });
    slurm.let_look();
  }
  std::filesystem::remove_all(folder.path / "jobs" / "pr-1.offline.1.drift");
  Daemon second(slurm, folder);
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
  CHECK(slurm.get(2, "state") == "PENDING");
}

TEST_CASE("of two submissions that live, which only a crash can leave, one goes") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  std::filesystem::copy(slurm.root() / "jobs" / "1", slurm.root() / "jobs" / "2");
  FakeSlurm::eventually([&] { return slurm.get(2, "state") == "CANCELLED"; });
  CHECK(slurm.get(1, "state") == "PENDING");
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
}

TEST_CASE("a doubled submission that was cancelled is not judged when the one that counts ends") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  std::filesystem::copy(slurm.root() / "jobs" / "1", slurm.root() / "jobs" / "2");
  FakeSlurm::eventually([&] { return slurm.get(2, "state") == "CANCELLED"; });
  slurm.let_look();
  CHECK(record_of(daemon).stalled == 0);
  CHECK(daemon.runner->place(kDriftKey)->remote == "1");
  slurm.set(1, "state", "NODE_FAIL");
  FakeSlurm::eventually([&] { return daemon.runner->place(kDriftKey)->remote == "3"; });
  CHECK(daemon.reason() == "NODE_FAIL, submitted again as 3");
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
}

TEST_CASE("a job that Slurm holds back after a failed start gives way to another one") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.set(1, "reason", "launch_failed_requeued_held");
  FakeSlurm::eventually([&] { return slurm.has(2) && daemon.runner->place(kDriftKey)->remote == "2"; });
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
  slurm.let_look();
  CHECK(slurm.submitted() == 2);
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
}

TEST_CASE("a refusal that may pass is waited for, as long as the settings say") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.say(
      "refuse",
      "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)");
  {
    Daemon daemon(slurm, folder);
    daemon.start();
    FakeSlurm::eventually([&] { return daemon.reason().find("inactive or drain") != std::string::npos; });
    CHECK(daemon.state() == "waiting");
    slurm.unsay("refuse");
    FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
    CHECK(slurm.submitted() == 1);
  }
  slurm.say("refuse", "sbatch: error: I/O error writing script/environment to file");
  Daemon daemon(slurm, folder,
                [](SlurmRunnerOptions& options) { options.away = std::chrono::milliseconds(1); });
  daemon.start("pr-2/offline/1/drift");
  check_error(daemon.wait("pr-2/offline/1/drift"), ErrorCode::unavailable, "slurm.away_s");
}

TEST_CASE("a job that its partition can never start is given up after a while") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder,
                [](SlurmRunnerOptions& options) { options.away = std::chrono::milliseconds(1); });
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.set(1, "reason", "Priority");
  slurm.let_look();
  CHECK(daemon.results.empty());
  slurm.set(1, "reason", "PartitionTimeLimit");
  check_error(daemon.wait(), ErrorCode::unavailable, "PartitionTimeLimit");
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
}

TEST_CASE("a number that a new controller gave to another job is not taken for ours") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  daemon.start();
  daemon.start("pr-2/offline/1/drift");
  FakeSlurm::eventually([&] { return daemon.state("pr-2/offline/1/drift") == "queued"; });
  slurm.set(1, "folder", "/home/somebody");
  slurm.set(2, "folder", "/home/somebody");
  slurm.set(1, "state", "RUNNING");
  check_error(daemon.wait(), ErrorCode::unavailable, "Slurm knows the job 1 no more");
  daemon.runner->forget("pr-2/");
  daemon.start("pr-3/offline/1/drift");  // without a job nobody looks
  FakeSlurm::eventually([&] { return daemon.state("pr-3/offline/1/drift") == "queued"; });
  slurm.let_look();
  CHECK_FALSE(slurm.has(1, "cancels"));
  CHECK_FALSE(slurm.has(2, "cancels"));
}

TEST_CASE("where the folder of all jobs is missing, jobs at Slurm are not taken for strays") {
  const FakeSlurm slurm;
  const TempFolder folder;
  {
    Daemon first(slurm, folder);
    first.start();
    FakeSlurm::eventually([&] { return first.state() == "queued"; });
  }
  std::filesystem::remove_all(folder.path / "jobs");
  Daemon second(slurm, folder);
  second.start("pr-2/offline/1/drift");
  FakeSlurm::eventually([&] { return second.state("pr-2/offline/1/drift") == "queued"; });
  slurm.let_look();
  CHECK(slurm.get(1, "state") == "PENDING");
}

TEST_CASE("accounting that fails once is asked again") {
  const FakeSlurm slurm;
  const TempFolder folder;
  slurm.say("no_accounting", "sacct: error: slurm_persist_conn_open_without_init: Connection refused");
  Daemon daemon(slurm, folder, [](SlurmRunnerOptions& options) {
    options.access.accounting_pause = std::chrono::milliseconds(0);
  });
  const std::string other = "pr-2/offline/1/drift";
  daemon.start();
  daemon.start(other);
  FakeSlurm::eventually([&] { return daemon.state(other) == "queued"; });
  slurm.set(1, "forgotten", "");
  check_error(daemon.wait(), ErrorCode::unavailable, "Slurm knows the job 1 no more");
  slurm.unsay("no_accounting");
  slurm.set(2, "accounted", "OUT_OF_MEMORY|0:125|n1|9|60|" + daemon.runner->folder(other));
  slurm.set(2, "forgotten", "");
  check_error(daemon.wait(other), ErrorCode::limit_exceeded, "memory");
}

TEST_CASE("a job that stays at Slurm though its result is there is cancelled") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder,
                [](SlurmRunnerOptions& options) { options.linger = std::chrono::milliseconds(0); });
  daemon.start();
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  slurm.set(1, "state", "RUNNING");
  FakeSlurm::eventually([&] { return daemon.state() == "running"; });
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
}

TEST_CASE("how a job ended is known after a restart, though Slurm has forgotten it") {
  const FakeSlurm slurm;
  const TempFolder folder;
  {
    Daemon first(slurm, folder, [](SlurmRunnerOptions& options) { options.settle = std::chrono::hours(1); });
    first.start();
    FakeSlurm::eventually([&] { return first.state() == "queued"; });
    slurm.set(1, "exit", "19200");  // 75: it stopped in order
    slurm.set(1, "state", "FAILED");
    FakeSlurm::eventually([&] {
      const auto record = read_submissions(first.folder());
      return record && record->submissions.front().exit_code == 75;
    });
  }
  slurm.set(1, "forgotten", "");
  Daemon second(slurm, folder);
  second.start();
  FakeSlurm::eventually([&] { return slurm.has(2); });
  second.put_result();
  CHECK(second.wait().result.ok);
}

TEST_CASE("a job folder that cannot be written is an error that names it") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder);
  std::ofstream(daemon.runner->folder(kDriftKey)) << "a file where the folder should be";
  daemon.start();
  check_error(daemon.wait(), ErrorCode::io, daemon.runner->folder(kDriftKey));
  CHECK(slurm.submitted() == 0);
}

TEST_CASE("without jobs nobody asks Slurm, and no more jobs are taken than there is room for") {
  const FakeSlurm slurm;
  const TempFolder folder;
  Daemon daemon(slurm, folder, [](SlurmRunnerOptions& options) {
    options.look_at_start = false;
    options.waiting_limit = 1;
  });
  daemon.start();
  const auto refused = daemon.runner->start(Daemon::spec("pr-2/offline/1/drift"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
  FakeSlurm::eventually([&] { return daemon.state() == "queued"; });
  daemon.put_result();
  CHECK(daemon.wait().result.ok);
  Daemon idle(slurm, folder, [](SlurmRunnerOptions& options) { options.look_at_start = false; });
  const auto looks = slurm.looks();
  idle.start();  // its result is there: nothing to ask
  CHECK(idle.wait().result.ok);
  CHECK(slurm.looks() == looks);
}
