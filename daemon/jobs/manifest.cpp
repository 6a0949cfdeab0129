#include "daemon/jobs/manifest.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "daemon/jobs/rooted_path.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr std::array<std::string_view, 6> kPickleEndings{".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt"};
constexpr std::size_t kReadBytes = 1u << 20;

schema::Result<void> hash_file(const Descriptor& file, ManifestFile& entry) {
  schema::Sha256 hash;
  std::vector<char> buffer(kReadBytes);
  while (true) {
    const auto got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return schema::fail(ErrorCode::io, fmt::format("cannot read {}: {}", entry.path, std::strerror(errno)));
    }
    if (got == 0) break;
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    entry.bytes += static_cast<std::uint64_t>(got);
  }
  entry.sha256 = schema::to_hex(hash.finish());
  return {};
}

class Walk {
 public:
  explicit Walk(Manifest& manifest) : manifest_(manifest) {}

  schema::Result<void> folder(Descriptor fd, const std::string& prefix, std::size_t depth) {
    if (depth > kMaxManifestDepth) {
      return schema::fail(ErrorCode::limit_exceeded,
                          fmt::format("{} is more than {} folders deep", prefix, kMaxManifestDepth));
    }
    const int raw = fd.get();
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.release()), &::closedir);
    if (!stream)
      return schema::fail(ErrorCode::io, fmt::format("cannot list {}: {}", prefix, std::strerror(errno)));
    while (const dirent* item = ::readdir(stream.get())) {
      const std::string_view name = item->d_name;
      if (name == "." || name == "..") continue;
      auto done =
          entry(raw, item->d_name, prefix.empty() ? std::string(name) : prefix + "/" + item->d_name, depth);
      if (!done) return done;
    }
    return {};
  }

 private:
  schema::Result<void> entry(int folder_fd, const char* name, const std::string& path, std::size_t depth) {
    Descriptor fd(::openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd && errno == ELOOP) {
      return schema::fail(ErrorCode::forbidden,
                          fmt::format("{} is a symbolic link; a checkpoint holds files only", path));
    }
    if (!fd)
      return schema::fail(ErrorCode::io, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
      return schema::fail(ErrorCode::io, fmt::format("cannot stat {}", path));
    if (S_ISDIR(status.st_mode)) return folder(std::move(fd), path, depth + 1);
    if (!S_ISREG(status.st_mode)) {
      return schema::fail(ErrorCode::forbidden, fmt::format("{} is neither a file nor a folder", path));
    }
    if (std::ranges::any_of(kPickleEndings, [&](auto ending) { return path.ends_with(ending); })) {
      return schema::fail(
          ErrorCode::forbidden,
          fmt::format("{} may be a pickle, which runs code when loaded; use safetensors", path));
    }
    if (manifest_.files.size() >= kMaxManifestFiles) {
      return schema::fail(ErrorCode::limit_exceeded,
                          fmt::format("more than {} files in the checkpoint", kMaxManifestFiles));
    }
    ManifestFile file{path, 0, {}};
    auto hashed = hash_file(fd, file);
    if (hashed) manifest_.files.push_back(std::move(file));
    return hashed;
  }

  Manifest& manifest_;
};

}  // namespace

schema::Result<Manifest> checkpoint_manifest(const std::string& path, const std::vector<std::string>& roots) {
  auto opened = open_below(path, roots);
  if (!opened) return std::unexpected(opened.error());
  struct stat status {};
  if (::fstat(opened->get(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is not a folder", path));
  }
  Manifest manifest;
  auto walked = Walk(manifest).folder(std::move(*opened), "", 0);
  if (!walked) return std::unexpected(walked.error());
  if (manifest.files.empty()) {
    return schema::fail(ErrorCode::invalid_argument, fmt::format("the checkpoint folder {} is empty", path));
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
