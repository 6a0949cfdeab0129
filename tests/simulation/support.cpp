#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/compare_bits.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/support_worlds.hpp"

// Whether K_inf's sampler can take every token (docs/design/measurement.md, "Link 5: policy gradients").

namespace driftgate::simulation {
namespace {

constexpr double kAlpha = 0.05;
constexpr std::uint32_t kRows = 2'000;
constexpr std::uint64_t kFewRuns = 8;  ///< of a small simulation, since a capture takes a third of a second

gpu::Capture capture_of(const SupportCapture& drawn, const std::vector<float>& logits, const char* kernel) {
  const std::uint64_t rows = drawn.tokens.size();
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)).data(); };
  auto made = gpu::Capture::of_memory(
      {.name = kernel,
       .tensors = {{"logits", gpu::DType::f32, {rows, drawn.vocabulary}, bytes(logits)},
                   {"sequence_ids", gpu::DType::i64, {rows}, bytes(drawn.sequences)},
                   {"positions", gpu::DType::i64, {rows}, bytes(drawn.positions)},
                   {"token_ids", gpu::DType::i64, {rows}, bytes(drawn.tokens)}},
       .metadata = {
           {"capture.version", "1"}, {"kernel", kernel}, {"temperature", "1"}, {"token_source", "inf"}}});
  if (!made) throw std::runtime_error(made.error().describe());
  return std::move(*made);
}

bool broken(const SupportCapture& drawn, std::uint64_t seed) {
  const gpu::Capture train = capture_of(drawn, drawn.train, "train"),
                     inf = capture_of(drawn, drawn.inf, "inf");
  gpu::MeasureOptions options;
  options.threads = 1;
  options.slices.emplace();
  const auto table = gpu::measure_with_bits(train, inf, nullptr, options, {});
  if (!table) throw std::runtime_error(table.error().describe());
  const stages::BoundChain chain = stages::bound_chain(*table, {}, {}, kAlpha, seed);
  if (!chain.refused.empty()) return false;  // a world of huge drifts may have logits that no model computes
  const auto link = std::ranges::find(chain.links, "support", &stages::BoundLink::name);
  if (link == chain.links.end()) throw std::runtime_error("there is no link on the support");
  return link->status == stages::AssumptionStatus::broken;
}

}  // namespace

void sampler_support(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.scale < 0.1 ? kFewRuns : effort.runs(400);
  for (const SupportWorld& world : support_worlds()) {
    std::uint64_t found = 0;
    double p_lost = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const std::uint64_t seed = stages::mix64(effort.seed * 86'028'121 + run);
      const SupportCapture drawn = world.draw(seed, kRows);
      p_lost += drawn.p_lost;
      found += broken(drawn, seed) ? 1 : 0;
    }
    std::string name = world.name;
    if (world.lost) {
      char share[32];
      std::snprintf(share, sizeof(share), " (%.1f%% of p)", 100 * p_lost / static_cast<double>(runs));
      name += share;
    }
    const bool claimed = !world.lost || world.findable;
    out.push_back({"support of the sampler", "e-value that tokens were not sampled from q", name,
                   world.lost ? "found in 2,000 rows" : "false findings in 2,000 rows",
                   static_cast<double>(found) / static_cast<double>(runs), runs,
                   claimed ? std::optional(world.lost ? 0.95 : kAlpha) : std::nullopt,
                   !claimed     ? Claim::figure
                   : world.lost ? Claim::at_least
                                : Claim::exact,
                   ""});
  }
}

}  // namespace driftgate::simulation
