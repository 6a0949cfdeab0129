// What the C interface costs beside the calls of the command line: the time of one call for a tiny input, and
// the rate of many rows of logits in memory against that of the command's path over the same rows in files.
// Usage: library_bench [rows] [vocabulary] [rounds] [threads]. Prints one JSON object.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "daemon/drift/inputs.hpp"
#include "daemon/drift/make_report.hpp"
#include "daemon/library/driftgate.h"
#include "gpu/capture/safetensors.hpp"
#include "gpu/compare_bits.hpp"

namespace {

using namespace driftgate;
using Clock = std::chrono::steady_clock;

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "library_bench: {}\n", why);
  std::exit(1);
}

template <typename T>
T must(schema::Result<T> result) {
  if (!result) stop(result.error().describe());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
void must(dg_status status) {
  if (status != DG_OK) stop(dg_last_error().data);
}

double seconds(const auto& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Side {
  std::vector<float> logits;
  std::string path;
};

/// Rows of both kernels, in memory and in a file each.
struct Data {
  std::uint64_t rows;
  std::uint32_t vocabulary;
  std::vector<std::int64_t> tokens, sequences;
  Side train, inf;
};

void write(const Data& data, const Side& side) {
  auto file = must(gpu::SafetensorsWriter::create(side.path,
                                                  {{"logits", gpu::DType::f32, {data.rows, data.vocabulary}},
                                                   {"token_ids", gpu::DType::i64, {data.rows}},
                                                   {"sequence_ids", gpu::DType::i64, {data.rows}}},
                                                  {}));
  must(file.write(0, 0, std::as_bytes(std::span(side.logits))));
  must(file.write(1, 0, std::as_bytes(std::span(data.tokens))));
  must(file.write(2, 0, std::as_bytes(std::span(data.sequences))));
  must(file.finish());
}

Data make(const std::filesystem::path& folder, std::uint64_t rows, std::uint32_t vocabulary) {
  Data data{rows, vocabulary, {}, {}, {{}, folder / "train.safetensors"}, {{}, folder / "inf.safetensors"}};
  std::minstd_rand random(1);
  const auto unit = [&random] {
    return static_cast<float>(random()) / static_cast<float>(std::minstd_rand::max());
  };
  for (std::uint64_t row = 0; row < rows; ++row) {
    data.tokens.push_back(static_cast<std::int64_t>(random() % vocabulary));
    data.sequences.push_back(static_cast<std::int64_t>(row / 16));
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      const float logit = 12 * unit() - 6;
      data.train.logits.push_back(logit);
      data.inf.logits.push_back(logit + 0.01F * unit());
    }
  }
  write(data, data.train);
  write(data, data.inf);
  return data;
}

/// What `driftgate drift` does between its arguments and its JSON, for files.
void by_files(const Data& data, std::uint32_t threads) {
  drift::InputArgs args;
  args.train = data.train.path;
  args.inf = data.inf.path;
  const auto inputs = must(drift::open_inputs(args));
  drift::MeasureArgs how;
  how.threads = threads;
  const auto table = must(gpu::measure_with_bits(inputs.train, inputs.inf, inputs.slices(),
                                                 drift::options_for(nullptr, nullptr, how), {}));
  const auto report = drift::make_report(inputs, table, {false, "cpu", std::nullopt});
  if (drift::drift_json(report).empty()) stop("no JSON");
}

dg_capture* capture_of(const Data& data, const Side& side) {
  dg_rows rows{};
  rows.struct_size = sizeof(rows);
  rows.rows = data.rows;
  rows.tokens = data.tokens.data();
  rows.sequences = data.sequences.data();
  rows.logits = {side.logits.data(), 0, DG_F32, data.vocabulary};
  dg_capture* out = nullptr;
  must(dg_capture_from_rows(&rows, nullptr, dg_text_of(side.path.c_str()), &out, nullptr));
  return out;
}

/// The same by the C interface, for rows in memory.
void by_memory(const Data& data, std::uint32_t threads) {
  dg_inputs inputs{};
  inputs.struct_size = sizeof(inputs);
  dg_capture* train = capture_of(data, data.train);
  dg_capture* inf = capture_of(data, data.inf);
  inputs.train = train;
  inputs.inf = inf;
  dg_options options{};
  options.struct_size = sizeof(options);
  options.threads = threads;
  dg_result* result = nullptr;
  must(dg_measure(&inputs, &options, &result, nullptr));
  dg_text text{};
  must(dg_result_format(result, DG_FORMAT_JSON, &text, nullptr));
  dg_result_close(result);
  dg_capture_close(train);
  dg_capture_close(inf);
}

gpu::MemoryRows memory_of(const Data& data, const Side& side) {
  const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
  return {.name = side.path,
          .tensors = {{"logits", gpu::DType::f32, {data.rows, data.vocabulary}, bytes(side.logits)},
                      {"sequence_ids", gpu::DType::i64, {data.rows}, bytes(data.sequences)},
                      {"token_ids", gpu::DType::i64, {data.rows}, bytes(data.tokens)}},
          .metadata = {}};
}

/// Measuring itself, of the same rows in memory: what remains of `by_memory` without the C interface.
void by_calls(const Data& data, std::uint32_t threads) {
  const auto train = must(gpu::Capture::of_memory(memory_of(data, data.train)));
  const auto inf = must(gpu::Capture::of_memory(memory_of(data, data.inf)));
  drift::MeasureArgs how;
  how.threads = threads;
  const auto table =
      must(gpu::measure_with_bits(train, inf, nullptr, drift::options_for(nullptr, nullptr, how), {}));
  const drift::MeasuredFloors floors;
  const auto report = drift::make_report({nullptr, floors, true, false}, table, {false, "cpu", std::nullopt});
  if (drift::drift_json(report).empty()) stop("no JSON");
}

/// Medians of interleaved rounds, in seconds a call.
struct Pair {
  double library, other;
};
template <typename Library, typename Other>
Pair compare(int rounds, int calls, const Library& library, const Other& other) {
  std::vector<double> a, b;
  library();
  other();
  for (int round = 0; round < rounds; ++round) {
    a.push_back(seconds([&] {
                  for (int i = 0; i < calls; ++i) library();
                }) /
                calls);
    b.push_back(seconds([&] {
                  for (int i = 0; i < calls; ++i) other();
                }) /
                calls);
  }
  return {median(std::move(a)), median(std::move(b))};
}

std::uint32_t argument(int argc, char** argv, int at, std::uint32_t absent) {
  return argc > at ? static_cast<std::uint32_t>(std::strtoul(argv[at], nullptr, 10)) : absent;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t rows = std::max(1U, argument(argc, argv, 1, 1'000));
  const std::uint32_t vocabulary = std::max(2U, argument(argc, argv, 2, 131'072));
  const int rounds = static_cast<int>(std::clamp(argument(argc, argv, 3, 5), 1U, 1'000U));
  const std::uint32_t threads = argument(argc, argv, 4, 0);
  std::string pattern = (std::filesystem::temp_directory_path() / "driftgate-library-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) stop("no temporary folder");
  const std::filesystem::path folder = pattern;
  const Data tiny = make(folder, 4, 16);
  const Pair call = compare(
      21, 200, [&] { by_memory(tiny, 1); }, [&] { by_calls(tiny, 1); });
  const Data large = make(folder, rows, vocabulary);
  const Pair rate = compare(
      rounds, 1, [&] { by_memory(large, threads); }, [&] { by_files(large, threads); });
  std::filesystem::remove_all(folder);
  fmt::print(
      "{{\"overhead_us\": {:.2f}, \"call_us\": {:.2f}, \"rows\": {}, \"vocabulary\": {}, \"rate_ratio\": "
      "{:.4f}, "
      "\"library_rows_per_s\": {:.1f}, \"command_rows_per_s\": {:.1f}}}\n",
      1e6 * (call.library - call.other), 1e6 * call.library, rows, vocabulary, rate.other / rate.library,
      rows / rate.library, rows / rate.other);
}
