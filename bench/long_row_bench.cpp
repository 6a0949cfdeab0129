// Measures one long row at a time, with one thread and with several that share its parts, in interleaved
// rounds. Prints the rows per second of each and their ratio, which is at best the number of threads.
// `by_cpu_time` is the processor time of one thread over that of the several: the ratio that an idle machine
// would reach. Usage: long_row_bench [vocabulary] [threads] [rounds] [drift]. Prints one JSON object.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gpu/backend/backend_loader.hpp"

namespace {

using namespace driftgate;

constexpr std::uint32_t kSeed = 1;
constexpr int kRowsOfRound = 40;  ///< measured one after the other, each in a call of its own
constexpr std::uint64_t kDistinctRows = 4;

struct Speed {
  double wall, cpu;  ///< rows per second of time and of all threads' processor time
};

double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Rows {
  std::uint32_t vocabulary;
  std::vector<float> train, inf;
};

Rows make_rows(std::uint32_t vocabulary, double drift) {
  Rows out{vocabulary, {}, {}};
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  for (std::uint64_t i = 0; i < kDistinctRows * vocabulary; ++i) {
    out.train.push_back(3 * normal(random));
    out.inf.push_back(out.train.back() + static_cast<float>(drift) * normal(random));
  }
  return out;
}

Speed measure(gpu::Backend& backend, const Rows& rows) {
  const double wall = clock_seconds(CLOCK_MONOTONIC), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < kRowsOfRound; ++i) {
    const std::size_t first = static_cast<std::size_t>(i) % kDistinctRows * rows.vocabulary;
    const std::uint64_t stride = sizeof(float) * std::uint64_t{rows.vocabulary};
    const driftgate_batch batch{sizeof(driftgate_batch),
                                rows.vocabulary,
                                1,
                                {rows.train.data() + first, stride, DRIFTGATE_F32, 0},
                                {rows.inf.data() + first, stride, DRIFTGATE_F32, 0},
                                nullptr,
                                1.0};
    driftgate_row row{};
    if (auto ok = backend.measure(batch, {&row, 1}); !ok) {
      fmt::print(stderr, "long_row_bench: {}\n", ok.error().describe());
      std::exit(1);
    }
  }
  return {kRowsOfRound / (clock_seconds(CLOCK_MONOTONIC) - wall),
          kRowsOfRound / (clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu)};
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
  const auto threads = static_cast<std::uint32_t>(std::stoul(argument(2, "2")));
  const int rounds = std::stoi(argument(3, "7"));
  const Rows rows = make_rows(static_cast<std::uint32_t>(std::stoul(argument(1, "1000000"))),
                              std::stod(argument(4, "0.01")));
  auto one = gpu::Backend::open("cpu", 1, 10), several = gpu::Backend::open("cpu", threads, 10);
  if (!one || !several) {
    fmt::print(stderr, "long_row_bench: {}\n", (one ? several : one).error().describe());
    return 1;
  }
  std::vector<double> single, ratio, by_cpu_time;
  for (int round = 0; round <= rounds; ++round) {
    const Speed alone = measure(*one, rows), together = measure(*several, rows);
    if (round == 0) continue;  // touches pages and makes scratch
    single.push_back(alone.wall);
    ratio.push_back(together.wall / alone.wall);
    by_cpu_time.push_back(together.cpu / alone.cpu);
  }
  fmt::print(R"({{"vocabulary": {}, "threads": {}, "rounds": {},)"
             "\n \"one_thread_rows_per_s\": {},\n \"ratio\": {},\n \"by_cpu_time\": {}}}\n",
             rows.vocabulary, threads, rounds, spread(single), spread(ratio), spread(by_cpu_time));
  return 0;
}
