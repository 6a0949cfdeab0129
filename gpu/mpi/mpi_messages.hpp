#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/ranks/collective_plugin.h"

namespace driftgate::gpu::mpi {

/// The header of every message, which reveals ranks that make different calls.
struct Header {
  std::uint64_t number = 0;  ///< of the operation, counted alike on every rank
  std::uint64_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t error_code = 0;  ///< of a departure notice
  std::int32_t rank = -1;        ///< the rank that the notice is about
  std::uint32_t reserved = 0;
};

/// A message under way. Destroying it while MPI still uses its buffer is an error of the caller.
struct Message {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// A header and the bytes that follow it, in one buffer.
[[nodiscard]] std::vector<std::byte> framed(const Header& header, const void* data);
[[nodiscard]] Header header_of(const std::vector<std::byte>& message);

/// Starts to receive the next message from `source` with `tag`, if there is one; its bytes are valid once
/// `done` returns true. A message of more than `most_bytes` is a fault of the sender.
enum class Arrival : std::uint8_t { nothing, coming, too_long };
[[nodiscard]] Arrival start_receive(int source, int tag, std::size_t most_bytes, Message& out);
/// Whether the transfer has completed.
[[nodiscard]] bool done(Message& message);

}  // namespace driftgate::gpu::mpi
