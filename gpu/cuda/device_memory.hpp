#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Memory and streams of one device, free of CUDA's types. Every call is checked; a failure is thrown as
/// CudaError inside the plugin and becomes a status at its table.
namespace driftgate::gpu::cuda {

/// A call to CUDA that failed: which, why, on which device.
class CudaError {
 public:
  explicit CudaError(std::string text, bool unavailable = false)
      : text_(std::move(text)), unavailable_(unavailable) {}
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool unavailable() const { return unavailable_; }

 private:
  std::string text_;
  bool unavailable_;
};

/// Throws CudaError unless `code` (a cudaError_t) is success.
void check(int code, const char* call);

/// Makes `device` the calling thread's. Throws an unavailable CudaError with the reason when there is no
/// driver, no device or none of that index.
void use_device(int device);
/// "NVIDIA H100, sm_90, 132 multiprocessors".
[[nodiscard]] std::string device_text(int device);
[[nodiscard]] std::uint64_t free_bytes();

enum class Where { device, pinned };

/// A block of device or page-locked host memory, which only grows.
class Buffer {
 public:
  explicit Buffer(Where where) : where_(where) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void reserve(std::size_t bytes);
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Where where_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A stream with an event that says when what was put into it is done.
class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  [[nodiscard]] void* handle() const { return stream_; }
  /// To device memory, from page-locked or device memory.
  void copy_rows_in(void* to, std::uint64_t to_stride, const void* from, std::uint64_t from_stride,
                    std::uint64_t row_bytes, std::uint64_t rows);
  void copy(void* to, const void* from, std::uint64_t bytes);
  /// Waits for everything in the stream, and reports what a kernel in it did wrong.
  void wait();

 private:
  void* stream_ = nullptr;
};

/// Waits for what is under way in each slot and forgets it: the first failure is the one to report.
template <typename Slots>
void drain(Slots& slots) {
  for (auto& slot : slots) {
    slot.rows = 0;
    try {
      slot.stream.wait();
    } catch (const CudaError&) {
      continue;
    }
  }
}

/// Where a caller's logits are.
enum class Place { pageable, pinned, device };
[[nodiscard]] Place place_of(const void* data);

}  // namespace driftgate::gpu::cuda
