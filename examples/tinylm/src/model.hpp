#pragma once
/// The checkpoint: configuration, weights as stored and widened to float32, and its digest.

#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/tinylm/src/result.hpp"
#include "examples/tinylm/src/safetensors.hpp"

namespace tinylm {

/// Token 256 begins every sequence and ends a text; tokens 0–255 are bytes.
inline constexpr std::int32_t kBos = 256;

struct Config {
  std::size_t hidden = 0, intermediate = 0, layers = 0, heads = 0, vocabulary = 0, max_positions = 0;
  float norm_eps = 0, rope_theta = 0;
};

struct Model {
  Config config;
  TensorFile weights;
  std::string
      checkpoint_digest;  ///< "sha256:…" over path, digest and size of config.json and model.safetensors
};

/// Reads FOLDER/config.json and FOLDER/model.safetensors; each tensor's shape is checked.
Result<Model> load_model(const std::string& folder);

/// Lower-case hexadecimal SHA-256 of a file's bytes.
Result<std::string> file_sha256(const std::string& path);

}  // namespace tinylm
