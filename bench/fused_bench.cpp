// Compares hidden states through a head with the sgemm of a library on the same products, in interleaved
// rounds of the processor time of one thread: OpenBLAS and oneDNN where they are installed (opened at run
// time), the product alone, core metrics (one product of each kind) and all metrics (two of each), for hidden
// states in float32 and in bf16. The libraries get a float32 copy of the head. Usage: fused_bench
// [vocabulary] [width] [rows] [f32|bf16] [rounds]; the type is that of the head. Prints one JSON object.

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/cpu/half.hpp"
#include "gpu/fused/fused_rows.hpp"

namespace {

using namespace driftgate;

constexpr double kDrift = 0.01;
constexpr std::uint32_t kSeed = 1;

struct Data {
  std::uint32_t vocabulary, width;
  std::size_t rows;
  std::uint32_t dtype;
  std::vector<float> weight, train, drift, inf;
  std::vector<std::uint16_t> weight_bf16;
};

Data make_data(std::uint32_t vocabulary, std::uint32_t width, std::size_t rows, std::uint32_t dtype) {
  Data data{vocabulary, width, rows, dtype, {}, {}, {}, {}, {}};
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  const float size = 3 / std::sqrt(static_cast<float>(width));
  for (std::size_t i = 0; i < std::size_t{vocabulary} * width; ++i) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(size * normal(random)) >> 16);
    data.weight.push_back(gpu::cpu::from_bf16(bits));
    if (dtype == DRIFTGATE_BF16) data.weight_bf16.push_back(bits);
  }
  for (std::size_t i = 0; i < rows * width; ++i) {
    data.train.push_back(normal(random));
    data.drift.push_back(static_cast<float>(kDrift) * normal(random));
    data.inf.push_back(data.train.back() - data.drift.back());
  }
  return data;
}

/// Writes a small capture and its head, so that the head is opened in the usual way.
gpu::Capture write_capture(const Data& data, const std::filesystem::path& folder) {
  const gpu::DType dtype = data.dtype == DRIFTGATE_F32 ? gpu::DType::f32 : gpu::DType::bf16;
  const std::vector<std::int32_t> ids(data.rows);
  const auto write = [](const std::filesystem::path& path,
                        const std::vector<gpu::SafetensorsWriter::Tensor>& tensors,
                        const std::vector<std::span<const std::byte>>& bytes,
                        const std::map<std::string, std::string>& metadata) {
    auto writer = gpu::SafetensorsWriter::create(path, tensors, metadata);
    for (std::size_t i = 0; writer && i < bytes.size(); ++i) {
      if (!writer->write(i, 0, bytes[i])) std::exit(1);
    }
    if (!writer || !writer->finish()) std::exit(1);
  };
  write(folder / "head.bin", {{"lm_head.weight", dtype, {data.vocabulary, data.width}}},
        {data.dtype == DRIFTGATE_F32 ? std::as_bytes(std::span(data.weight))
                                     : std::as_bytes(std::span(data.weight_bf16))},
        {});
  write(
      folder / "capture.safetensors",
      {{"hidden", gpu::DType::f32, {data.rows, data.width}}, {"sequence_ids", gpu::DType::i32, {data.rows}}},
      {std::as_bytes(std::span(data.train)), std::as_bytes(std::span(ids))},
      {{"lm_head", "head.bin#lm_head.weight"}});
  auto capture = gpu::Capture::open(folder / "capture.safetensors");
  if (!capture) {
    fmt::print(stderr, "{}\n", capture.error().describe());
    std::exit(1);
  }
  return std::move(*capture);
}

/// Rate by the processor time of this thread, which other load on the machine affects little.
double seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

/// C[m, n] = A[m, k] · B[n, k]ᵀ
using Sgemm = std::function<void(int m, int n, int k, const float* a, const float* b, float* c)>;

Sgemm openblas() {
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW);
  if (library == nullptr) {
    library = ::dlopen("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0", RTLD_NOW);
  }
  if (library == nullptr) return {};
  using Function =
      void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  const auto function = reinterpret_cast<Function>(::dlsym(library, "cblas_sgemm"));
  return [function](int m, int n, int k, const float* a, const float* b, float* c) {
    constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
    function(kRowMajor, kPlain, kTransposed, m, n, k, 1, a, k, b, k, 0, c, n);
  };
}

