// Rows per second of each kernel family by the size of the drift, in interleaved rounds of the processor time
// of one thread. Usage: sweep_bench [vocabulary] [f32|bf16|mixed] [rounds] [drift,...] [kernel] ("mixed": f32
// for the training kernel, bf16 for the other). Each round prints one JSON object: for each kernel the rate
// at the first drift, and for each further drift its rate as a share of that.

#include <fmt/core.h>
#include <time.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/cpu/row_engine.hpp"

namespace {

using namespace driftgate;

constexpr std::uint32_t kSeed = 1;
constexpr std::uint64_t kRows = 24;  // 6 MB of float32 at 32,768 columns: beyond the second cache

struct Types {
  std::uint32_t train, inf;
};

struct Data {
  std::vector<unsigned char> train, inf;
  std::vector<std::int64_t> tokens;  ///< drawn from the inference kernel
};

void put(std::vector<unsigned char>& to, float value, std::uint32_t dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&bits);
  const std::size_t skipped = dtype == DRIFTGATE_F32 ? 0 : 2;
  to.insert(to.end(), bytes + skipped, bytes + 4);
}

Data make_data(std::uint32_t vocabulary, Types types, double drift) {
  Data out;
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<double> weights(vocabulary);
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      const float z = 3 * normal(random), y = z + static_cast<float>(drift) * normal(random);
      put(out.train, z, types.train);
      put(out.inf, y, types.inf);
      weights[v] = std::exp(static_cast<double>(y));
    }
    out.tokens.push_back(std::discrete_distribution<std::int64_t>(weights.begin(), weights.end())(random));
  }
  return out;
}

double rate(const gpu::cpu::TileKernel& kernel, const Data& data, std::uint32_t vocabulary, Types types) {
  const auto logits = [&](const std::vector<unsigned char>& bytes, std::uint32_t dtype) {
    return driftgate_logits{bytes.data(), std::uint64_t{vocabulary} * gpu::cpu::element_bytes(dtype), dtype,
                            0};
  };
  const driftgate_batch batch{
      sizeof(driftgate_batch),     vocabulary,         kRows, logits(data.train, types.train),
      logits(data.inf, types.inf), data.tokens.data(), 1.0};
  gpu::cpu::RowEngine engine(kernel, vocabulary, 10);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  for (std::uint64_t i = 0; i < kRows; ++i) engine.measure(batch, i, row);
  return static_cast<double>(kRows) / (now() - start);
}

std::vector<const gpu::cpu::TileKernel*> kernels() {
  std::vector<const gpu::cpu::TileKernel*> out{&gpu::cpu::kPortableKernel};
#ifdef DRIFTGATE_X86
  using namespace gpu::cpu;
  if (&best_kernel() != &kPortableKernel) out.insert(out.end(), {&kAvx2Kernel, &kAvx2MomentKernel});
  if (&best_kernel() == &kAvx512MomentKernel) out.insert(out.end(), {&kAvx512Kernel, &kAvx512MomentKernel});
#endif
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int at, const char* fallback) {
    return std::string(argc > at ? argv[at] : fallback);
  };
  const auto vocabulary = static_cast<std::uint32_t>(std::stoul(argument(1, "32768")));
  const std::string type = argument(2, "f32");
  const Types types{type == "bf16" ? DRIFTGATE_BF16 : DRIFTGATE_F32,
                    type == "f32" ? DRIFTGATE_F32 : DRIFTGATE_BF16};
  const int rounds = std::stoi(argument(3, "7"));
  std::vector<std::string> drifts;
  std::istringstream list(argument(4, "0.01,0.1,0.3,0.5,1,2,5,20"));
  for (std::string part; std::getline(list, part, ',');) drifts.push_back(part);
  std::vector<Data> data;
  for (const std::string& drift : drifts) data.push_back(make_data(vocabulary, types, std::stod(drift)));
  const std::string only = argument(5, "");
  for (int round = 0; round < rounds; ++round) {
    std::string line;
    for (const gpu::cpu::TileKernel* kernel : kernels()) {
      if (!only.empty() && only != kernel->name) continue;
      double first = 0;
      std::string shares;
      for (std::size_t i = 0; i < data.size(); ++i) {
        const double now = rate(*kernel, data[i], vocabulary, types);
        if (i == 0) first = now;
        shares += fmt::format(R"({}"{}": {:.3f})", i == 0 ? "" : ", ", drifts[i], now / first);
      }
      line += fmt::format(R"({}"{}": {{"rows": {:.6g}, "share": {{{}}}}})", line.empty() ? "" : ", ",
                          kernel->name, first, shares);
    }
    fmt::print("{{{}}}\n", line);
    std::fflush(stdout);
  }
  return 0;
}
