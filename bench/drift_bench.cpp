// Compares the drift engine with plain reading of the same bytes, with its own loop over a cached row, and
// with a scalar row loop, in interleaved rounds. Usage: drift_bench [vocabulary] [f32|bf16] [threads]
// [rounds] [drift]. Each round prints one JSON object on a line; with 0 rounds it runs one round for each
// line on standard input, so that it can be interleaved with another program.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/row_loop.hpp"
#include "gpu/backend/backend_loader.hpp"
#include "gpu/cpu/row_engine.hpp"

namespace {

using namespace driftgate;

constexpr std::size_t kPairBytes = std::size_t{128}
                                   << 20;  // both kernels' logits: larger than any cache here
constexpr std::uint32_t kSeed = 1;
constexpr std::uint64_t kCachedRuns = 24, kKernelRows = 24, kLoopRows = 16;

struct Data {
  std::uint32_t vocabulary, dtype;
  std::uint64_t rows;
  std::vector<unsigned char> train, inf;
  bench::RowLoopData loop;
};

void put(unsigned char* to, float value, std::uint32_t dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto high = static_cast<std::uint16_t>(bits >> 16);
  if (dtype == DRIFTGATE_F32) {
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    std::memcpy(to, &high, sizeof(high));
  }
}

/// All rows are rotations of the same noise, which is faster to generate and takes as long to measure.
Data make_data(std::uint32_t vocabulary, std::uint32_t dtype, double drift) {
  const std::size_t bytes = dtype == DRIFTGATE_F32 ? 4 : 2, row_bytes = vocabulary * bytes;
  Data data{vocabulary, dtype, kPairBytes / 2 / row_bytes, {}, {}, {}};
  data.train.resize(data.rows * row_bytes);
  data.inf.resize(data.rows * row_bytes);
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> z(vocabulary), y(vocabulary), base, judged;
  for (std::uint32_t v = 0; v < vocabulary; ++v) {
    z[v] = 3 * normal(random);
    y[v] = z[v] + static_cast<float>(drift) * normal(random);
  }
  for (std::uint64_t row = 0; row < data.rows; ++row) {
    const std::uint64_t shift = row * 7'919;
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      const std::size_t from = (v + shift) % vocabulary, to = row * row_bytes + v * bytes;
      put(data.train.data() + to, z[from], dtype);
      put(data.inf.data() + to, y[from], dtype);
      if (row < kLoopRows) base.push_back(z[from]), judged.push_back(y[from]);
    }
  }
  data.loop = bench::make_row_loop(std::move(base), std::move(judged), vocabulary);
  return data;
}

