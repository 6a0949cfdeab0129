// Rows per second of hidden states through a head on a CUDA device, with core and with all metrics, and of
// the two products (logits and drift) by cuBLAS where it is installed, in bf16 and float32, in interleaved
// rounds. cuBLAS writes its products, one block of rows after the other, and no figures. Usage:
// hidden_cuda_bench LIBRARY [vocabulary] [width] [rows] [rounds] [device]. Prints one JSON object.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gpu/backend/backend_loader.hpp"

namespace {

using namespace driftgate;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSeed = 1;
constexpr double kLogitSize = 3, kDrift = 0.01;
constexpr std::size_t kBlasRows = 256;  ///< that cuBLAS multiplies at a time
constexpr double kGiga = 1e9;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fmt::print(stderr, "{}: {}\n", call, cudaGetErrorString(error));
  std::exit(1);
}

std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000U) >> 16);
}

template <typename T>
T* on_device(const std::vector<T>& values) {
  void* out = nullptr;
  check(cudaMalloc(&out, values.size() * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(out, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<T*>(out);
}

/// A head and hidden states in bf16, and all of it in float32 for cuBLAS.
struct Data {
  std::size_t vocabulary, width, rows;
  std::vector<std::uint16_t> head, train, inf;
  std::vector<float> wide_head, wide_train, centre;
  std::vector<std::uint32_t> tokens;
};

Data make_data(std::size_t vocabulary, std::size_t width, std::size_t rows) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  Data out{vocabulary, width, rows, {}, {}, {}, {}, {}, std::vector<float>(width), {}};
  const auto size = static_cast<float>(kLogitSize / std::sqrt(static_cast<double>(width)));
  out.head.reserve(vocabulary * width), out.wide_head.reserve(vocabulary * width);
  for (std::size_t i = 0; i < vocabulary * width; ++i) {
    out.head.push_back(to_bf16(size * normal(random)));
    out.wide_head.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(out.head.back()) << 16));
  }
  for (std::size_t i = 0; i < rows * width; ++i) {
    const float value = normal(random);
    out.train.push_back(to_bf16(value));
    out.inf.push_back(to_bf16(value + static_cast<float>(kDrift) * normal(random)));
    out.wide_train.push_back(value);
  }
  for (std::uint32_t v = 0; v < vocabulary; ++v) out.tokens.push_back(v);
  return out;
}

/// C = A·Bᵀ of row-major matrices [m, k] and [n, k] in device memory, float32 results.
using Product = std::function<void(int m, int n, int k, const void* a, const void* b, float* c)>;

Product cublas(bool wide) {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW);
  }
  if (library == nullptr) return {};
  using Create = int (*)(void**);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
                       int, const void*, void*, int, int, int, int);
  const auto create = reinterpret_cast<Create>(::dlsym(library, "cublasCreate_v2"));
  const auto gemm = reinterpret_cast<Gemm>(::dlsym(library, "cublasGemmEx"));
  void* handle = nullptr;
  if (create == nullptr || gemm == nullptr || create(&handle) != 0) return {};
  return [=](int m, int n, int k, const void* a, const void* b, float* c) {
    constexpr int kPlain = 0, kTransposed = 1, kFloat = 0, kBf16 = 14, kComputeFloat = 68, kAnyWay = -1;
    const float one = 1, none = 0;
    const int type = wide ? kFloat : kBf16;
    const int status = gemm(handle, kTransposed, kPlain, n, m, k, &one, b, type, k, a, type, k, &none, c,
                            kFloat, n, kComputeFloat, kAnyWay);
    if (status != 0) {
      fmt::print(stderr, "cublasGemmEx: status {}\n", status);
      std::exit(1);
    }
  };
}

double seconds(const std::function<void()>& work) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const auto start = Clock::now();
  work();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Both products of all rows.
void multiply(const Product& product, const Data& data, const void* head, const void* rows, std::size_t bytes,
              float* out) {
  for (int twice = 0; twice < 2; ++twice) {
    for (std::size_t row = 0; row < data.rows; row += kBlasRows) {
      product(static_cast<int>(std::min(kBlasRows, data.rows - row)), static_cast<int>(data.vocabulary),
              static_cast<int>(data.width), static_cast<const char*>(rows) + row * data.width * bytes, head,
              out);
    }
  }
}

std::string spread(std::vector<double> values) {
  if (values.empty()) return "null";
  std::ranges::sort(values);
  return fmt::format(R"({{"median": {:.4g}, "min": {:.4g}, "max": {:.4g}}})", values[values.size() / 2],
                     values.front(), values.back());
}

