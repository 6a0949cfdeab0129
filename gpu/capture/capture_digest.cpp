#include "gpu/capture/capture_digest.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::gpu {

schema::Result<std::string> capture_digest(const Capture& capture) {
  if (capture.in_memory()) {
    return schema::fail(schema::ErrorCode::unsupported, capture.name() + " are in memory and have no digest");
  }
  std::vector<std::string> digests;
  for (const CaptureSegment& segment : capture.segments()) {
    const auto bytes = segment.file.file_bytes();
    digests.push_back(schema::sha256_digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  if (capture.head() != nullptr) digests.push_back(capture.head()->digest());
  TRY(capture.check_unchanged());
  if (digests.size() == 1) return digests.front();
  return schema::document_digest(schema::canonical_json(nlohmann::json(digests)));
}

}  // namespace driftgate::gpu
