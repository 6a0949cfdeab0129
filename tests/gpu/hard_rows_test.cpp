#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "gpu/capture.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/oracle.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

nlohmann::json expectations() {
  std::ifstream file("tests/vectors/expected_hard_rows.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("a logit that is no more than a mark leaves the other tokens' figures what they are") {
  constexpr std::uint32_t kColumns = 3'000;  // two tiles, the second one padded
  constexpr std::size_t kMarked = 2'900, kToken = 17;
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  struct Case {
    std::string name;
    float train, inf;     ///< of the marked columns; NaN: as it was
    std::size_t columns;  ///< marked: from kMarked on, or the likeliest of K_train first
    bool likeliest;
  };
  constexpr float kAsItWas = std::numeric_limits<float>::quiet_NaN();
  const Case cases[] = {{"both mask padding, differently", kLeast, -1e4F, 100, false},
                        {"the other way round", -1e9F, -1e30F, 100, false},
                        {"both mask padding alike", kLeast, kLeast, 100, false},
                        {"K_inf masks the likeliest", kAsItWas, kLeast, 5, true},
                        {"K_inf masks the likeliest by less", kAsItWas, -1e12F, 5, true},
                        {"K_train masks the likeliest", kLeast, kAsItWas, 5, true},
                        {"K_train masks a tail", -1e20F, kAsItWas, 100, false},
                        {"K_inf overflowed", kAsItWas, 1e12F, 1, false}};
  std::mt19937_64 random(20);
  std::normal_distribution<float> normal;
  for (const Case& test : cases) {
    std::vector<float> train(kColumns), inf(kColumns);
    for (std::size_t v = 0; v < kColumns; ++v) {
      train[v] = 3 * normal(random);
      inf[v] = train[v] + 0.01F * normal(random);
    }
    std::vector<std::size_t> order(kColumns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (test.likeliest)
      std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t v) { return train[v]; });
    for (std::size_t i = 0; i < test.columns; ++i) {
      const std::size_t v = test.likeliest ? order[i] : kMarked + i;
      if (!std::isnan(test.train)) train[v] = test.train;
      if (!std::isnan(test.inf)) inf[v] = test.inf;
    }
    Pair pair;
    pair.train.assign(train.begin(), train.end());
    pair.inf.assign(inf.begin(), inf.end());
    pair.token = kToken;
    const Row wanted = oracle(pair);
    const std::int64_t token = kToken;
    const driftgate_batch batch{sizeof(driftgate_batch),
                                kColumns,
                                1,
                                {train.data(), kColumns * 4, DRIFTGATE_F32, 0},
                                {inf.data(), kColumns * 4, DRIFTGATE_F32, 0},
                                &token,
                                1.0};
    for (const cpu::TileKernel* kernel : kernels()) {
      cpu::RowEngine engine(*kernel, kColumns, 10);
      driftgate_row row{};
      engine.measure(batch, 0, row);
      CAPTURE(test.name);
      CAPTURE(std::string(kernel->name));
      REQUIRE(row.status == DRIFTGATE_ROW_OK);
      for (const Metric metric :
           {Metric::logit_max_abs, Metric::logit_span, Metric::tv, Metric::js, Metric::hellinger2,
            Metric::entropy_train, Metric::entropy_inf, Metric::top1_flip, Metric::topk_overlap,
            Metric::logprob_train, Metric::logprob_inf, Metric::log_ratio}) {
        const long double value = wanted[static_cast<std::size_t>(metric)];
        const bool ratio = metric == Metric::log_ratio || metric == Metric::logprob_inf;
        if (ratio && std::abs(value) > 1e8L) {  // of a token that the other kernel's mark leaves no mass
          CHECK(std::abs(row.values[static_cast<std::size_t>(metric)]) > 9e7);
          continue;
        }
        CAPTURE(schema::to_string(metric));
        CHECK(std::abs(static_cast<long double>(row.values[static_cast<std::size_t>(metric)]) - value) <=
              1e-6L * std::abs(value) + 1e-7L);  // where one is as far as 10^8, float64 holds it to 1.5e-8
      }
      for (const Metric metric : {Metric::kl_train_inf, Metric::kl_inf_train, Metric::chi2}) {
        const double value = row.values[static_cast<std::size_t>(metric)];
        const long double truth = wanted[static_cast<std::size_t>(metric)];
        if (!std::isfinite(truth))
          continue;  // chi2 is e^{1e30} where q is that much less than a p of no mass
        const long double allowed = (metric == Metric::chi2 ? 1e-4L : 1e-6L) * truth;
        CAPTURE(schema::to_string(metric));
        CHECK((truth < 1e3L ? std::abs(static_cast<long double>(value) - truth) <= allowed : value > 1e3));
      }
    }
  }
}

TEST_CASE("the hard rows agree with their long double expectations") {
  const auto train = Capture::open("tests/vectors/hard_train.safetensors");
  const auto inf = Capture::open("tests/vectors/hard_inf.safetensors");
  REQUIRE(train);
  REQUIRE(inf);
  const nlohmann::json wanted = expectations();
  REQUIRE(wanted.size() == train->rows());
  const std::uint64_t stride = std::uint64_t{train->vocabulary()} * 4;
  const driftgate_batch batch{sizeof(driftgate_batch),
                              train->vocabulary(),
                              train->rows(),
                              {train->segments()[0].logits, stride, DRIFTGATE_F32, 0},
                              {inf->segments()[0].logits, stride, DRIFTGATE_F32, 0},
                              train->token_ids().data(),
                              1.0};
  for (const cpu::TileKernel* kernel : kernels()) {
    cpu::RowEngine engine(*kernel, train->vocabulary(), 10);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      driftgate_row row{};
      engine.measure(batch, i, row);
      REQUIRE(row.status == DRIFTGATE_ROW_OK);
      Row figures;
      figures.fill(0);  // nonfinite is not in the file
      for (const auto& [name, text] : wanted[i].items()) {
        if (name == "name") continue;
        const auto metric = schema::metric_from_name(name);
        REQUIRE(metric);
        figures[static_cast<std::size_t>(*metric)] = strtold(text.get<std::string>().c_str(), nullptr);
      }
      CAPTURE(kernel->name);
      CAPTURE(wanted[i]["name"].get<std::string>());
      CHECK(disagreement(figures, row.values) == "");
    }
  }
}