double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Amounts per second of wall-clock time and of processor time over all threads; the latter is multiplied by
/// the number of threads, so that both are equal on an idle machine.
struct Rate {
  double wall, cpu;
};
template <typename Work>
Rate rate_of(double amount, std::uint32_t threads, const Work& work) {
  const double wall = clock_seconds(CLOCK_MONOTONIC), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  work();
  const double cpu_seconds = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  return {amount / (clock_seconds(CLOCK_MONOTONIC) - wall), amount * threads / cpu_seconds};
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

void read_all(const Data& data, std::uint32_t threads, std::uint64_t& sink) {
  std::vector<std::uint64_t> sums(threads);
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
  for (const std::uint64_t sum : sums) sink += sum;
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

void measure_all(gpu::Backend& backend, const Data& data, std::vector<driftgate_row>& rows) {
  if (auto ok = backend.measure(batch_of(data), rows); !ok) {
    fmt::print(stderr, "{}\n", ok.error().describe());
    std::exit(1);
  }
}

/// The kernels that this processor runs, the slowest first.
std::vector<const gpu::cpu::TileKernel*> kernels() {
  std::vector<const gpu::cpu::TileKernel*> out{&gpu::cpu::kPortableKernel};
#ifdef DRIFTGATE_X86
  using namespace gpu::cpu;
  if (&best_kernel() != &kPortableKernel)
    out.insert(out.end(), {&kAvx2Kernel, &kAvx2NarrowKernel, &kAvx2MomentKernel});
  if (&best_kernel() == &kAvx512MomentKernel)
    out.insert(out.end(), {&kAvx512Kernel, &kAvx512NarrowKernel, &kAvx512MomentKernel});
#endif
  return out;
}

Rate cached_rate(const gpu::cpu::TileKernel& kernel, const Data& data, std::uint32_t metrics) {
  gpu::cpu::RowEngine engine(kernel, data.vocabulary, 10, metrics);
  const driftgate_batch batch = batch_of(data);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  return rate_of(kCachedRuns, 1, [&] {
    for (std::uint64_t i = 0; i < kCachedRuns; ++i) engine.measure(batch, 0, row);
  });
}

Rate kernel_rate(const gpu::cpu::TileKernel& kernel, const Data& data) {
  gpu::cpu::RowEngine engine(kernel, data.vocabulary, 10);
  const driftgate_batch batch = batch_of(data);
  const std::uint64_t rows = std::min(kKernelRows, data.rows);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  return rate_of(static_cast<double>(rows), 1, [&] {
    for (std::uint64_t i = 0; i < rows; ++i) engine.measure(batch, i, row);
  });
}

std::string text(const char* name, Rate rate) {
  return fmt::format(R"("{}": {{"wall": {:.6g}, "cpu": {:.6g}}})", name, rate.wall, rate.cpu);
}

struct Setting {
  const Data& data;
  std::uint32_t threads;
  gpu::Backend &all, &core;
};

/// One round: rows per second of each, and bytes per second of reading.
std::string round_of(const Setting& setting, std::uint64_t& sink) {
  const Data& data = setting.data;
  std::vector<driftgate_row> rows(data.rows);
  const auto amount = static_cast<double>(data.rows);
  const auto bytes = static_cast<double>(data.train.size() + data.inf.size());
  std::string out =
      text("read_bytes", rate_of(bytes, setting.threads, [&] { read_all(data, setting.threads, sink); }));
  const auto add = [&out](const std::string& part) { out += ", " + part; };
  add(text("all", rate_of(amount, setting.threads, [&] { measure_all(setting.all, data, rows); })));
  add(text("core", rate_of(amount, setting.threads, [&] { measure_all(setting.core, data, rows); })));
  add(text("row_loop", rate_of(kLoopRows, setting.threads,
                               [&] { sink += bench::run_row_loop(data.loop, setting.threads).same_top; })));
  const auto& best = gpu::cpu::best_kernel();
  add(text("cached_all", cached_rate(best, data, DRIFTGATE_METRICS_ALL)));
  add(text("cached_core", cached_rate(best, data, DRIFTGATE_METRICS_CORE)));
  for (const gpu::cpu::TileKernel* kernel : kernels()) add(text(kernel->name, kernel_rate(*kernel, data)));
  return "{" + out + "}";
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, const char* fallback) {
    return std::string(argc > at ? argv[at] : fallback);
  };
  const auto vocabulary = static_cast<std::uint32_t>(std::stoul(argument(1, "32768")));
  const std::uint32_t dtype = argument(2, "f32") == "bf16" ? DRIFTGATE_BF16 : DRIFTGATE_F32;
  const auto threads = static_cast<std::uint32_t>(std::stoul(argument(3, "1")));
  const int rounds = std::stoi(argument(4, "7"));
  const Data data = make_data(vocabulary, dtype, std::stod(argument(5, "0.01")));
  auto all = gpu::Backend::open("cpu", threads, 10);
  auto core = gpu::Backend::open("cpu", threads, 10, gpu::kCudaLibrary, DRIFTGATE_METRICS_CORE);
  if (!all || !core) {
    fmt::print(stderr, "{}\n", (all ? core : all).error().describe());
    return 1;
  }
  std::uint64_t sink = 0;
  const Setting setting{data, threads, *all, *core};
  (void)round_of(setting, sink);  // touches pages and makes scratch
  std::string line;
  for (int round = 0; rounds == 0 ? static_cast<bool>(std::getline(std::cin, line)) : round < rounds;
       ++round) {
    fmt::print("{}\n", round_of(setting, sink));
    std::fflush(stdout);
  }
  return sink == 42 ? 3 : 0;
}
