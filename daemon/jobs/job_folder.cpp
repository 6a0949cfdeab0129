#include "daemon/jobs/job_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

/// Opens a file of a job only if it is a regular one: an adapter runs in the folder, and a pipe that it
/// leaves would be waited on for ever.
base::UniqueFd open_regular(const std::string& path, int flags) {
  base::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat status {};
  if (!fd || (::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode))) return fd;
  errno = S_ISDIR(status.st_mode) ? EISDIR : EMEDIUMTYPE;
  return {};
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(JobProgress, done, total, unit, text)

std::string job_folder_name(std::string_view key) {
  std::string name(key);
  std::ranges::replace_if(
      name,
      [](char c) {
        return !(('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-');
      },
      '.');
  return name;
}

schema::Result<void> JobFolder::put(std::string_view name, std::string_view bytes) const {
  return base::write_file_durably(file(name), bytes, 0600);
}

schema::Result<void> JobFolder::put_result(JobResult& result, const std::string& name,
                                           const std::string& file_name, std::string_view bytes) const {
  TRY(put(file_name, bytes));
  result.files[name] = file_name;
  result.digests[name] = schema::sha256_digest(bytes);
  return {};
}

schema::Result<std::string> JobFolder::get(std::string_view name) const {
  const auto path = file(name);
  const base::UniqueFd fd = open_regular(path, O_RDONLY);
  if (!fd && errno == EMEDIUMTYPE)
    return schema::fail(ErrorCode::io, fmt::format("cannot read {}: not a regular file", path));
  if (!fd && errno == ENOENT)
    return schema::fail(ErrorCode::not_found, fmt::format("{} does not exist", path));
  if (!fd) return base::file_failure("open", path);
  return base::read_all(fd.get(), path, kMaxResultBytes);
}

void JobFolder::report(const JobProgress& progress) const {
  const base::UniqueFd fd = open_regular(file("progress.jsonl"), O_WRONLY | O_CREAT | O_APPEND);
  if (!fd) return;
  (void)base::write_all(fd.get(), json(progress).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::optional<JobProgress> JobFolder::progress() const {
  constexpr off_t kTailBytes = 4'096;
  const base::UniqueFd fd = open_regular(file("progress.jsonl"), O_RDONLY);
  if (!fd) return std::nullopt;
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  const off_t from = size > kTailBytes ? size - kTailBytes : 0;
  std::string tail(static_cast<std::size_t>(size - from), '\0');
  if (::pread(fd.get(), tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size()))
    return std::nullopt;
  const auto end = tail.rfind('\n');  // a line without its end is being written
  if (end == std::string::npos) return std::nullopt;
  tail.resize(end);
  const auto value = json::parse(tail.substr(tail.rfind('\n') + 1), nullptr, false);
  if (!value.is_object()) return std::nullopt;
  try {
    return value.get<JobProgress>();
  } catch (const json::exception&) {  // a member of another type: not our line
    return std::nullopt;
  }
}

schema::Result<base::UniqueFd> JobFolder::lock() const {
  base::UniqueFd fd(::open(file("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return base::file_failure("open", file("lock"));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return schema::fail(ErrorCode::conflict, fmt::format("{} is held by a live process", file("lock")));
  }
  return fd;
}

bool JobFolder::lock_is_free() const {
  const base::UniqueFd fd(::open(file("lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return true;
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
}

int JobFolder::number_in(std::string_view name) const {
  const auto text = get(name);
  int number = 0;
  if (!text) return 0;
  const char* const last = text->data() + text->size() - (text->ends_with('\n') ? 1 : 0);
  const auto [end, error] = std::from_chars(text->data(), last, number);
  return error == std::errc{} && end == last && number > 0 ? number : 0;
}

}  // namespace driftgate::jobs
