// The NCCL collective between ranks that are none: a stream works only while it is looked at, an exchange is
// under way until as many looks have passed as the test says, and what a real device would wait for without
// end is an error here.

#include "gpu/nccl/nccl_collective.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/gpu/nccl/fake/nccl.h"

using namespace driftgate;
using namespace driftgate::gpu;
using Bytes = std::vector<unsigned char>;

/// Work in order; each part says whether it is done.
struct FakeStream {
  std::deque<std::function<bool()>> work;
  bool idle() {
    while (!work.empty() && work.front()()) work.pop_front();
    return work.empty();
  }
};
struct FakeComm {
  int rank = 0, ranks = 1;
};

namespace {

constexpr int kNever = std::numeric_limits<int>::max();
constexpr std::uint32_t kShort_ms = 40, kLong_ms = 20'000;

struct World {
  int starts_after = 0;     ///< polls of a communicator's state before a call of it is on the stream
  int exchanged_after = 0;  ///< looks at a stream before the other ranks took part
  ncclResult_t broken = ncclSuccess;  ///< what becomes of a communicator once its call is on the stream
  bool refuses_calls = false;
  int polls_left = 0, communicators = 0, aborted = 0, destroyed = 0, buffers = 0, streams = 0;
  std::vector<Bytes> others;  ///< what each rank gives, this one too
  FakeStream* stream = nullptr;
};
World world;

/// Takes part in an exchange: `done` runs once the others have, too.
ncclResult_t exchange(cudaStream_t stream, std::function<void()> done) {
  if (world.refuses_calls) return ncclInvalidArgument;
  const auto left = std::make_shared<int>(world.exchanged_after);
  stream->work.emplace_back([left, done = std::move(done)] {
    if (*left == kNever || (*left)-- > 0) return false;
    done();
    return true;
  });
  world.polls_left = world.starts_after;
  return ncclInProgress;
}

Bytes bytes_of(unsigned char first, std::size_t count) {
  Bytes out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Rank `rank` of `ranks`, each of which gives `count` bytes of its own.
std::unique_ptr<nccl::NcclCollective> open_rank(std::uint32_t rank, std::uint32_t ranks, std::size_t count,
                                                driftgate_fault& fault) {
  for (std::uint32_t i = 0; i < ranks; ++i)
    world.others.push_back(bytes_of(static_cast<unsigned char>(10 * i), count));
  driftgate_collective_config config{};
  config.struct_size = sizeof(config);
  config.rank = rank, config.size = ranks;
  config.timeout_ms = world.starts_after == kNever ? kShort_ms : kLong_ms;
  return nccl::NcclCollective::open(config, fault);
}

Bytes joined() {
  Bytes out;
  for (const Bytes& part : world.others) out.insert(out.end(), part.begin(), part.end());
  return out;
}

bool says(const driftgate_fault& fault, const char* text) {
  return std::string(fault.cause).find(text) != std::string::npos;
}

}  // namespace

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidDevice ? "invalid device ordinal" : "another error";
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = ::operator new(bytes);
  std::memset(*data, 0xff, bytes);
  ++world.buffers;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  // Waits for the device, whose work must be over by then.
  if (world.stream != nullptr && !world.stream->idle()) throw std::logic_error("cudaFree waits without end");
  ::operator delete(data);
  --world.buffers;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  CHECK(flags == cudaStreamNonBlocking);
  *stream = world.stream = new FakeStream;
  ++world.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  world.stream = nullptr;
  --world.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!stream->idle()) throw std::logic_error("cudaStreamSynchronize waits without end");
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  // Of pageable memory: what is before it in the stream must be over.
  if (!stream->idle()) throw std::logic_error("cudaMemcpyAsync waits without end");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidArgument ? "invalid argument" : "unhandled system error";
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  CHECK(config->blocking == 0);
  *comm = new FakeComm{rank, ranks};
  ++world.communicators;
  world.polls_left = world.starts_after;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  if (world.polls_left == kNever || world.polls_left-- > 0) {
    *state = ncclInProgress;
  } else {
    world.polls_left = 0;
    *state = world.broken;
  }
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  world.polls_left = world.starts_after;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  ++world.destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  world.stream->work.clear();
  delete comm;
  ++world.aborted;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return exchange(world.stream, [] {});
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t, int to, ncclComm_t comm,
                      cudaStream_t) {
  CHECK(to == 0);
  const Bytes& mine = world.others[static_cast<std::size_t>(comm->rank)];
  CHECK(std::memcmp(data, mine.data(), count) == 0);
  return ncclInProgress;
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t, int from, ncclComm_t,
                      cudaStream_t stream) {
  return exchange(stream,
                  [=] { std::memcpy(data, world.others[static_cast<std::size_t>(from)].data(), count); });
}
ncclResult_t ncclAllGather(const void* mine, void* all, std::size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  CHECK(std::memcmp(mine, world.others[static_cast<std::size_t>(comm->rank)].data(), count) == 0);
  return exchange(stream, [=] {
    const Bytes result = joined();
    CHECK(result.size() == count * static_cast<std::size_t>(comm->ranks));
    std::memcpy(all, result.data(), result.size());
  });
}
ncclResult_t ncclBroadcast(const void*, void* to, std::size_t count, ncclDataType_t, int root, ncclComm_t,
                           cudaStream_t stream) {
  CHECK(root == 0);
  return exchange(stream, [=] { std::memcpy(to, world.others[0].data(), count); });
}

