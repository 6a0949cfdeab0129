#include "gpu/mpi/mpi_collective.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

namespace driftgate::gpu::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kDataTag = 1, kNoticeTag = 2;
constexpr int kYields = 200;  ///< polls before sleeping
constexpr std::chrono::microseconds kShortestSleep{20}, kLongestSleep{1'000};
constexpr milliseconds kLivenessInterval{50};
constexpr milliseconds kNoticeTime{200};    ///< for departure notices to be sent
constexpr milliseconds kReportTime{500};  ///< for rank 0 to report the error before the job is aborted
constexpr int kExitError = 4;

std::int32_t fault_of(driftgate_fault& fault, std::uint32_t kind, std::int32_t rank,
                      const std::string& cause) {
  fault = {};
  fault.kind = kind;
  fault.rank = rank;
  std::snprintf(fault.cause, sizeof(fault.cause), "%s", cause.c_str());
  return static_cast<std::int32_t>(kind);
}

/// Ends the process, and so the job, if a call that has no timeout of its own does not return in time.
class CallWatchdog {
 public:
  CallWatchdog(const char* call, const char* cause, std::uint32_t timeout_ms)
      : thread_([this, call, cause, timeout_ms] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, milliseconds(timeout_ms), [this] { return returned_; })) return;
          std::fprintf(stderr, "driftgate: %s did not return within %u ms: %s\n", call, timeout_ms, cause);
          std::fflush(nullptr);
          ::_exit(kExitError);
        }) {}
  ~CallWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      returned_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  CallWatchdog(const CallWatchdog&) = delete;
  CallWatchdog& operator=(const CallWatchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool returned_ = false;
  std::thread thread_;
};

}  // namespace

struct MpiCollective::Operation {
  Kind kind;
  std::uint64_t number;
  const void* mine;
  std::size_t bytes;
  std::byte* out;
  std::vector<std::unique_ptr<Message>> sends;
  std::vector<int> targets;  ///< the receiver of each of `sends`
  /// By source: the incoming message, and whether it is still missing.
  std::vector<std::unique_ptr<Message>> receives;
  std::vector<bool> missing;
  int pending = 0;  ///< a rank that this one was waiting for at the last poll
};

std::unique_ptr<MpiCollective> MpiCollective::open(std::uint32_t timeout_ms, driftgate_fault& fault) {
  int initialised = 0, provided = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    fault_of(fault, DRIFTGATE_FAULT_LIBRARY, -1, "MPI is already initialised in this process");
    return nullptr;
  }
  {
    const CallWatchdog watchdog("MPI_Init", "a rank did not start", timeout_ms);
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
      fault_of(fault, DRIFTGATE_FAULT_ABSENT, -1, "this MPI library does not support MPI_THREAD_SERIALIZED");
      return nullptr;
    }
  }
  record_termination();
  std::unique_ptr<MpiCollective> self(new MpiCollective);
  self->timeout_ms_ = timeout_ms;
  MPI_Comm_rank(MPI_COMM_WORLD, &self->rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &self->size_);
  std::vector<Peer> peers(static_cast<std::size_t>(self->size_));
  const Peer own = this_process();
  if (self->exchange(Kind::all_gather, timeout_ms, &own, sizeof(own), peers.data(), fault) != 0)
    return nullptr;
  self->peers_ = std::move(peers);
  return self;
}

void MpiCollective::start(Operation& operation) {
  const auto count = static_cast<std::size_t>(size_);
  operation.receives.resize(count);
  operation.missing.assign(count, false);
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    const bool sends =
        operation.kind == Kind::all_gather || (operation.kind == Kind::gather ? other == 0 : rank_ == 0);
    const bool receives =
        operation.kind == Kind::all_gather || (operation.kind == Kind::gather ? rank_ == 0 : other == 0);
    if (receives) operation.missing[static_cast<std::size_t>(other)] = true;
    if (!sends) continue;
    Header header;
    header.number = operation.number;
    header.bytes = operation.bytes;
    header.kind = static_cast<std::uint32_t>(operation.kind);
    auto message = std::make_unique<Message>();
    message->bytes = framed(header, operation.mine);
    MPI_Isend(message->bytes.data(), static_cast<int>(message->bytes.size()), MPI_BYTE, other, kDataTag,
              MPI_COMM_WORLD, &message->request);
    operation.sends.push_back(std::move(message));
    operation.targets.push_back(other);
  }
}

