#include "gpu/capture/capture_head.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "gpu/backend/backend_input.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

std::string metadata_of(const SafetensorsHeader& header, const std::string& key, const std::string& absent) {
  const auto found = header.metadata.find(key);
  return found == header.metadata.end() ? absent : found->second;
}

/// 0 where the header does not tell it: of hidden states the head does.
std::uint32_t vocabulary_of(const SafetensorsHeader& header) {
  const auto logits = std::ranges::find(header.tensors, "logits", &TensorInfo::name);
  if (logits != header.tensors.end()) {
    const bool matrix = logits->shape.size() == 2;
    const std::uint64_t width = matrix ? logits->shape[1] : 0;
    return width > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(width);
  }
  const std::string stated = metadata_of(header, "vocabulary", "");
  std::uint32_t vocabulary = 0;
  const auto [end, error] = std::from_chars(stated.data(), stated.data() + stated.size(), vocabulary);
  return error == std::errc{} && end == stated.data() + stated.size() ? vocabulary : 0;
}

}  // namespace

Result<CaptureIdentity> capture_identity(const SafetensorsHeader& header, const std::string& name) {
  CaptureIdentity out;
  if (const std::string version = metadata_of(header, "capture.version", "1"); version != "1") {
    return schema::fail(ErrorCode::unsupported,
                        name + " is a capture of version '" + version + "'; this program reads version 1");
  }
  out.kernel = metadata_of(header, "kernel", "");
  out.checkpoint_digest = metadata_of(header, "checkpoint.digest", "");
  out.corpus_digest = metadata_of(header, "corpus.digest", "");
  out.token_source = metadata_of(header, "token_source", "corpus");
  out.sampling_filter = metadata_of(header, "sampling_filter", "none");
  const std::string temperature = metadata_of(header, "temperature", "1");
  const char* end = temperature.data() + temperature.size();
  const auto [stopped, error] = std::from_chars(temperature.data(), end, out.temperature);
  if (error != std::errc{} || stopped != end || !std::isfinite(out.temperature) ||
      out.temperature < kLeastTemperature) {
    return schema::fail(ErrorCode::invalid_capture, name + ": metadata temperature '" + temperature +
                                                        "' is not a number of at least 1e-6");
  }
  return out;
}

Result<CaptureHead> parse_capture_head(std::string_view bytes, std::uint64_t file_bytes,
                                       const std::string& name) {
  const auto header = parse_safetensors_header(bytes, file_bytes);
  if (!header) return schema::fail(header.error().code, name + ": " + header.error().message);
  auto identity = TRY(capture_identity(*header, name));
  return CaptureHead{std::move(identity), vocabulary_of(*header)};
}

}  // namespace driftgate::gpu
