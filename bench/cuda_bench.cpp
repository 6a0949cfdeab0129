// Rows per second of the CUDA backend on logits in device memory, compared with copying the same bytes within
// the device, in interleaved rounds; then on logits that are streamed from host memory.
// Usage: cuda_bench LIBRARY [vocabulary] [f32|bf16] [all|core] [rounds] [device]. Prints one JSON object.

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gpu/backend/backend_loader.hpp"

namespace {

using namespace driftgate;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairBytes = std::size_t{4} << 30;  // both kernels' logits: far more than any cache
constexpr std::size_t kHostBytes = std::size_t{512} << 20;
constexpr std::size_t kRandomRows = 32;  // repeated to fill the device: no two reads hit the same address
constexpr float kDrift = 0.01F;
constexpr std::uint32_t kSeed = 1;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fmt::print(stderr, "{}: {}\n", call, cudaGetErrorString(error));
  std::exit(1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string spread(std::vector<double> values) {
  std::ranges::sort(values);
  return fmt::format(R"({{"median": {:.4g}, "min": {:.4g}, "max": {:.4g}}})", values[values.size() / 2],
                     values.front(), values.back());
}

struct Shape {
  std::uint32_t vocabulary, dtype;
  [[nodiscard]] std::size_t row_bytes() const {
    return std::size_t{vocabulary} * (dtype == DRIFTGATE_F32 ? 4 : 2);
  }
};

void append(std::vector<unsigned char>& out, float value, std::uint32_t dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t kept = dtype == DRIFTGATE_F32 ? bits : (bits + 0x8000U) >> 16;
  for (std::size_t i = 0; i < (dtype == DRIFTGATE_F32 ? 4U : 2U); ++i) {
    out.push_back(static_cast<unsigned char>(kept >> (8 * i)));
  }
}

/// `rows` rows of each kernel on the host.
void make_rows(const Shape& shape, std::size_t rows, std::vector<unsigned char>& train,
               std::vector<unsigned char>& inf) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < rows * shape.vocabulary; ++i) {
    const float z = 3 * normal(random);
    append(train, z, shape.dtype);
    append(inf, z + kDrift * normal(random), shape.dtype);
  }
}

/// Fills `rows` rows on the device by repeating those of the host.
void* fill_device(const Shape& shape, const std::vector<unsigned char>& from, std::size_t rows) {
  void* out = nullptr;
  check(cudaMalloc(&out, rows * shape.row_bytes()), "cudaMalloc");
  for (std::size_t row = 0; row < rows; row += kRandomRows) {
    const std::size_t count = std::min(kRandomRows, rows - row);
    check(cudaMemcpy(static_cast<char*>(out) + row * shape.row_bytes(), from.data(),
                     count * shape.row_bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  return out;
}

driftgate_batch batch_of(const Shape& shape, const void* train, const void* inf, std::size_t rows) {
  return {sizeof(driftgate_batch),
          shape.vocabulary,
          rows,
          {train, shape.row_bytes(), shape.dtype, 0},
          {inf, shape.row_bytes(), shape.dtype, 0},
          nullptr,
          1.0};
}

double engine_round(gpu::Backend& backend, const driftgate_batch& batch, std::vector<driftgate_row>& rows) {
  const auto start = Clock::now();
  if (auto ok = backend.measure(batch, {rows.data(), batch.rows}); !ok) {
    fmt::print(stderr, "{}\n", ok.error().describe());
    std::exit(1);
  }
  return static_cast<double>(batch.rows) / seconds_since(start);
}

/// Bytes read and written per second by a copy within the device.
double copy_round(void* to, const void* from, std::size_t bytes) {
  const auto start = Clock::now();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr), "cudaMemcpyAsync");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return 2.0 * static_cast<double>(bytes) / seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, const char* fallback) {
    return std::string(argc > at ? argv[at] : fallback);
  };
  const std::string dtype = argument(3, "bf16"), metrics = argument(4, "all");
  const Shape shape{static_cast<std::uint32_t>(std::stoul(argument(2, "131072"))),
                    dtype == "f32" ? DRIFTGATE_F32 : DRIFTGATE_BF16};
  const int rounds = std::stoi(argument(5, "9")), device = std::stoi(argument(6, "0"));
  auto backend = gpu::Backend::open(fmt::format("cuda:{}", device), 4, 10, argument(1, gpu::kCudaLibrary),
                                    metrics == "core" ? DRIFTGATE_METRICS_CORE : DRIFTGATE_METRICS_ALL);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().describe());
    return 1;
  }
  check(cudaSetDevice(device), "cudaSetDevice");
  const std::size_t rows = kPairBytes / 2 / shape.row_bytes();
  const std::size_t host_rows = std::min(rows, kHostBytes / 2 / shape.row_bytes());
  std::vector<unsigned char> train, inf;
  make_rows(shape, kRandomRows, train, inf);
  const void* const device_train = fill_device(shape, train, rows);
  const void* const device_inf = fill_device(shape, inf, rows);
  void* const copy = fill_device(shape, train, rows);
  while (train.size() < host_rows * shape.row_bytes()) {
    train.resize(train.size() * 2), inf.resize(inf.size() * 2);
    std::copy_n(train.begin(), train.size() / 2,
                train.begin() + static_cast<std::ptrdiff_t>(train.size() / 2));
    std::copy_n(inf.begin(), inf.size() / 2, inf.begin() + static_cast<std::ptrdiff_t>(inf.size() / 2));
  }
  std::vector<driftgate_row> results(rows);
  std::vector<double> bandwidth, engine, share, streamed;
  const double pair = 2.0 * static_cast<double>(shape.row_bytes());
  for (int round = 0; round <= rounds; ++round) {
    const double copied = copy_round(copy, device_train, rows * shape.row_bytes());
    const double speed = engine_round(*backend, batch_of(shape, device_train, device_inf, rows), results);
    const double host = engine_round(*backend, batch_of(shape, train.data(), inf.data(), host_rows), results);
    if (round == 0) continue;  // the first makes buffers
    bandwidth.push_back(copied / 1e9);
    engine.push_back(speed);
    share.push_back(speed * pair / copied);
    streamed.push_back(host * pair / 1e9);
  }
  fmt::print(
      R"({{"engine": "{}", "vocabulary": {}, "dtype": "{}", "metrics": "{}", "rows": {}, "rounds": {},)"
      "\n \"device_copy_gb_per_s\": {},\n \"rows_per_s\": {},\n \"share_of_device_copy\": {},"
      "\n \"streamed_from_host_gb_per_s\": {}}}\n",
      backend->describe(), shape.vocabulary, dtype, metrics, rows, rounds, spread(bandwidth), spread(engine),
      spread(share), spread(streamed));
  return 0;
}
