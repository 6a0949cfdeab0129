#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/safetensors.hpp"
#include "gpu/drift.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// Writes every per-row metric of a measurement as a column [N] F64 of a safetensors file, with
/// sequence_ids, positions and token_ids [N] I64 beside them.
class RowsFile {
 public:
  [[nodiscard]] static schema::Result<RowsFile> create(const std::filesystem::path& path,
                                                       const gpu::Capture& train, const gpu::Capture& inf);
  [[nodiscard]] schema::Result<void> write(std::uint64_t first_row, std::span<const driftgate_row> rows);
  [[nodiscard]] schema::Result<void> finish() { return writer_.finish(); }

 private:
  explicit RowsFile(gpu::SafetensorsWriter writer) : writer_(std::move(writer)) {}
  gpu::SafetensorsWriter writer_;
};

}  // namespace driftgate::cli