gpu::Backend open_engine(const std::string& library, int device, const Data& data, std::uint32_t metrics) {
  auto backend = gpu::Backend::open(fmt::format("cuda:{}", device), 4, 10, library, metrics);
  const driftgate_head_weight weight{data.head.data(), data.centre.data(), 1, 0, DRIFTGATE_BF16, 0};
  const auto count = static_cast<std::uint32_t>(data.vocabulary);
  const driftgate_hidden_heads heads{sizeof(heads),
                                     count,
                                     static_cast<std::uint32_t>(data.width),
                                     count,
                                     data.tokens.data(),
                                     nullptr,
                                     nullptr,
                                     weight,
                                     weight,
                                     1.0,
                                     1,
                                     0};
  std::string fault = backend ? "" : backend.error().describe();
  if (backend) {
    auto ok = backend->open_hidden(heads);
    if (ok) return std::move(*backend);
    fault = ok.error().describe();
  }
  fmt::print(stderr, "{}\n", fault);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, const char* fallback) {
    return static_cast<std::size_t>(std::stoul(argc > at ? argv[at] : fallback));
  };
  const std::string library = argc > 1 ? argv[1] : gpu::kCudaLibrary;
  const auto device = static_cast<int>(number(6, "0"));
  const Data data = make_data(number(2, "131072"), number(3, "4096"), number(4, "4096"));
  gpu::Backend all = open_engine(library, device, data, DRIFTGATE_METRICS_ALL);
  gpu::Backend core = open_engine(library, device, data, DRIFTGATE_METRICS_CORE);
  check(cudaSetDevice(device), "cudaSetDevice");
  const std::uint64_t stride = data.width * 2;
  const std::uint16_t* const train = on_device(data.train);
  const driftgate_hidden_batch batch{sizeof(batch),
                                     0,
                                     data.rows,
                                     {train, stride, DRIFTGATE_BF16, 0},
                                     {on_device(data.inf), stride, DRIFTGATE_BF16, 0},
                                     nullptr};
  const Product narrow = cublas(false), wide = cublas(true);
  const std::uint16_t* const head = narrow ? on_device(data.head) : nullptr;
  const float* const wide_head = wide ? on_device(data.wide_head) : nullptr;
  const float* const wide_train = wide ? on_device(data.wide_train) : nullptr;
  float* const out = narrow ? on_device(std::vector<float>(kBlasRows * data.vocabulary)) : nullptr;
  std::vector<driftgate_row> rows(data.rows);
  const auto measure = [&](gpu::Backend& backend) {
    const auto ok = backend.measure_hidden(batch, rows);
    if (ok) return;
    fmt::print(stderr, "{}\n", ok.error().describe());
    std::exit(1);
  };
  const double products = 2.0 * static_cast<double>(data.vocabulary * data.width * data.rows) / kGiga;
  std::vector<double> of_all, of_core, of_narrow, of_wide, share_narrow, share_wide;
  const std::size_t rounds = number(5, "9");
  for (std::size_t round = 0; round <= rounds; ++round) {
    const double all_s = seconds([&] { measure(all); }), core_s = seconds([&] { measure(core); });
    const double narrow_s = narrow ? seconds([&] { multiply(narrow, data, head, train, 2, out); }) : 0;
    const double wide_s = wide ? seconds([&] { multiply(wide, data, wide_head, wide_train, 4, out); }) : 0;
    if (round == 0) continue;  // the first makes buffers
    of_all.push_back(static_cast<double>(data.rows) / all_s);
    of_core.push_back(static_cast<double>(data.rows) / core_s);
    if (!narrow) continue;
    of_narrow.push_back(products / narrow_s), of_wide.push_back(products / wide_s);
    share_narrow.push_back(narrow_s / core_s), share_wide.push_back(wide_s / core_s);
  }
  const auto not_measured = std::ranges::count(rows, DRIFTGATE_ROW_NOT_MEASURED, &driftgate_row::status);
  fmt::print(
      R"({{"engine": "{}", "vocabulary": {}, "width": {}, "rows": {}, "rounds": {}, "rows_not_measured": {},)"
      "\n \"all_rows_per_s\": {},\n \"core_rows_per_s\": {},\n \"cublas_bf16_gmac_per_s\": {},"
      "\n \"cublas_f32_gmac_per_s\": {},\n \"core_share_of_cublas_bf16\": {},\n "
      "\"core_share_of_cublas_f32\": {}}}\n",
      all.describe(), data.vocabulary, data.width, data.rows, rounds, not_measured, spread(of_all),
      spread(of_core), spread(of_narrow), spread(of_wide), spread(share_narrow), spread(share_wide));
  return 0;
}
