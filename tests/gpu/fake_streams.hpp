#pragma once

#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "gpu/cuda/device_memory.hpp"

/// gpu/cuda/device_memory.hpp on a device that is none: memory is the host's, full of what nothing has
/// written, and streams do nothing until they are waited for. Definitions: for one file of a program.
namespace driftgate::gpu::cuda {

using Queue = std::vector<std::function<void()>>;
inline Queue& queue_of(StreamHandle stream) {
  return *static_cast<Queue*>(stream);
}
inline constexpr std::align_val_t kFakeAlignment{16};

void check(int code, const char* call) {
  if (code != 0) throw CudaError(std::string(call) + " failed");
}
Buffer::~Buffer() {
  ::operator delete(data_, kFakeAlignment);
}
void Buffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  ::operator delete(data_, kFakeAlignment);
  data_ = ::operator new(bytes, kFakeAlignment);
  std::memset(data_, 0xff, bytes);
  bytes_ = bytes;
}
Stream::Stream() : stream_(new Queue) {}
Stream::~Stream() {
  delete static_cast<Queue*>(stream_);
}
void Stream::copy_rows_in(void* to, std::uint64_t to_stride, const void* from, std::uint64_t from_stride,
                          std::uint64_t row_bytes, std::uint64_t rows) {
  queue_of(stream_).push_back([=] {
    for (std::uint64_t i = 0; i < rows; ++i) {
      std::memcpy(static_cast<char*>(to) + i * to_stride, static_cast<const char*>(from) + i * from_stride,
                  row_bytes);
    }
  });
}
void Stream::copy(void* to, const void* from, std::uint64_t bytes) {
  queue_of(stream_).push_back([=] { std::memcpy(to, from, bytes); });
}
void Stream::wait() {
  for (const auto& work : queue_of(stream_)) work();
  queue_of(stream_).clear();
}

}  // namespace driftgate::gpu::cuda
