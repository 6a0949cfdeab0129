#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/jobs/job_folder.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/chunks/chunking.hpp"

namespace driftgate::jobs {

/// The folder of kept chunks in a job's folder.
inline constexpr const char* kChunksFolder = "chunks";

/// What identifies the files of a capture on every host that shares them, with the digest of its head.
[[nodiscard]] std::string stamps_of(const gpu::Capture& capture);

/// The chunks of a job in its folder, one file each: "DGCK", the digest of what was measured and how, the
/// digest of the bytes, the bytes. What is read is not trusted: a file that is damaged, too large, or of
/// something else is the same as none. Safe for several ranks.
class KeptChunks final : public gpu::ChunkStore {
 public:
  /// `job`: what identifies the job and its inputs.
  KeptChunks(const JobFolder& folder, std::string job)
      : folder_(folder.file(kChunksFolder)), job_(std::move(job)) {}
  [[nodiscard]] std::optional<std::string> find(const std::string& name, const std::string& key) override;
  [[nodiscard]] schema::Result<void> keep(const std::string& name, const std::string& key,
                                          std::string_view bytes) override;
  /// Deletes all chunks of the job; failures are ignored.
  void clear() const;

 private:
  [[nodiscard]] std::string head(const std::string& name, const std::string& key,
                                 std::string_view bytes) const;
  std::string folder_, job_;
};

/// Moves the chunks of the attempt before, "promotion/stage/ATTEMPT/name" with a number less by one, into the
/// folder of a job that has none yet, unless a worker of that attempt lives. Both folders lie beside each
/// other.
void take_over_chunks(const JobFolder& folder, std::string_view key);

}  // namespace driftgate::jobs