Sgemm onednn() {
  void* library = ::dlopen("libdnnl.so.2", RTLD_NOW);
  if (library == nullptr) return {};
  using Function = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                           std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  const auto function = reinterpret_cast<Function>(::dlsym(library, "dnnl_sgemm"));
  return [function](int m, int n, int k, const float* a, const float* b, float* c) {
    function('N', 'T', m, n, k, 1, a, k, b, k, 0, c, n);
  };
}

/// Computes both products with a library, for `tokens` tokens at a time.
void library_products(const Sgemm& sgemm, const Data& data, std::size_t tokens, std::vector<float>& out) {
  for (std::size_t first = 0; first < data.vocabulary; first += tokens) {
    const auto count = static_cast<int>(std::min(tokens, data.vocabulary - first));
    const auto rows = static_cast<int>(data.rows), width = static_cast<int>(data.width);
    const float* weight = data.weight.data() + first * data.width;
    sgemm(rows, count, width, data.train.data(), weight, out.data());
    sgemm(rows, count, width, data.drift.data(), weight, out.data());
  }
}

std::string spread(std::vector<double> values) {
  if (values.empty()) return "null";
  std::ranges::sort(values);
  return fmt::format(R"({{"median": {:.4g}, "min": {:.4g}, "max": {:.4g}}})", values[values.size() / 2],
                     values.front(), values.back());
}

struct Contender {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds;
};

/// Hidden states of one type with what measures them.
struct States {
  const Data& data;
  std::vector<std::uint16_t> train, inf;  ///< in bf16
  gpu::fused::HeadPair heads;
  std::size_t block;
  std::vector<gpu::fused::HiddenRow> rows;
  gpu::fused::BlockProduct product;
  gpu::fused::FusedRows core, all;
  std::vector<driftgate_row> figures;

  States(const Data& from, const gpu::Capture& capture, std::uint32_t dtype)
      : data(from),
        heads(gpu::fused::pair_heads(gpu::fused::best_product(), capture.head(), capture.head(), 1.0,
                                     dtype == DRIFTGATE_BF16)),
        block(gpu::fused::block_rows(gpu::fused::best_product(), data.width)),
        product(gpu::fused::best_product(), heads, block),
        core(gpu::fused::best_product(), heads, 10, DRIFTGATE_METRICS_CORE, data.rows),
        all(gpu::fused::best_product(), heads, 10, DRIFTGATE_METRICS_ALL, data.rows),
        figures(data.rows) {
    const bool half = dtype == DRIFTGATE_BF16;
    const auto cut = [half](const std::vector<float>& values, std::vector<std::uint16_t>& to) {
      for (std::size_t i = 0; half && i < values.size(); ++i)
        to.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16));
    };
    cut(data.train, train), cut(data.inf, inf);
    for (std::size_t row = 0; row < data.rows; ++row) {
      const auto at = [&](const auto& values) {
        return reinterpret_cast<const unsigned char*>(values.data() + row * data.width);
      };
      rows.push_back({half ? at(train) : at(data.train), half ? at(inf) : at(data.inf), dtype, dtype});
    }
  }

  void multiply() {
    constexpr std::size_t kTile = gpu::fused::kTileTokens;
    for (std::size_t begin = 0; begin < data.rows; begin += block) {
      product.set_rows(std::span(rows).subspan(begin, std::min(block, data.rows - begin)));
      for (std::size_t first = 0; first < data.vocabulary; first += kTile) {
        product.multiply(first, std::min<std::size_t>(kTile, data.vocabulary - first));
      }
    }
  }
};

/// The data of all contenders.
struct Bench {
  Data data;
  gpu::Capture capture;
  States wide, half;
  std::vector<float> out;
  Sgemm blas = openblas(), dnn = onednn();

  Bench(Data made, gpu::Capture opened)
      : data(std::move(made)),
        capture(std::move(opened)),
        wide(data, capture, DRIFTGATE_F32),
        half(data, capture, DRIFTGATE_BF16),
        out(data.rows * data.vocabulary) {}
};

