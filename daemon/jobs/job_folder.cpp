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
#include "schema/utf8.hpp"

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

constexpr std::size_t kMaxSeenFiles = 10'000;  ///< of a folder: an adapter may leave any number
constexpr std::ptrdiff_t kMaxPrinted = 16;     ///< outputs of submissions that are shown, the newest

bool is_slurm_output(std::string_view name) {
  constexpr std::string_view kStart = "slurm-", kEnd = ".out";
  if (!name.starts_with(kStart) || !name.ends_with(kEnd) || name.size() > 64) return false;
  const auto id = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  return !id.empty() && id.find_first_not_of("0123456789_") == std::string_view::npos;
}

/// Bytes at the start that continue a character of UTF-8 begun before.
std::size_t continuation_bytes(std::string_view bytes) {
  std::size_t count = 0;
  while (count < 3 && count < bytes.size() && (static_cast<unsigned char>(bytes[count]) & 0xc0) == 0x80)
    ++count;
  return count;
}

/// Bytes at the end of a character whose rest is missing.
std::size_t cut_bytes(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
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

std::string key_in(const JobFolder& folder) {
  const auto text = folder.get("spec.json");
  const auto spec = text ? job_spec_from_json(*text) : std::unexpected(text.error());
  if (!spec || folder.path().filename() != job_folder_name(spec->key)) return {};
  return spec->key;
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

schema::Result<JobFolder::Part> JobFolder::part(std::string_view name, std::optional<std::uint64_t> offset,
                                                std::size_t limit) const {
  const auto path = file(name);
  const base::UniqueFd fd = open_regular(path, O_RDONLY);
  if (!fd && errno == ENOENT)
    return schema::fail(ErrorCode::not_found, fmt::format("{} does not exist", path));
  if (!fd) return base::file_failure("open", path);
  const off_t end = ::lseek(fd.get(), 0, SEEK_END);
  if (end < 0) return base::file_failure("read", path);
  Part part{.size = static_cast<std::uint64_t>(end)};
  part.from = std::min(offset.value_or(part.size > limit ? part.size - limit : 0), part.size);
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(limit, part.size - part.from)), '\0');
  const auto got = ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(part.from));
  if (got < 0) return base::file_failure("read", path);
  bytes.resize(static_cast<std::size_t>(got));
  if (!offset && part.from > 0) {
    const auto first = std::min(continuation_bytes(bytes), bytes.size());
    bytes.erase(0, first);
    part.from += first;
  }
  bytes.resize(bytes.size() - cut_bytes(bytes));
  part.next = part.from + bytes.size();
  // A replacement may be three times as long as what it stands for.
  part.text = schema::utf8_text(bytes, 3 * bytes.size() + 3);
  return part;
}

std::vector<std::string> JobFolder::printed() const {
  std::vector<std::string> names;
  std::error_code error;
  std::size_t seen = 0;
  for (std::filesystem::directory_iterator at(path_, error), last; !error && at != last;
       at.increment(error)) {
    if (++seen > kMaxSeenFiles) break;
    auto name = at->path().filename().string();
    if (is_slurm_output(name)) names.push_back(std::move(name));
  }
  std::ranges::sort(names, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  if (names.size() > kMaxPrinted) names.erase(names.begin(), names.end() - kMaxPrinted);
  if (std::filesystem::exists(path_ / "log", error)) names.insert(names.begin(), "log");
  return names;
}

void JobFolder::append(std::string_view name, std::string_view bytes) const {
  const base::UniqueFd fd = open_regular(file(name), O_WRONLY | O_CREAT | O_APPEND);
  if (fd) (void)base::write_all(fd.get(), bytes);
}

void JobFolder::report(const JobProgress& progress) const {
  append("progress.jsonl", json(progress).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
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
    // Such as a file system without flock, which nobody's end would change.
    if (errno != EWOULDBLOCK) return base::file_failure("lock", file("lock"));
    return schema::fail(ErrorCode::conflict, fmt::format("{} is held by a live process", file("lock")));
  }
  return fd;
}

bool JobFolder::lock_is_free() const {
  const base::UniqueFd fd(::open(file("lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return true;
  return ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
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
