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

/// The collective over MPI_COMM_WORLD. Messages go from rank to rank, not through MPI's collectives, which
/// can neither end a wait nor say for whom they wait.
class MpiCollective {
 public:
  /// MPI_Init, within the timeout, and where the others are.
  static std::unique_ptr<MpiCollective> open(std::uint32_t timeout_ms, driftgate_fault& fault);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// `out` receives the bytes of each rank from which this one receives: all of them in rank order, or those
  /// of rank 0 (broadcast). Returns the fault's kind.
  std::int32_t exchange(Kind kind, std::uint32_t timeout_ms, const void* mine, std::uint64_t bytes, void* out,
                        driftgate_fault& fault);
  void leave(std::uint32_t error_code, std::int32_t about, const char* cause);
  /// Ends the job's part in MPI: with all ranks, within the timeout of `open`, or for all of them after
  /// `leave`.
  void close(std::int32_t exit_code);

 private:
  struct Operation;
  MpiCollective() = default;
  void start(Operation& operation);
  /// Lets messages move; true when the operation is over.
  bool poll(Operation& operation, driftgate_fault& fault);
  bool poll_receive(Operation& operation, int source, driftgate_fault& fault);
  bool poll_notes(driftgate_fault& fault);
  void drop(Operation& operation);
  std::int32_t give_up(const Operation& operation, bool late, driftgate_fault& fault) const;

  int rank_ = 0, size_ = 1;
  std::uint32_t timeout_ms_ = 0;
  std::vector<Peer> peers_;
  std::uint64_t next_ = 0;
  std::mutex mutex_;  ///< MPI is called by one thread at a time
  std::atomic<bool> left_ = false;
  std::vector<std::unique_ptr<Message>> notes_;  ///< of leaving, sent
  std::vector<std::unique_ptr<Message>>
      orphans_;  ///< of operations that were given up: MPI may still use them
};

}  // namespace driftgate::gpu::mpi
