#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Memory and streams of one device, in an interface without CUDA types. Every call is checked; a failure is
/// thrown as CudaError inside the plugin and becomes a status in its table of functions.
namespace driftgate::gpu::cuda {

/// A failed CUDA call: which call, why, and on which device.
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

/// Selects `device` for the calling thread. Throws CudaError (unavailable) with the reason when there is no
/// driver, no device or none with this index.
void use_device(int device);
/// Description of a device: "NVIDIA H100, sm_90, 132 multiprocessors".
[[nodiscard]] std::string device_text(int device);
[[nodiscard]] std::uint64_t free_bytes();

enum class Where { device, pinned };

/// A block of device memory or page-locked host memory. It only grows.
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

/// A CUDA stream.
class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  [[nodiscard]] void* handle() const { return stream_; }
  /// Copies rows to device memory, from page-locked or device memory.
  void copy_rows_in(void* to, std::uint64_t to_stride, const void* from, std::uint64_t from_stride,
                    std::uint64_t row_bytes, std::uint64_t rows);
  void copy(void* to, const void* from, std::uint64_t bytes);
  /// Waits until the stream is empty; throws CudaError when a kernel in it failed.
  void wait();

 private:
  void* stream_ = nullptr;
};

/// Waits for the work of every slot and discards it. Its failures are ignored: the first failure is the one
/// to report.
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

/// The kind of memory that the logits of the caller are in.
enum class Place { pageable, pinned, device };
[[nodiscard]] Place place_of(const void* data);

}  // namespace driftgate::gpu::cuda
