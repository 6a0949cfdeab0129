#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/ranks/collective_plugin.h"

namespace driftgate::gpu::mpi {

/// What stands before the bytes of every message, so that ranks that make different calls are noticed.
struct Header {
  std::uint64_t number = 0;  ///< of the operation; ranks count alike
  std::uint64_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t error_code = 0;  ///< of a note of leaving
  std::int32_t rank = -1;        ///< whom the note is about
  std::uint32_t reserved = 0;
};

/// A message on its way. Destroying it leaves the transfer to MPI, whose buffers must then live on.
struct Message {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// A header and its bytes in one piece.
[[nodiscard]] std::vector<std::byte> framed(const Header& header, const void* data);
[[nodiscard]] Header header_of(const std::vector<std::byte>& message);

/// Starts to receive the next message of `source` with `tag`, if one is there. The receiver reads the bytes
/// once `arrived` says so. At most `most_bytes` are accepted: a longer one is a fault of the sender.
enum class Arrival : std::uint8_t { nothing, coming, too_long };
[[nodiscard]] Arrival start_receive(int source, int tag, std::size_t most_bytes, Message& out);
/// Whether the transfer is over.
[[nodiscard]] bool done(Message& message);

}  // namespace driftgate::gpu::mpi