TEST_CASE("ranks exchange bytes over NCCL, however long a call takes to start and the others to come") {
  for (const int polls : {0, 3}) {
    for (const int looks : {0, 5}) {
      CAPTURE(polls);
      CAPTURE(looks);
      world = {};
      world.starts_after = polls, world.exchanged_after = looks;
      driftgate_fault fault{};
      constexpr std::size_t kCount = 7;
      auto rank = open_rank(0, 3, kCount, fault);
      REQUIRE(rank);
      const Bytes mine = world.others[0], wanted = joined();
      Bytes all(3 * kCount), gathered(3 * kCount), told = mine;
      CHECK(rank->all_gather(kLong_ms, mine.data(), kCount, all.data(), fault) == 0);
      CHECK(all == wanted);
      CHECK(rank->gather(kLong_ms, mine.data(), kCount, gathered.data(), fault) == 0);
      CHECK(gathered == wanted);
      CHECK(rank->broadcast(kLong_ms, told.data(), kCount, fault) == 0);
      CHECK(told == mine);
      rank.reset();
      CHECK(world.destroyed == 1);
      CHECK(world.aborted == 0);
      CHECK(world.buffers == 0);
      CHECK(world.streams == 0);
    }
  }
}

TEST_CASE("a rank other than 0 gives its bytes and receives those of rank 0") {
  world = {};
  world.exchanged_after = 2;
  driftgate_fault fault{};
  auto rank = open_rank(1, 2, 5, fault);
  REQUIRE(rank);
  const Bytes mine = world.others[1];
  CHECK(rank->gather(kLong_ms, mine.data(), 5, nullptr, fault) == 0);
  Bytes told(5);
  CHECK(rank->broadcast(kLong_ms, told.data(), 5, fault) == 0);
  CHECK(told == world.others[0]);
}

TEST_CASE("ranks that never come end a wait over NCCL at its deadline, and the communicator is aborted") {
  for (const bool on_stream : {true, false}) {
    CAPTURE(on_stream);
    world = {};
    driftgate_fault fault{};
    auto rank = open_rank(0, 2, 4, fault);
    REQUIRE(rank);
    (on_stream ? world.exchanged_after : world.starts_after) = kNever;
    const Bytes mine = world.others[0];
    Bytes all(8);
    CHECK(rank->all_gather(kShort_ms, mine.data(), 4, all.data(), fault) == DRIFTGATE_FAULT_DEADLINE);
    CHECK(fault.rank == -1);
    CHECK(world.aborted == 1);
    CHECK(rank->all_gather(kShort_ms, mine.data(), 4, all.data(), fault) == DRIFTGATE_FAULT_LIBRARY);
    CHECK(says(fault, "was aborted by an earlier error"));
    rank.reset();
    CHECK(world.aborted == 1);
    CHECK(world.buffers == 0);
  }
}

TEST_CASE("what NCCL says of a communicator or a call is the fault") {
  world = {};
  driftgate_fault fault{};
  auto rank = open_rank(0, 2, 4, fault);
  REQUIRE(rank);
  world.exchanged_after = kNever, world.broken = ncclSystemError;
  const Bytes mine = world.others[0];
  Bytes all(8);
  CHECK(rank->all_gather(kLong_ms, mine.data(), 4, all.data(), fault) == DRIFTGATE_FAULT_LIBRARY);
  CHECK(says(fault, "unhandled system error"));
  CHECK(world.aborted == 1);

  rank.reset();
  world = {};
  rank = open_rank(0, 2, 4, fault);
  REQUIRE(rank);
  world.refuses_calls = true;
  CHECK(rank->broadcast(kLong_ms, all.data(), 4, fault) == DRIFTGATE_FAULT_LIBRARY);
  CHECK(says(fault, "invalid argument"));
  CHECK(world.aborted == 1);
}

TEST_CASE("a rank that gives up ends its own wait over NCCL") {
  world = {};
  driftgate_fault fault{};
  auto rank = open_rank(0, 2, 4, fault);
  REQUIRE(rank);
  world.exchanged_after = kNever;
  const Bytes mine = world.others[0];
  Bytes all(8);
  std::jthread other([&rank] { rank->leave(); });
  CHECK(rank->all_gather(kLong_ms, mine.data(), 4, all.data(), fault) == DRIFTGATE_FAULT_LIBRARY);
  CHECK(says(fault, "this rank has left"));
  CHECK(world.aborted == 1);
}

TEST_CASE("a start over NCCL has a deadline, and a device that is absent is said to be") {
  world = {};
  world.starts_after = kNever;
  driftgate_fault fault{};
  CHECK_FALSE(open_rank(0, 2, 4, fault));
  CHECK(fault.kind == DRIFTGATE_FAULT_DEADLINE);
  CHECK(world.aborted == 1);
  CHECK(world.streams == 0);
  world = {};
  driftgate_collective_config config{};
  config.size = 1, config.device = 3;
  CHECK_FALSE(nccl::NcclCollective::open(config, fault));
  CHECK(fault.kind == DRIFTGATE_FAULT_ABSENT);
  CHECK(says(fault, "invalid device ordinal"));
}
