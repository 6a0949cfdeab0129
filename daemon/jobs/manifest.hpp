#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/jobs/file_identity.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

struct ManifestFile {
  std::string path;  ///< relative to the folder, '/' between parts
  std::uint64_t bytes = 0;
  std::string sha256;  ///< 64 hex digits
};

/// Every file of a checkpoint folder, sorted by path (docs/design/pipeline.md, "Words").
struct Manifest {
  std::vector<ManifestFile> files;
  std::string digest;    ///< "sha256:…" of the canonical JSON [{"path", "sha256", "size"}, …]
  std::size_t read = 0;  ///< files that were read now; the others' hashes were cached
};

struct ManifestOptions {
  unsigned threads = 0;        ///< that hash; 0: one for each processor, at most kMaxHashThreads
  HashCache* cache = nullptr;  ///< of files hashed before; may be absent
  std::int64_t now_ns = 0;     ///< wall clock, ns since the epoch: says which files are too fresh to cache
};
inline constexpr unsigned kMaxHashThreads = 8;
/// A file changed so lately that another write may leave its times as they are is not cached.
inline constexpr std::int64_t kFreshNs = 2'000'000'000;
inline constexpr std::size_t kMaxManifestFiles = 10'000;
inline constexpr std::size_t kMaxManifestDepth = 16;

/// Hashes the folder `path`, a path below one of `roots` (see rooted_path.hpp), each file through the
/// descriptor that was checked. Symbolic links and pickle files (by name and by content, see pickle.hpp) are
/// refused. `conflict` when a file changes meanwhile.
[[nodiscard]] schema::Result<Manifest> checkpoint_manifest(const std::string& path,
                                                           const std::vector<std::string>& roots,
                                                           const ManifestOptions& options = {});

}  // namespace driftgate::jobs
