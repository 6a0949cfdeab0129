#pragma once

#include <string>

#include "gpu/fused/head.hpp"

/// Finds the file of a head: the only place where a path from the metadata of a capture is followed.
namespace driftgate::gpu::fused {

inline constexpr const char* kDefaultHeadTensor = "lm_head.weight";
inline constexpr std::size_t kMaxHeadPathBytes = 1'024;

/// The parts of the metadata `lm_head`.
struct HeadName {
  std::string file;  ///< relative to the folder of the capture; empty: a file of the checkpoint
  std::string tensor;
};
/// Errors: invalid_capture for an absolute path, a part "..", an empty part, a NUL or no tensor.
[[nodiscard]] schema::Result<HeadName> parse_head_name(const SafetensorsFile& capture);

struct HeadFile {
  SafetensorsFile file;
  std::string name;  ///< for messages
};
/// Opens the file that holds the tensor: the caller's `lm_head`, the file that the metadata names, or the
/// first file of the checkpoint that has the tensor.
[[nodiscard]] schema::Result<HeadFile> open_head_file(const SafetensorsFile& capture, const HeadName& name,
                                                      const HeadSource& source);

}  // namespace driftgate::gpu::fused