bool MpiCollective::poll_receive(Operation& operation, int source, driftgate_fault& fault) {
  const auto at = static_cast<std::size_t>(source);
  auto& message = operation.receives[at];
  if (!message) {
    message = std::make_unique<Message>();
    const Arrival arrival = start_receive(source, kDataTag, operation.bytes, *message);
    if (arrival == Arrival::nothing) {
      message.reset();
      return false;
    }
    if (arrival == Arrival::too_long) {
      fault_of(fault, DRIFTGATE_FAULT_CALLS, source,
               "it sends a different number of bytes than this rank expects");
      return false;
    }
  }
  if (!done(*message)) return false;
  const Header header = header_of(message->bytes);
  if (header.number != operation.number || header.kind != static_cast<std::uint32_t>(operation.kind) ||
      header.bytes != operation.bytes || message->bytes.size() != sizeof(Header) + operation.bytes) {
    fault_of(fault, DRIFTGATE_FAULT_CALLS, source, "the ranks do not make the same calls");
    return false;
  }
  const std::size_t place = operation.kind == Kind::broadcast ? 0 : at * operation.bytes;
  if (operation.bytes > 0)
    std::memcpy(operation.out + place, message->bytes.data() + sizeof(Header), operation.bytes);
  operation.missing[at] = false;
  return true;
}

/// True when a departure notice of another rank has arrived.
bool MpiCollective::poll_notices(driftgate_fault& fault) {
  Message notice;
  if (start_receive(MPI_ANY_SOURCE, kNoticeTag, DRIFTGATE_CAUSE_BYTES, notice) == Arrival::nothing) return false;
  MPI_Wait(&notice.request, MPI_STATUS_IGNORE);  // short: a notice is small enough to arrive eagerly, with its envelope
  if (notice.bytes.size() < sizeof(Header)) return false;
  const Header header = header_of(notice.bytes);
  fault_of(fault, DRIFTGATE_FAULT_LEFT, header.rank,
           std::string(reinterpret_cast<const char*>(notice.bytes.data()) + sizeof(Header),
                       notice.bytes.size() - sizeof(Header)));
  fault.error_code = header.error_code;
  return true;
}

bool MpiCollective::poll(Operation& operation, driftgate_fault& fault) {
  const std::lock_guard lock(mutex_);
  bool over = true;
  const auto wait_for = [&](int other) {
    if (over) operation.pending = other;
    over = false;
  };
  for (int source = 0; source < size_ && fault.kind == DRIFTGATE_FAULT_NONE; ++source) {
    if (!operation.missing[static_cast<std::size_t>(source)]) continue;
    if (!poll_receive(operation, source, fault)) wait_for(source);
  }
  for (std::size_t i = 0; i < operation.sends.size(); ++i) {
    if (!done(*operation.sends[i])) wait_for(operation.targets[i]);
  }
  // Not while the ranks start: the parts of a rank that has left since are on their way, and without them this
  // rank could not say of how many ranks one has failed. The notice stays for the next wait.
  if (!over && fault.kind == DRIFTGATE_FAULT_NONE && !peers_.empty()) poll_notices(fault);
  return over && fault.kind == DRIFTGATE_FAULT_NONE;
}

/// Keeps the messages whose buffers MPI may still read or write.
void MpiCollective::drop(Operation& operation) {
  const std::lock_guard lock(mutex_);
  for (auto* messages : {&operation.sends, &operation.receives}) {
    for (auto& message : *messages) {
      if (message && !done(*message)) abandoned_.push_back(std::move(message));
    }
  }
}

