#include "daemon/library/kept_tensors.hpp"

#include <cstring>
#include <utility>

namespace driftgate::library {

using schema::ErrorCode;
using schema::Result;

namespace {

KeptTensors::Tensor empty_like(const gpu::MemoryTensor& tensor) {
  KeptTensors::Tensor out{tensor.name, tensor.dtype, {tensor.shape.begin() + 1, tensor.shape.end()}, 0, {}};
  out.row_bytes = gpu::size_bytes(tensor.dtype);
  for (const std::uint64_t extent : out.of_row) out.row_bytes *= extent;
  return out;
}

/// Appends rows that may be further apart in memory than they are long. The capacity is there.
void copy_rows(const gpu::MemoryTensor& tensor, std::uint64_t distance, KeptTensors::Tensor& to) {
  const std::uint64_t rows = tensor.shape.front();
  const std::size_t before = to.bytes.size();
  to.bytes.resize(before + static_cast<std::size_t>(rows * to.row_bytes));
  if (distance == to.row_bytes) {
    std::memcpy(to.bytes.data() + before, tensor.data, static_cast<std::size_t>(rows * to.row_bytes));
    return;
  }
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::memcpy(to.bytes.data() + before + row * to.row_bytes, tensor.data + row * distance,
                static_cast<std::size_t>(to.row_bytes));
  }
}

bool is_matrix(const std::string& name) {
  return name == "logits" || name == "hidden";
}

}  // namespace

Result<void> KeptTensors::check(const gpu::MemoryRows& rows) const {
  if (!begun_) return {};
  const auto refuse = [&](const std::string& what) {
    return schema::fail(ErrorCode::not_comparable,
                        rows.name + ": " + what + " differ from those of the rows before");
  };
  if (rows.metadata != metadata_)
    return refuse("the vocabulary, the kind of lists or the error of log-probabilities");
  if (rows.tensors.size() != tensors_.size()) return refuse("what is given of each row");
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor like = empty_like(rows.tensors[i]);
    if (like.name != tensors_[i].name) return refuse("what is given of each row");
    if (like.dtype != tensors_[i].dtype || like.of_row != tensors_[i].of_row)
      return refuse("the type or width of " + like.name);
  }
  return {};
}

void KeptTensors::append(const gpu::MemoryRows& rows) {
  if (!begun_) {
    std::vector<Tensor> tensors;
    for (const gpu::MemoryTensor& tensor : rows.tensors) tensors.push_back(empty_like(tensor));
    metadata_ = rows.metadata;
    tensors_ = std::move(tensors);
    begun_ = true;
  }
  const std::uint64_t count = rows.tensors.front().shape.front();
  for (Tensor& tensor : tensors_) {
    const std::size_t wanted = tensor.bytes.size() + static_cast<std::size_t>(count * tensor.row_bytes);
    // By doubling, as many small batches would copy all rows each time otherwise.
    if (wanted > tensor.bytes.capacity()) tensor.bytes.reserve(std::max(wanted, 2 * tensor.bytes.capacity()));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool apart = rows.row_stride_bytes != 0 && is_matrix(tensors_[i].name);
    copy_rows(rows.tensors[i], apart ? rows.row_stride_bytes : tensors_[i].row_bytes, tensors_[i]);
  }
  rows_ += count;
}

void KeptTensors::truncate(std::uint64_t rows) noexcept {
  for (Tensor& tensor : tensors_) tensor.bytes.resize(static_cast<std::size_t>(rows * tensor.row_bytes));
  rows_ = rows;
}

std::uint64_t KeptTensors::bytes() const {
  std::uint64_t out = 0;
  for (const Tensor& tensor : tensors_) out += tensor.bytes.size();
  return out;
}

gpu::MemoryRows KeptTensors::view(std::string name) const {
  gpu::MemoryRows out{.name = std::move(name), .tensors = {}, .metadata = metadata_};
  for (const Tensor& tensor : tensors_) {
    std::vector<std::uint64_t> shape{rows_};
    shape.insert(shape.end(), tensor.of_row.begin(), tensor.of_row.end());
    out.tensors.push_back({tensor.name, tensor.dtype, std::move(shape), tensor.bytes.data()});
  }
  return out;
}

}  // namespace driftgate::library
