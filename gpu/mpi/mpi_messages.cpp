#include "gpu/mpi/mpi_messages.hpp"

#include <cstring>

namespace driftgate::gpu::mpi {

std::vector<std::byte> framed(const Header& header, const void* data) {
  std::vector<std::byte> out(sizeof(header) + static_cast<std::size_t>(header.bytes));
  std::memcpy(out.data(), &header, sizeof(header));
  if (header.bytes > 0)
    std::memcpy(out.data() + sizeof(header), data, static_cast<std::size_t>(header.bytes));
  return out;
}

Header header_of(const std::vector<std::byte>& message) {
  Header header;
  std::memcpy(&header, message.data(), sizeof(header));
  return header;
}

Arrival start_receive(int source, int tag, std::size_t most_bytes, Message& out) {
  int found = 0, count = 0;
  MPI_Message matched = MPI_MESSAGE_NULL;
  MPI_Status status;
  MPI_Improbe(source, tag, MPI_COMM_WORLD, &found, &matched, &status);
  if (found == 0) return Arrival::nothing;
  MPI_Get_count(&status, MPI_BYTE, &count);
  out.bytes.resize(static_cast<std::size_t>(count));
  MPI_Imrecv(out.bytes.data(), count, MPI_BYTE, &matched, &out.request);
  const auto size = static_cast<std::size_t>(count);
  return size < sizeof(Header) || size > sizeof(Header) + most_bytes ? Arrival::too_long : Arrival::coming;
}

bool done(Message& message) {
  int over = 1;
  if (message.request != MPI_REQUEST_NULL) MPI_Test(&message.request, &over, MPI_STATUS_IGNORE);
  return over != 0;
}

}  // namespace driftgate::gpu::mpi