/// The fault that ends a wait; none while it may continue.
std::int32_t MpiCollective::give_up(const Operation& operation, bool late, driftgate_fault& fault) const {
  const int first = operation.pending;
  for (int other = 0; other < size_ && !peers_.empty(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    const bool waited = operation.missing[at] || other == first;
    if (other == rank_ || !waited || !has_ended(peers_[at])) continue;
    return fault_of(fault, DRIFTGATE_FAULT_DIED, other,
                    "its process " + std::to_string(peers_[at].pid) + " has ended");
  }
  if (termination_requested()) {
    return fault_of(fault, DRIFTGATE_FAULT_ENDED, first,
                    "the launcher sent SIGTERM while the other ranks waited for this rank; it does so when a "
                    "rank has died");
  }
  if (left_) return fault_of(fault, DRIFTGATE_FAULT_LEFT, rank_, "this rank has already left after an error of its own");
  if (late) return fault_of(fault, DRIFTGATE_FAULT_DEADLINE, first, "");
  return 0;
}

std::int32_t MpiCollective::exchange(Kind kind, std::uint32_t timeout_ms, const void* mine,
                                     std::uint64_t bytes, void* out, driftgate_fault& fault) {
  fault = {};
  Operation operation{
      kind, next_++, mine, static_cast<std::size_t>(bytes), static_cast<std::byte*>(out), {}, {}, {}, {}, 0};
  if (kind != Kind::broadcast && out != nullptr && bytes > 0)
    std::memcpy(operation.out + static_cast<std::size_t>(rank_) * operation.bytes, mine, operation.bytes);
  {
    const std::lock_guard lock(mutex_);
    start(operation);
  }
  const auto deadline = Clock::now() + milliseconds(timeout_ms);
  auto next_check = Clock::now() + kLivenessInterval;
  auto pause = kShortestSleep;
  for (int polls = 0;; ++polls) {
    // Read before the poll, so that a process that was itself suspended polls once more before it reports
    // another rank as late.
    const bool late = Clock::now() >= deadline;
    if (poll(operation, fault)) return 0;
    const bool check = late || left_ || termination_requested() || Clock::now() >= next_check;
    if (fault.kind == DRIFTGATE_FAULT_NONE && check) {
      give_up(operation, late, fault);
      next_check = Clock::now() + kLivenessInterval;
    }
    if (fault.kind != DRIFTGATE_FAULT_NONE) break;
    if (polls < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestSleep);
    }
  }
  drop(operation);
  return static_cast<std::int32_t>(fault.kind);
}

void MpiCollective::leave(std::uint32_t error_code, std::int32_t about, const char* cause) {
  if (left_.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  Header header;
  header.bytes = std::min<std::size_t>(std::strlen(cause), DRIFTGATE_CAUSE_BYTES - 1);
  header.error_code = error_code;
  header.rank = about;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto message = std::make_unique<Message>();
    message->bytes = framed(header, cause);
    MPI_Isend(message->bytes.data(), static_cast<int>(message->bytes.size()), MPI_BYTE, other, kNoticeTag,
              MPI_COMM_WORLD, &message->request);
    notices_.push_back(std::move(message));
  }
}

void MpiCollective::close(std::int32_t exit_code) {
  if (!left_) {
    const CallWatchdog watchdog("MPI_Finalize", "a rank did not end", timeout_ms_);
    MPI_Finalize();
    return;
  }
  const auto until = Clock::now() + kNoticeTime;
  const auto on_their_way = [this] {
    return std::ranges::all_of(notices_, [](const auto& notice) { return done(*notice); });
  };
  while (!on_their_way() && Clock::now() < until) std::this_thread::sleep_for(kLongestSleep);
  if (rank_ != 0) std::this_thread::sleep_for(kReportTime);
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace driftgate::gpu::mpi
