#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/mpi/mpi_messages.hpp"
#include "gpu/mpi/mpi_peers.hpp"

namespace driftgate::gpu::mpi {

enum class Kind : std::uint32_t { all_gather = 1, gather, broadcast };

/// A collective over MPI_COMM_WORLD. It uses point-to-point messages instead of the collective operations of
/// MPI, which can neither time out nor report which rank they wait for.
class MpiCollective {
 public:
  /// Calls MPI_Init and exchanges where the ranks run, each within the timeout.
  static std::unique_ptr<MpiCollective> open(std::uint32_t timeout_ms, driftgate_fault& fault);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Runs one operation. `out` receives the bytes of each rank from which this rank receives: of all ranks in
  /// rank order, or of rank 0 (broadcast). Returns the kind of the fault, 0 for none.
  std::int32_t exchange(Kind kind, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* out,
                        driftgate_fault& fault);
  /// Sends a departure notice with an error about rank `about` to the other ranks, without waiting for them.
  void leave(std::uint32_t error_code, std::int32_t about, const char* cause);
  /// Ends MPI: with all ranks, within the timeout of `open`; or, after `leave`, by aborting the whole job.
  void close(std::int32_t exit_code);

 private:
  struct Operation;
  MpiCollective() = default;
  void start(Operation& operation);
  /// Makes progress on the messages; true when the operation has completed.
  bool poll(Operation& operation, driftgate_fault& fault);
  bool poll_receive(Operation& operation, int source, driftgate_fault& fault);
  bool poll_notices(driftgate_fault& fault);
  void drop(Operation& operation);
  std::int32_t give_up(const Operation& operation, bool late, driftgate_fault& fault) const;

  int rank_ = 0, size_ = 1;
  std::uint32_t timeout_ms_ = 0;
  std::vector<Peer> peers_;
  std::uint64_t next_ = 0;
  std::mutex mutex_;  ///< MPI is called by one thread at a time
  std::atomic<bool> left_ = false;
  std::vector<std::unique_ptr<Message>> notices_;  ///< departure notices that were sent
  /// Messages of operations that failed: MPI may still use their buffers.
  std::vector<std::unique_ptr<Message>> abandoned_;
};

}  // namespace driftgate::gpu::mpi
