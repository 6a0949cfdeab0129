#pragma once
/// Safetensors files: small ones are read whole; captures are written whole.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "examples/tinylm/src/result.hpp"

namespace tinylm {

struct Tensor {
  std::vector<std::size_t> shape;
  std::vector<float> floats;           ///< values of F32 and, widened, F16 tensors
  std::vector<std::int32_t> integers;  ///< values of I32 tensors
};

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads F32, F16 and I32 tensors; a tensor outside the file or of another type is an error.
Result<TensorFile> read_safetensors(const std::string& path);

/// Writes F32 and I32 tensors in name order, then renames into place.
Result<void> write_safetensors(const std::string& path, const TensorFile& file);

}  // namespace tinylm
