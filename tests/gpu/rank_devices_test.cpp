#include "gpu/ranks/rank_devices.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <utility>

#include "gpu/ranks/collective_loader.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using Names = std::vector<std::string>;

TEST_CASE("devices are parsed as on the command line") {
  CHECK(*parse_devices("cpu") == Names{"cpu"});
  CHECK(*parse_devices("cuda") == Names{"cuda:0"});
  CHECK(*parse_devices("cuda:3") == Names{"cuda:3"});
  CHECK(*parse_devices("cuda:2,0") == Names{"cuda:2", "cuda:0"});
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0,", "cuda:,1", "cuda:1,1",
                           "cuda:64", "cuda:0,1x", "CPU"}) {
    CAPTURE(text);
    const auto devices = parse_devices(text);
    REQUIRE_FALSE(devices);
    CHECK(devices.error().code == schema::ErrorCode::invalid_argument);
  }
}

TEST_CASE("the CPU has as many ranks as are asked for and a CUDA device has one") {
  CHECK(*devices_of_ranks("cpu", 0) == Names{"cpu"});
  CHECK(*devices_of_ranks("cpu", 3) == Names{"cpu", "cpu", "cpu"});
  CHECK(*devices_of_ranks("cuda:0,1", 0) == Names{"cuda:0", "cuda:1"});
  CHECK(*devices_of_ranks("cuda:0,1", 2) == Names{"cuda:0", "cuda:1"});
  CHECK_FALSE(devices_of_ranks("cuda:0,1", 4));
  CHECK_FALSE(devices_of_ranks("cpu", 100'000));
}

TEST_CASE("each process of a host has a device of its own") {
  CHECK(*device_of_process("cpu", 7) == "cpu");
  CHECK(*device_of_process("cuda:all", 2) == "cuda:2");
  CHECK(*device_of_process("cuda:4,5", 1) == "cuda:5");
  const auto none = device_of_process("cuda:4,5", 2);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("process 2 of this host has no device") != std::string::npos);
}

TEST_CASE("a process under Slurm has devices of its own where it sees one, or a number was asked for each") {
  const auto own = [](const char* job, const char* visible, const char* per_task) {
    const std::pair<const char*, const char*> values[] = {
        {"SLURM_JOB_ID", job}, {"CUDA_VISIBLE_DEVICES", visible}, {"SLURM_GPUS_PER_TASK", per_task}};
    for (const auto& [name, value] : values) {
      if (value != nullptr) ::setenv(name, value, 1);
    }
    const bool result = has_own_devices();
    for (const auto& [name, value] : values) ::unsetenv(name);
    return result;
  };
  CHECK(own("7", "3", nullptr));
  CHECK(own("7", "0,1", "2"));
  CHECK_FALSE(own("7", "0,1", nullptr));
  CHECK_FALSE(own("7", nullptr, "1"));
  CHECK_FALSE(own("7", "", "1"));
  CHECK_FALSE(own(nullptr, "3", nullptr));
}

TEST_CASE("ranks that srun started on one host know how many they are") {
  for (const auto& [text, ranks] : {std::pair("4", 4U), std::pair("2(x3),1", 2U), std::pair("1,8(x2)", 8U),
                                    std::pair("", 1U), std::pair("x", 1U)}) {
    ::setenv("SLURM_STEP_TASKS_PER_NODE", text, 1);
    CHECK_MESSAGE(local_size() == ranks, text);
  }
  ::unsetenv("SLURM_STEP_TASKS_PER_NODE");
  CHECK(local_size() == 1);
}

TEST_CASE("absent libraries for MPI and NCCL are errors that name them") {
  const auto mpi = open_mpi(kDefaultRankTimeout, "libdriftgate_no_such_mpi.so");
  REQUIRE_FALSE(mpi);
  CHECK(mpi.error().code == schema::ErrorCode::unavailable);
  CHECK(mpi.error().message.find("ranks over MPI were requested") != std::string::npos);
  CHECK(mpi.error().message.find("libdriftgate_no_such_mpi.so") != std::string::npos);
  const auto other = open_mpi(kDefaultRankTimeout, "libm.so.6");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == schema::ErrorCode::unsupported);
}
