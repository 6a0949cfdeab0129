// Rows per second of the drift engine against plain reading of the same bytes, in interleaved rounds,
// and of each kernel that this processor runs, by one thread.
// Usage: drift_bench [vocabulary] [f32|bf16] [threads] [rounds]. Prints one JSON object.

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu/backend_loader.hpp"
#include "gpu/cpu/row_engine.hpp"

namespace {

using namespace driftgate;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairBytes = std::size_t{256}
                                   << 20;  // both kernels' logits: larger than any cache here
constexpr double kDrift = 0.01;
constexpr std::uint32_t kSeed = 1;

struct Data {
  std::uint32_t vocabulary, dtype;
  std::uint64_t rows;
  std::vector<unsigned char> train, inf;
};

void append(std::vector<unsigned char>& out, float value, std::uint32_t dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::size_t bytes = dtype == DRIFTGATE_F32 ? 4 : 2;
  const std::uint32_t kept = dtype == DRIFTGATE_F32 ? bits : bits >> 16;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<unsigned char>(kept >> (8 * i)));
}

Data make_data(std::uint32_t vocabulary, std::uint32_t dtype) {
  const std::size_t row_bytes = vocabulary * (dtype == DRIFTGATE_F32 ? 4U : 2U);
  Data data{vocabulary, dtype, kPairBytes / 2 / row_bytes, {}, {}};
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  data.train.reserve(data.rows * row_bytes);
  data.inf.reserve(data.rows * row_bytes);
  for (std::uint64_t i = 0; i < data.rows * vocabulary; ++i) {
    const float z = 3 * normal(random);
    append(data.train, z, dtype);
    append(data.inf, z + static_cast<float>(kDrift) * normal(random), dtype);
  }
  return data;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t read_words(const std::vector<unsigned char>& bytes, std::size_t begin, std::size_t end) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = begin; at + 64 <= end; at += 64) {
    std::uint64_t words[8];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (std::size_t i = 0; i < 8; ++i) sums[i] += words[i];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

/// Bytes per second of reading both buffers with `threads` threads.
double read_round(const Data& data, std::uint32_t threads, std::uint64_t& sink) {
  std::vector<std::uint64_t> sums(threads);
  const auto start = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (std::uint32_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const std::size_t size = data.train.size();
        const std::size_t begin = size * t / threads / 64 * 64, end = size * (t + 1) / threads;
        sums[t] = read_words(data.train, begin, end) + read_words(data.inf, begin, end);
      });
    }
  }
  const double seconds = seconds_since(start);
  for (const std::uint64_t sum : sums) sink += sum;
  return static_cast<double>(data.train.size() + data.inf.size()) / seconds;
}

driftgate_batch batch_of(const Data& data) {
  const std::uint64_t stride = data.train.size() / data.rows;
  return {sizeof(driftgate_batch),
          data.vocabulary,
          data.rows,
          {data.train.data(), stride, data.dtype, 0},
          {data.inf.data(), stride, data.dtype, 0},
          nullptr,
          1.0};
}

double engine_round(gpu::Backend& backend, const Data& data, std::vector<driftgate_row>& rows) {
  const driftgate_batch batch = batch_of(data);
  const auto start = Clock::now();
  if (auto ok = backend.measure(batch, rows); !ok) {
    fmt::print(stderr, "{}\n", ok.error().describe());
    std::exit(1);
  }
  return static_cast<double>(data.rows) / seconds_since(start);
}

constexpr std::uint64_t kKernelRows = 64;

/// The kernels that this processor runs, the slowest first.
std::vector<const gpu::cpu::TileKernel*> kernels() {
  std::vector<const gpu::cpu::TileKernel*> out{&gpu::cpu::kPortableKernel};
#ifdef DRIFTGATE_X86
  if (&gpu::cpu::best_kernel() != &gpu::cpu::kPortableKernel) {
    out.insert(out.end(),
               {&gpu::cpu::kAvx2Kernel, &gpu::cpu::kAvx2NarrowKernel, &gpu::cpu::kAvx2MomentKernel});
  }
  if (&gpu::cpu::best_kernel() == &gpu::cpu::kAvx512MomentKernel) {
    out.insert(out.end(),
               {&gpu::cpu::kAvx512Kernel, &gpu::cpu::kAvx512NarrowKernel, &gpu::cpu::kAvx512MomentKernel});
  }
#endif
  return out;
}

double kernel_round(const gpu::cpu::TileKernel& kernel, const Data& data) {
  const driftgate_batch batch = batch_of(data);
  const std::uint64_t rows = std::min(kKernelRows, data.rows);
  gpu::cpu::RowEngine engine(kernel, data.vocabulary, 10);
  driftgate_row row{};
  engine.measure(batch, 0, row);  // touches the scratch
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < rows; ++i) engine.measure(batch, i, row);
  return static_cast<double>(rows) / seconds_since(start);
}

std::string spread(std::vector<double> values) {
  std::ranges::sort(values);
  return fmt::format(R"({{"median": {:.4g}, "min": {:.4g}, "max": {:.4g}}})", values[values.size() / 2],
                     values.front(), values.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, const char* fallback) {
    return std::string(argc > at ? argv[at] : fallback);
  };
  const auto vocabulary = static_cast<std::uint32_t>(std::stoul(argument(1, "32768")));
  const std::string dtype = argument(2, "f32");
  const auto threads = static_cast<std::uint32_t>(std::stoul(argument(3, "1")));
  const int rounds = std::stoi(argument(4, "7"));
  const Data data = make_data(vocabulary, dtype == "bf16" ? DRIFTGATE_BF16 : DRIFTGATE_F32);
  auto backend = gpu::Backend::open("cpu", threads, 10);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().describe());
    return 1;
  }
  std::vector<driftgate_row> rows(data.rows);
  std::vector<double> read, engine, ratio;
  std::vector<std::vector<double>> by_kernel(kernels().size());
  std::uint64_t sink = 0;
  for (int round = 0; round <= rounds; ++round) {
    const double bandwidth = read_round(data, threads, sink);
    const double speed = engine_round(*backend, data, rows);
    std::vector<double> speeds;
    for (const gpu::cpu::TileKernel* kernel : kernels()) speeds.push_back(kernel_round(*kernel, data));
    if (round == 0) continue;  // the first touches pages and makes scratch
    const double bytes = 2.0 * static_cast<double>(data.train.size()) / static_cast<double>(data.rows);
    read.push_back(bandwidth / 1e9);
    engine.push_back(speed);
    ratio.push_back(speed * bytes / bandwidth);
    for (std::size_t i = 0; i < speeds.size(); ++i) by_kernel[i].push_back(speeds[i]);
  }
  std::string single;
  for (std::size_t i = 0; i < by_kernel.size(); ++i) {
    single += fmt::format("{}\n  \"{}\": {}", i == 0 ? "" : ",", kernels()[i]->name, spread(by_kernel[i]));
  }
  fmt::print(R"({{"engine": "{}", "vocabulary": {}, "dtype": "{}", "rows": {}, "rounds": {}, "check": {},)"
             "\n \"read_gb_per_s\": {},\n \"rows_per_s\": {},\n \"share_of_read_bandwidth\": {},"
             "\n \"kernel_rows_per_s\": {{{}}}}}\n",
             backend->describe(), vocabulary, dtype, data.rows, rounds, sink % 1000, spread(read),
             spread(engine), spread(ratio), single);
  return 0;
}
