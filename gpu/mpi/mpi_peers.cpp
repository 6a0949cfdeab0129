#include "gpu/mpi/mpi_peers.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>

namespace driftgate::gpu::mpi {

namespace {

volatile std::sig_atomic_t terminated = 0;

void note_termination(int) {
  terminated = 1;
}

}  // namespace

Peer this_process() {
  std::array<char, 256> host{}, space{};
  ::gethostname(host.data(), host.size() - 1);
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) space[0] = '\0';
  return {::getpid(), std::hash<std::string>{}(std::string(host.data()) + '|' + space.data())};
}

bool has_ended(const Peer& peer) {
  static const Peer self = this_process();
  if (peer.host != self.host) return false;
  std::ifstream file("/proc/" + std::to_string(peer.pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  if (!file || end == std::string::npos || end + 2 >= text.size()) return true;
  return text[end + 2] == 'Z' || text[end + 2] == 'X';
}

void record_termination() {
  struct sigaction before {};
  if (::sigaction(SIGTERM, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction handler {};
  handler.sa_handler = note_termination;
  ::sigaction(SIGTERM, &handler, nullptr);
}

bool termination_requested() {
  return terminated != 0;
}

}  // namespace driftgate::gpu::mpi
