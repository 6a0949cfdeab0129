#include "daemon/app/keeper/router_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "daemon/route/worker/router_options.hpp"

namespace driftgate::app {
namespace {

/// The words of a process's command line.
std::vector<std::string> words_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\0', begin);
    words.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return words;
}

/// What a daemon may decide anew of a router on given sockets.
std::vector<std::string> comparable(route::RouterOptions options) {
  options.listen.clear();
  options.threads = 1;
  options.listen_fds = 0;
  return route::to_arguments(options);
}

}  // namespace

std::string router_differs(int pid, const route::SpawnOptions& options) {
  struct stat running {
  }, wanted{};
  const auto program = fmt::format("/proc/{}/exe", pid);
  // The link leads to the file that runs, also when another one has taken its name.
  if (::stat(program.c_str(), &running) != 0 || ::stat(options.executable.c_str(), &wanted) != 0) return {};
  if (running.st_dev != wanted.st_dev || running.st_ino != wanted.st_ino)
    return "it runs another program file";
  const auto words = words_of(pid);
  const auto behind = 1 + options.words.size();
  if (words.size() < behind) return {};
  const auto held = route::parse_router_arguments(std::span(words).subspan(behind));
  if (!held) return "it was started with options that this version does not know";
  return comparable(*held) == comparable(options.router) ? "" : "it was started with other settings";
}

}  // namespace driftgate::app
