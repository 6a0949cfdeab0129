#include "daemon/jobs/capture_check.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "daemon/base/read_file.hpp"
#include "daemon/jobs/rooted_path.hpp"

namespace driftgate::jobs {

using schema::ErrorCode;

namespace {

constexpr std::size_t kSizeBytes = 8;  ///< of a header, before it

/// The capture's file, or the first file of its folder: all files of a capture have the same identity, which
/// is checked when they are measured.
schema::Result<std::string> first_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  std::string first;
  for (auto it = std::filesystem::directory_iterator(path, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const auto file = it->path().string();
    if (it->path().extension() == ".safetensors" && (first.empty() || file < first)) first = file;
  }
  if (error) return schema::fail(ErrorCode::io, fmt::format("cannot list {}: {}", path, error.message()));
  if (first.empty())
    return schema::fail(ErrorCode::not_found, fmt::format("{} holds no *.safetensors file", path));
  return first;
}

/// 0 for fewer than eight bytes, which parsing refuses.
std::size_t header_bytes(std::string_view prefix) {
  std::size_t size = 0;
  if (prefix.size() < kSizeBytes) return size;
  for (std::size_t i = 0; i < kSizeBytes; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(prefix[i])) << (8 * i);
  return std::min(size, gpu::kMaxSafetensorsHeaderBytes);
}

}  // namespace

schema::Result<void> check_capture(const gpu::CaptureIdentity& identity, const CaptureOf& wanted,
                                   std::string_view name) {
  if (!identity.kernel.empty() && identity.kernel != wanted.kernel) {
    return schema::fail(
        ErrorCode::not_comparable,
        fmt::format("{} states the kernel '{}', and the contract wants '{}' there: give the capture of that "
                    "kernel, or write that name into its metadata `kernel` if only the name is wrong",
                    name, identity.kernel, wanted.kernel));
  }
  if (!identity.checkpoint_digest.empty() && identity.checkpoint_digest != wanted.checkpoint) {
    return schema::fail(
        ErrorCode::not_comparable,
        fmt::format(
            "{} states the checkpoint.digest '{}', and the candidate's engine serves {}: give a capture "
            "of that checkpoint. `driftgate capture digest --checkpoint DIR` prints what a capture of "
            "the weights in DIR must state",
            name, identity.checkpoint_digest, wanted.checkpoint));
  }
  if (!identity.corpus_digest.empty() && !wanted.corpus.empty() && identity.corpus_digest != wanted.corpus) {
    return schema::fail(
        ErrorCode::not_comparable,
        fmt::format(
            "{} states the corpus.digest '{}', and the corpus given has {}: name the corpus that it was "
            "taken on, or give a capture on this one. `driftgate capture digest --corpus FILE` prints "
            "what a capture on FILE must state",
            name, identity.corpus_digest, wanted.corpus));
  }
  return {};
}

schema::Result<gpu::CaptureHead> read_capture_head(const std::string& uri,
                                                   const std::vector<std::string>& roots) {
  const auto path = TRY(resolve_below(uri, roots));
  const auto file = TRY(first_file(path));
  const auto opened = TRY(open_below(file, roots));
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return schema::fail(ErrorCode::invalid_capture, fmt::format("{} is not a regular file", uri));
  auto bytes = TRY(base::read_head(opened.get(), file, kSizeBytes));
  const auto header = TRY(base::read_head(opened.get(), file, header_bytes(bytes)));
  bytes += header;
  return gpu::parse_capture_head(bytes, static_cast<std::uint64_t>(status.st_size), uri);
}

}  // namespace driftgate::jobs