constexpr std::size_t kReference =
    6;  ///< the contender that shares refer to: the whole product by the first library

std::vector<Contender> contenders_of(Bench& bench) {
  std::vector<Contender> out;
  for (const auto& [type, states] : {std::pair{"", &bench.wide}, std::pair{" of bf16 states", &bench.half}}) {
    const auto add = [&](const char* name, std::function<void()> work) {
      out.push_back({std::string(name) + type, std::move(work), {}});
    };
    add("product", [of = states] { of->multiply(); });
    add("core metrics", [of = states] { of->core.measure(of->rows, nullptr, of->figures); });
    add("all metrics", [of = states] { of->all.measure(of->rows, nullptr, of->figures); });
  }
  for (const auto& [name, sgemm] : {std::pair{"openblas", &bench.blas}, std::pair{"onednn", &bench.dnn}}) {
    if (!*sgemm) continue;
    const auto by = [&bench, library = sgemm](std::size_t tokens) {
      return [&bench, library, tokens] { library_products(*library, bench.data, tokens, bench.out); };
    };
    out.push_back({std::string(name) + " whole", by(bench.data.vocabulary), {}});
    out.push_back({std::string(name) + " tiles of 256", by(256), {}});
  }
  return out;
}

std::string report(const std::vector<Contender>& contenders, double products) {
  const bool library = contenders.size() > kReference;
  std::string text;
  for (const Contender& contender : contenders) {
    std::vector<double> speeds, shares;
    for (std::size_t i = 0; i < contender.seconds.size(); ++i) {
      speeds.push_back(products / contender.seconds[i] / 1e9);
      if (library) shares.push_back(contenders[kReference].seconds[i] / contender.seconds[i]);
    }
    text += fmt::format("{}\n  \"{}\": {{\"gmac_per_s\": {}, \"share_of_{}\": {}}}", text.empty() ? "" : ",",
                        contender.name, spread(speeds), library ? contenders[kReference].name : "none",
                        spread(shares));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  const auto argument = [&](int at, const char* fallback) {
    return std::string(argc > at ? argv[at] : fallback);
  };
  const auto vocabulary = static_cast<std::uint32_t>(std::stoul(argument(1, "32768")));
  const auto width = static_cast<std::uint32_t>(std::stoul(argument(2, "1024")));
  const std::size_t rows = std::stoul(argument(3, "252"));
  const std::string dtype = argument(4, "bf16");
  const int rounds = std::stoi(argument(5, "7"));
  Data data = make_data(vocabulary, width, rows, dtype == "f32" ? DRIFTGATE_F32 : DRIFTGATE_BF16);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("fused_bench-{}", ::getpid());
  std::filesystem::create_directory(folder);
  gpu::Capture capture = write_capture(data, folder);
  std::filesystem::remove_all(folder);  // the mapping stays
  Bench bench(std::move(data), std::move(capture));
  std::vector<Contender> contenders = contenders_of(bench);
  for (int round = 0; round <= rounds; ++round) {
    for (Contender& contender : contenders) {
      const double seconds = seconds_of(contender.work);
      if (round > 0) contender.seconds.push_back(seconds);  // the first touches pages
    }
  }
  const double stored = 2.0 * static_cast<double>(rows) * vocabulary * (dtype == "f32" ? 4 : 2);
  const auto* pairs = bench.half.heads.pairs;
  fmt::print(
      R"({{"kernel": "{}", "of_bf16_states": "{}", "vocabulary": {}, "width": {}, "rows": {}, "dtype": "{}", "rounds": {},)"
      "\n \"scratch_bytes\": {}, \"share_of_stored_logits\": {:.4g},\n \"contenders\": {{{}}}}}\n",
      gpu::fused::best_product().name, pairs != nullptr ? pairs->name : "the same", vocabulary, width, rows,
      dtype, rounds, bench.wide.all.scratch_bytes(),
      static_cast<double>(bench.wide.all.scratch_bytes()) / stored,
      report(contenders, 2.0 * static_cast<double>(rows) * vocabulary * width));
  return 0;
}
