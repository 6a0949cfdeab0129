#include "daemon/route/control/control_place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "daemon/route/control/unix_socket.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAside = ".old.";
constexpr std::size_t kMaxSocketPath = 107;  // of sockaddr_un, without its end

schema::Result<void> renamed(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return {};
  return schema::failf(schema::ErrorCode::io, "control socket: cannot rename {} to {}: {}", from, to,
                       std::strerror(errno));
}

}  // namespace

ControlPlace::~ControlPlace() {
  if (listens_) ::unlink(current_.c_str());
}

schema::Result<void> ControlPlace::take() {
  auto lock = TRY(lock_file(path_ + ".lock"));
  const std::lock_guard guard(mutex_);
  lock_ = std::move(lock);
  return {};
}

void ControlPlace::listens() {
  const std::lock_guard guard(mutex_);
  listens_ = true;
}

schema::Result<std::string> ControlPlace::step_aside() {
  const std::lock_guard guard(mutex_);
  if (current_ != path_)
    return schema::fail(schema::ErrorCode::conflict, "another router follows this one already");
  auto aside = fmt::format("{}{}{}", path_, kAside, ::getpid());
  if (aside.size() > kMaxSocketPath)
    return schema::failf(schema::ErrorCode::unsupported,
                         "the path {} is too long for a second socket beside it; choose a shorter folder",
                         path_);
  TRY(renamed(path_, aside));
  current_ = std::move(aside);
  lock_.reset();
  return current_;
}

schema::Result<void> ControlPlace::step_back() {
  const std::lock_guard guard(mutex_);
  if (current_ == path_) return {};
  auto lock = TRY(lock_file(path_ + ".lock"));
  TRY(renamed(current_, path_));
  lock_ = std::move(lock);
  current_ = path_;
  return {};
}

std::vector<std::string> sockets_aside(const std::string& control_path) {
  const fs::path control = control_path;
  const auto prefix = control.filename().string() + std::string(kAside);
  const auto folder = control.parent_path().empty() ? fs::path(".") : control.parent_path();
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path().string());
  }
  std::ranges::sort(found);
  return found;
}

int process_of_socket(const std::string& socket_aside) {
  const auto at = socket_aside.rfind(kAside);
  if (at == std::string::npos) return 0;
  int pid = 0;
  const auto* const first = socket_aside.data() + at + kAside.size();
  const auto* const last = socket_aside.data() + socket_aside.size();
  const auto [end, error] = std::from_chars(first, last, pid);
  return error == std::errc() && end == last ? pid : 0;
}

bool process_lives(int pid) {
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace driftgate::route
