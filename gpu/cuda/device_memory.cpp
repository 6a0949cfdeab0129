#include "gpu/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <new>

namespace driftgate::gpu::cuda {

namespace {

std::string reason(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

}  // namespace

void check(int code, const char* call) {
  const auto error = static_cast<cudaError_t>(code);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // a failed launch would be reported again by the next call
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  throw CudaError(std::string(call) + " failed on device " + (known ? std::to_string(device) : "?") + " (" +
                  reason(error) + ")");
}

void use_device(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    throw CudaError("cudaGetDeviceCount found no usable driver or device (" + reason(error) +
                        "); install a driver for CUDA 13 or use --device cpu",
                    true);
  }
  if (device >= count) {
    throw CudaError("there is no device " + std::to_string(device) + ": this machine has " +
                        std::to_string(count) + " (counted from 0, CUDA_VISIBLE_DEVICES hides others)",
                    true);
  }
  check(cudaSetDevice(device), "cudaSetDevice");
}

std::string device_text(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (properties.major < 8) {
    throw CudaError(std::string("device ") + std::to_string(device) + " (" + properties.name +
                        ") is of compute capability " + std::to_string(properties.major) + "." +
                        std::to_string(properties.minor) + "; 8.0 or newer is needed",
                    true);
  }
  return std::string(properties.name) + ", sm_" + std::to_string(properties.major) +
         std::to_string(properties.minor) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors";
}

std::uint64_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

Buffer::~Buffer() {
  if (where_ == Where::device) cudaFree(data_);
  if (where_ == Where::pinned) cudaFreeHost(data_);
}

void Buffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  void* const old = data_;
  data_ = nullptr;
  bytes_ = 0;
  if (where_ == Where::device) {
    check(cudaFree(old), "cudaFree");
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
  } else {
    check(cudaFreeHost(old), "cudaFreeHost");
    check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
  }
  bytes_ = bytes;
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = stream;
}

Stream::~Stream() {
  cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

void Stream::copy_rows_in(void* to, std::uint64_t to_stride, const void* from, std::uint64_t from_stride,
                          std::uint64_t row_bytes, std::uint64_t rows) {
  check(cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, rows, cudaMemcpyDefault,
                          static_cast<cudaStream_t>(stream_)),
        "cudaMemcpy2DAsync");
}

void Stream::copy(void* to, const void* from, std::uint64_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream_)),
        "cudaMemcpyAsync");
}

void Stream::wait() {
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "cudaStreamSynchronize");
}

Place place_of(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged) {
    return Place::device;
  }
  return attributes.type == cudaMemoryTypeHost ? Place::pinned : Place::pageable;
}

}  // namespace driftgate::gpu::cuda
