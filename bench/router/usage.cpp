#include "bench/router/usage.hpp"

#include <fmt/format.h>
#include <time.h>

#include <fstream>
#include <sstream>
#include <string>

#include "bench/router/sockets.hpp"

namespace driftgate::bench {
namespace {

constexpr int kFieldsBeforeTimes = 11;  // of /proc/PID/stat, from the state on, before utime

[[noreturn]] void gone(int pid) {
  fail(fmt::format("process {} cannot be measured: it has ended", pid));
}

std::uint64_t cpu_clock_ns(int pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) gone(pid);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(used.tv_nsec);
}

void add_ticks(int pid, Usage& usage) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');  // the name may hold anything, blanks too
  if (name_end == std::string::npos) gone(pid);
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeTimes; ++i) fields >> skipped;
  std::uint64_t user = 0, system = 0;
  fields >> user >> system;
  if (!fields) gone(pid);
  usage.user_ticks += user;
  usage.system_ticks += system;
}

}  // namespace

Usage usage_of(const std::vector<int>& pids) {
  Usage usage;
  for (const int pid : pids) {
    usage.cpu_ns += cpu_clock_ns(pid);
    add_ticks(pid, usage);
  }
  return usage;
}

std::uint64_t resident_kb(const std::vector<int>& pids) {
  std::uint64_t sum = 0;
  for (const int pid : pids) {
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    std::string word;
    while (file >> word && word != "VmRSS:") {
    }
    std::uint64_t kb = 0;
    file >> kb;
    if (!file) gone(pid);
    sum += kb;
  }
  return sum;
}

}  // namespace driftgate::bench
