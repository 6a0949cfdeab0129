#pragma once

#include <cstddef>

/// What gpu/nccl needs of CUDA, on a device that is none (nccl_collective_test.cpp).
enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600, cudaErrorInvalidDevice = 101 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
constexpr unsigned cudaStreamNonBlocking = 1;
struct FakeStream;
using cudaStream_t = FakeStream*;

cudaError_t cudaSetDevice(int device);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
