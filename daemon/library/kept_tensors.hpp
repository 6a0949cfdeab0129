#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

namespace driftgate::library {

/// Copies of rows that came in batches: the tensors of one capture, each of [rows, ...].
class KeptTensors {
 public:
  struct Tensor {
    std::string name;
    gpu::DType dtype{};
    std::vector<std::uint64_t> of_row;  ///< the shape of one row
    std::uint64_t row_bytes = 0;
    std::vector<std::byte> bytes;
  };

  /// Errors: not_comparable where the rows have other tensors, types, widths or metadata than the first ones.
  [[nodiscard]] schema::Result<void> check(const gpu::MemoryRows& rows) const;
  /// Appends rows that were checked. Adds nothing where memory cannot be had.
  void append(const gpu::MemoryRows& rows);
  /// Forgets all rows but the first ones.
  void truncate(std::uint64_t rows) noexcept;

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// All rows, in the memory of this object.
  [[nodiscard]] gpu::MemoryRows view(std::string name) const;

 private:
  std::vector<Tensor> tensors_;  ///< without rows: those that rows must have, once there were any
  std::map<std::string, std::string> metadata_;
  std::uint64_t rows_ = 0;
  bool begun_ = false;
};

}  // namespace driftgate::library
