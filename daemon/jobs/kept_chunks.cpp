#include "daemon/jobs/kept_chunks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {

namespace {

constexpr std::string_view kMagic = "DGCK1\n";

}  // namespace

std::string stamps_of(const gpu::Capture& capture) {
  std::string out = fmt::format("{}:{}", capture.name().size(), capture.name());
  for (const gpu::CaptureSegment& segment : capture.segments()) {
    const gpu::FileStamp& stamp = segment.file.stamp();
    out += fmt::format("|{} {} {} {}", stamp.inode, stamp.bytes, stamp.mtime_ns, stamp.ctime_ns);
  }
  if (capture.head() != nullptr) out += "|" + capture.head()->digest();
  return out;
}

std::string KeptChunks::head(const std::string& name, const std::string& key, std::string_view bytes) const {
  const std::string what =
      fmt::format("{} {}:{} {}:{} {}", DRIFTGATE_VERSION, job_.size(), job_, name.size(), name, key);
  return fmt::format("{}{}\n{}\n", kMagic, schema::sha256_digest(what), schema::sha256_digest(bytes));
}

std::optional<std::string> KeptChunks::find(const std::string& name, const std::string& key) {
  const std::string path = folder_ + "/" + name;
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  auto bytes = base::read_all(fd.get(), path, gpu::kMaxChunkTableBytes);
  if (!bytes) return std::nullopt;
  const std::size_t head_bytes = head(name, key, {}).size();
  if (bytes->size() < head_bytes) return std::nullopt;
  const std::string_view body = std::string_view(*bytes).substr(head_bytes);
  if (!bytes->starts_with(head(name, key, body))) return std::nullopt;
  return std::string(body);
}

schema::Result<void> KeptChunks::keep(const std::string& name, const std::string& key,
                                      std::string_view bytes) {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return base::file_failure("create", folder_);
  return base::write_file_durably(folder_ + "/" + name, head(name, key, bytes) + std::string(bytes), 0600);
}

void take_over_chunks(const JobFolder& folder, std::string_view key) {
  const auto name_at = key.rfind('/');
  if (name_at == std::string_view::npos || name_at == 0) return;
  const auto attempt_at = key.rfind('/', name_at - 1) + 1;  // npos + 1 is 0
  const auto digits = key.substr(attempt_at, name_at - attempt_at);
  std::uint32_t attempt = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), attempt);
  if (error != std::errc{} || end != digits.data() + digits.size() || attempt < 2) return;
  const auto before = fmt::format("{}{}{}", key.substr(0, attempt_at), attempt - 1, key.substr(name_at));
  const JobFolder source(folder.path().parent_path() / job_folder_name(before));
  std::error_code ignored;
  if (!std::filesystem::is_directory(source.file(kChunksFolder), ignored)) return;
  const auto lock = source.lock();
  if (!lock) return;
  // Fails where the job has chunks of its own.
  std::filesystem::rename(source.file(kChunksFolder), folder.file(kChunksFolder), ignored);
}

void KeptChunks::clear() const {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace driftgate::jobs
