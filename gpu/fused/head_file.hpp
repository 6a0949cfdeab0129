#pragma once

#include <string>

#include "gpu/fused/head.hpp"

/// Where the file of a head is: the one place where a path from a capture's metadata is followed.
namespace driftgate::gpu::fused {

inline constexpr const char* kDefaultHeadTensor = "lm_head.weight";
inline constexpr std::size_t kMaxHeadPathBytes = 1'024;

/// Metadata `lm_head` taken apart.
struct HeadName {
  std::string file;  ///< relative to the folder of the capture; empty = the checkpoint's
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
