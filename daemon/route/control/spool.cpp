#include "daemon/route/control/spool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemon/route/table/route_table.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

std::unexpected<schema::Error> failed(std::string_view what, const std::string& path) {
  const auto code = errno == ENOSPC ? schema::ErrorCode::storage_full : schema::ErrorCode::io;
  return schema::fail(code, fmt::format("spool: cannot {} {}: {}", what, path, std::strerror(errno)));
}

std::uint64_t size_of(const std::string& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return missing ? 0 : size;
}

schema::Result<void> check(const std::string& stage_key) {
  if (valid_stage_key(stage_key)) return {};
  return schema::failf(schema::ErrorCode::invalid_argument,
                       "'{}' is not a stage key; expected promotion/stage/attempt", stage_key);
}

}  // namespace

schema::Result<void> Spool::prepare() {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return failed("make folder", folder_);
  std::error_code error;
  std::filesystem::directory_iterator files(folder_, error);
  if (error)
    return schema::failf(schema::ErrorCode::io, "spool: cannot list {}: {}", folder_, error.message());
  const std::lock_guard lock(mutex_);
  for (const auto& file : files) {
    if (file.path().extension() == ".jsonl") used_bytes_ += size_of(file.path().string());
  }
  return {};
}

std::string Spool::file_of(const std::string& stage_key) const {
  auto name = stage_key;
  std::ranges::replace(name, '/', '_');
  return folder_ + "/" + name + ".jsonl";
}

schema::Result<int> Spool::open_for(const std::string& stage_key) {
  const auto found = open_.find(stage_key);
  if (found != open_.end()) return found->second.get();
  const auto path = file_of(stage_key);
  base::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failed("open", path);
  if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
  return open_.emplace(stage_key, std::move(file)).first->second.get();
}

schema::Result<void> Spool::append(const std::string& stage_key, std::string line) {
  TRY(check(stage_key));
  line += '\n';
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(dropped_, stage_key) != dropped_.end())
    return schema::failf(schema::ErrorCode::not_found, "spool: stage {} was dropped", stage_key);
  if (used_bytes_ + line.size() > cap_bytes_)
    return schema::failf(schema::ErrorCode::limit_exceeded, "spool: full at {} bytes", cap_bytes_);
  auto file = TRY(open_for(stage_key));
  const auto before = ::lseek(file, 0, SEEK_END);
  const auto written = ::write(file, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    if (written >= 0) errno = ENOSPC;
    auto failure = failed("write", file_of(stage_key));
    if (::ftruncate(file, before) != 0) return failed("remove a partial line from", file_of(stage_key));
    return failure;
  }
  used_bytes_ += line.size();
  return {};
}

schema::Result<std::string> Spool::path(const std::string& stage_key) const {
  TRY(check(stage_key));
  auto path = file_of(stage_key);
  if (::access(path.c_str(), F_OK) == 0) return path;
  return schema::failf(schema::ErrorCode::not_found, "spool: no pairs were recorded for stage {}", stage_key);
}

schema::Result<void> Spool::drop(const std::string& stage_key) {
  TRY(check(stage_key));
  const std::lock_guard lock(mutex_);
  const auto path = file_of(stage_key);
  const auto size = size_of(path);
  open_.erase(stage_key);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("delete", path);
  used_bytes_ -= std::min(size, used_bytes_);
  if (std::ranges::find(dropped_, stage_key) == dropped_.end()) dropped_.push_back(stage_key);
  if (dropped_.size() > kMaxDropped) dropped_.pop_front();
  return {};
}

}  // namespace driftgate::route
