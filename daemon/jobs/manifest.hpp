#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::jobs {

struct ManifestFile {
  std::string path;  ///< relative to the folder, '/' between parts
  std::uint64_t bytes = 0;
  std::string sha256;  ///< 64 hex digits
};

/// Every file of a checkpoint folder, sorted by path (pipeline.md, section 1).
struct Manifest {
  std::vector<ManifestFile> files;
  std::string digest;  ///< "sha256:…" of the canonical JSON [{"path", "sha256", "size"}, …]
};
inline constexpr std::size_t kMaxManifestFiles = 10'000;
inline constexpr std::size_t kMaxManifestDepth = 16;

/// Hashes the folder `path`, a path below one of `roots` (see rooted_path.hpp). Symbolic links and pickle
/// files (.pkl, .pickle, .pt, .pth, .bin, .ckpt) are refused by name.
[[nodiscard]] schema::Result<Manifest> checkpoint_manifest(const std::string& path,
                                                           const std::vector<std::string>& roots);

}  // namespace driftgate::jobs
