#include "tests/daemon/jobs/slurm/slurm_daemon.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::Daemon;
using driftgate::jobs::testing::FakeSlurm;
using driftgate::jobs::testing::kDriftKey;
using driftgate::jobs::testing::TempFolder;

TEST_CASE("a runner learns at its start what the daemon before could not tell it") {
  const FakeSlurm slurm;
  const TempFolder folder;
  const std::vector<std::string> keys{"pr-1/s/1/drift", "pr-2/s/1/drift", "pr-3/s/1/drift"};
  {
    Daemon first(slurm, folder);
    for (const auto& key : keys) first.start(key);
    FakeSlurm::eventually([&] { return first.state(keys[2]) == "queued"; });
    slurm.let_look();
  }
  const auto id_of = [&](const std::string& key) {
    for (int id = 1; id <= 3; ++id)
      if (slurm.get(id, "comment") == "driftgate/" + key) return id;
    return 0;
  };
  Daemon second(slurm, folder);
  second.runner->drop_left([&](const std::string& key) {
    return key == keys[0] ? JobFate::forget : key == keys[1] ? JobFate::cancel : JobFate::keep;
  });
  FakeSlurm::eventually([&] { return slurm.get(id_of(keys[0]), "state") == "CANCELLED"; });
  FakeSlurm::eventually([&] { return slurm.get(id_of(keys[1]), "state") == "CANCELLED"; });
  CHECK_FALSE(std::filesystem::exists(second.runner->folder(keys[0])));
  CHECK(std::filesystem::exists(second.runner->folder(keys[1])));
  CHECK(slurm.get(id_of(keys[2]), "state") == "PENDING");
}

TEST_CASE("an order that comes while the runner looks is kept for the next daemon when it stops") {
  const FakeSlurm slurm;
  const TempFolder folder;
  {
    Daemon first(slurm, folder);
    first.start();
    FakeSlurm::eventually([&] { return first.state() == "queued"; });
    slurm.let_look();
    slurm.say("hang_queue", "");
    FakeSlurm::eventually([&] { return slurm.hangs(); });
    first.runner->cancel(kDriftKey);
  }
  slurm.unsay("hang_queue");
  CHECK(slurm.get(1, "state") == "PENDING");
  Daemon second(slurm, folder);
  FakeSlurm::eventually([&] { return slurm.get(1, "state") == "CANCELLED"; });
}
