#include "gpu/capture/safetensors.hpp"

#include "tests/fuzz/unit.hpp"

/// The header of a capture.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto header = gpu::parse_safetensors_header(bytes, bytes.size());
  if (!header) return;
  for (const auto& tensor : header->tensors) {
    require(tensor.begin <= tensor.end, "a tensor does not end before it begins");
    require(tensor.end <= bytes.size() - header->data_offset, "a tensor lies inside the file");
  }
}
