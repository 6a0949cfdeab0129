#include "daemon/jobs/manifest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "daemon/base/durable_file.hpp"
#include "daemon/jobs/hash_pool.hpp"
#include "daemon/jobs/pickle.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

/// A file on its way to its hash; stays where it is.
struct Found {
  ManifestFile file;
  FileIdentity identity;
  bool cached = false;
};

class Walk {
 public:
  Walk(std::deque<Found>& found, HashCache* cache, HashPool& pool)
      : found_(found), cache_(cache), pool_(pool) {}

  schema::Result<void> folder(base::UniqueFd fd, const std::string& prefix, std::size_t depth) {
    if (depth > kMaxManifestDepth) {
      return schema::fail(ErrorCode::limit_exceeded,
                          fmt::format("{} is more than {} folders deep", prefix, kMaxManifestDepth));
    }
    const int raw = fd.get();
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.release()), &::closedir);
    if (!stream) return base::file_failure("list", prefix);
    while (const dirent* item = ::readdir(stream.get())) {
      const std::string_view name = item->d_name;
      if (name == "." || name == "..") continue;
      TRY(entry(raw, item->d_name, prefix.empty() ? std::string(name) : prefix + "/" + item->d_name, depth));
    }
    return {};
  }

 private:
  schema::Result<void> entry(int folder_fd, const char* name, const std::string& path, std::size_t depth) {
    base::UniqueFd fd(::openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd && errno == ELOOP) {
      return schema::fail(ErrorCode::forbidden,
                          fmt::format("{} is a symbolic link; a checkpoint holds files only", path));
    }
    if (!fd) return base::file_failure("open", path);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return base::file_failure("stat", path);
    if (S_ISDIR(status.st_mode)) return folder(std::move(fd), path, depth + 1);
    if (!S_ISREG(status.st_mode)) {
      return schema::fail(ErrorCode::forbidden, fmt::format("{} is neither a file nor a folder", path));
    }
    TRY(refuse_pickle(path, why_pickle_name(path)));
    if (found_.size() >= kMaxManifestFiles) {
      return schema::fail(ErrorCode::limit_exceeded,
                          fmt::format("more than {} files in the checkpoint", kMaxManifestFiles));
    }
    return take(std::move(fd), path, FileIdentity::of(status));
  }

  schema::Result<void> take(base::UniqueFd fd, const std::string& path, const FileIdentity& identity) {
    auto& found = found_.emplace_back(Found{{path, identity.bytes, {}}, identity});
    if (cache_ != nullptr) {
      if (auto known = cache_->find(identity)) {
        found.file.sha256 = std::move(*known);
        found.cached = true;
        return {};
      }
    }
    // If it refuses, finish() returns the error.
    (void)pool_.add(path, std::move(fd), identity, &found.file.sha256);
    return {};
  }

  std::deque<Found>& found_;
  HashCache* cache_;
  HashPool& pool_;
};

unsigned threads_of(const ManifestOptions& options) {
  const unsigned wanted = options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  return std::clamp(wanted, 1U, kMaxHashThreads);
}

/// Caches what was read and is old enough for a later write to change its times.
schema::Result<void> remember(const std::deque<Found>& found, const ManifestOptions& options) {
  if (options.cache == nullptr) return {};
  std::vector<std::pair<FileIdentity, std::string>> fresh;
  for (const auto& item : found) {
    const auto newest = std::max(item.identity.mtime_ns, item.identity.ctime_ns);
    if (!item.cached && newest + kFreshNs < options.now_ns)
      fresh.emplace_back(item.identity, item.file.sha256);
  }
  return fresh.empty() ? schema::Result<void>{} : options.cache->put(fresh);
}

}  // namespace

schema::Result<Manifest> checkpoint_manifest(const std::string& path, const std::vector<std::string>& roots,
                                             const ManifestOptions& options) {
  auto opened = TRY(open_below(path, roots));
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is not a folder", path));
  }
  std::deque<Found> found;
  HashPool pool(threads_of(options));
  auto walked = Walk(found, options.cache, pool).folder(std::move(opened), "", 0);
  auto hashed = pool.finish();
  if (!walked) return std::unexpected(walked.error());
  if (!hashed) return std::unexpected(hashed.error());
  if (found.empty()) {
    return schema::fail(ErrorCode::invalid_argument, fmt::format("the checkpoint folder {} is empty", path));
  }
  TRY(remember(found, options));
  Manifest manifest;
  for (auto& item : found) {
    manifest.read += item.cached ? 0 : 1;
    manifest.files.push_back(std::move(item.file));
  }
  std::ranges::sort(manifest.files, {}, &ManifestFile::path);
  nlohmann::json list = nlohmann::json::array();
  for (const auto& file : manifest.files) {
    list.push_back({{"path", file.path}, {"size", file.bytes}, {"sha256", file.sha256}});
  }
  manifest.digest = schema::document_digest(schema::canonical_json(list));
  return manifest;
}

}  // namespace driftgate::jobs
