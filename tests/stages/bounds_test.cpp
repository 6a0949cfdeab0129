#include "stages/bounds.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Bound;
using schema::Horizon;

namespace {
const BoundLink* named(const BoundChain& chain, const std::string& name) {
  for (const BoundLink& link : chain.links) {
    if (link.name == name) return &link;
  }
  return nullptr;
}
gpu::MeasurementTable corpus() {
  auto table = make::table();
  for (int i = 0; i < 400; ++i)
    make::append(table, {16, i % 2 == 0 ? 0.008 : 0.012, {{"language", i < 50 ? "de" : "en"}}});
  return table;
}
}  // namespace

TEST_CASE("the links of a corpus of constant rows are those computed by hand") {
  schema::Assumptions assumptions;
  assumptions.reward = schema::Assumptions::Reward{-1, 1};
  assumptions.policy = schema::Assumptions::Policy{2.0, 10.0, 0.2, {}};
  const BoundChain chain = bound_chain(corpus(), assumptions, {}, 0.05, 1);
  REQUIRE(chain.refused.empty());
  CHECK(*named(chain, "span_tv")->value == doctest::Approx(std::tanh(0.06 / 4)).epsilon(1e-12));
  CHECK(*named(chain, "span_kl")->value == doctest::Approx(0.06 * 0.06 / 8).epsilon(1e-12));
  CHECK(*named(chain, "tv_measured")->value == doctest::Approx(0.01).epsilon(1e-12));
  CHECK(*named(chain, "reward")->value == doctest::Approx(0.02).epsilon(1e-12));
  CHECK(*named(chain, "policy_gradient")->value == doctest::Approx(2 * 2 * 10 * 0.01).epsilon(1e-12));
  CHECK(*named(chain, "clip_room")->value == doctest::Approx(std::log(1.2) - 0.06).epsilon(1e-12));
  CHECK(*named(chain, "tv_measured")->upper > 0.01);
  CHECK(*named(chain, "tv_measured")->upper < 0.0105);
}

TEST_CASE("a sequence bound needs rollouts of the inference kernel") {
  auto table = corpus();
  table.has_tokens = true;
  CHECK(best_link(bound_chain(table, {}, {}, 0.05, 1), Bound::sequence, Horizon::sequence) == nullptr);
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  table.inf.sampling_filter = "none";
  REQUIRE(table.sampled_by_inf());
  const BoundChain chain = bound_chain(table, {}, {}, 0.05, 1);
  const BoundLink* best = best_link(chain, Bound::sequence, Horizon::sequence);
  REQUIRE(best != nullptr);
  // Σ tv = 0.16; √(½·16·2.5·mean tv²) = √(20·1.04e-4) = 0.0456: the KL form is the better.
  CHECK(best->name == "sequence_kl");
  CHECK(*best->value == doctest::Approx(std::sqrt(20 * 1.04e-4)).epsilon(1e-9));
}

TEST_CASE("link 2 is the largest and the mean head-tail bound of the rows") {
  auto table = corpus();
  CHECK(named(bound_chain(table, {}, {}, 0.05, 1), "head_tail") == nullptr);
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    for (int row = 0; row < 16; ++row) table.sequences[i].head_tail_tv.add(i < 50 ? 0.03 : 0.015);
  }
  const auto chains = bound_chains(table, {}, {{{"language", "de"}}}, 0.05, 1);
  const BoundLink* most = named(chains[0], "head_tail");
  REQUIRE(most != nullptr);
  CHECK(most->number == 2);
  CHECK(*most->value == 0.03);
  CHECK(most->status == AssumptionStatus::checked);
  const BoundLink* mean = named(chains[0], "head_tail_mean");
  REQUIRE(mean != nullptr);
  CHECK(*mean->value == doctest::Approx((50 * 0.03 + 350 * 0.015) / 400).epsilon(1e-12));
  CHECK(*mean->upper > *mean->value);
  CHECK(*mean->upper < 0.02);
  CHECK(*named(chains[1], "head_tail_mean")->value == doctest::Approx(0.03).epsilon(1e-12));
  // The measured tv stays the better link of the two.
  CHECK(best_link(chains[0], Bound::tv, Horizon::token)->number == 1);
}

TEST_CASE("a slice has a chain of its own") {
  const auto chains = bound_chains(corpus(), {}, {{{"language", "de"}}}, 0.05, 1);
  REQUIRE(chains.size() == 2);
  CHECK(chains[0].sequences == 400);
  CHECK(chains[1].sequences == 50);
  CHECK(named(chains[1], "tv_measured")->method == "betting, cap 0.99");
}

TEST_CASE("a clipped policy-gradient bound needs ratios beyond the clip to bound their tail") {
  schema::Assumptions assumptions;
  assumptions.policy = schema::Assumptions::Policy{2.0, 10.0, 0.2, 0.5};
  auto table = corpus();
  table.has_tokens = true;
  table.is_clip = 0.5;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  table.inf.sampling_filter = "none";
  REQUIRE(table.sampled_by_inf());
  const auto chain_with = [&](std::size_t active) {
    for (std::size_t i = 0; i < table.sequences.size(); ++i) {
      table.sequences[i].realised.n = 16;
      table.sequences[i].realised.excess_is_clip = i < active ? 0.001 * (1 + static_cast<double>(i % 3)) : 0;
    }
    return bound_chain(table, assumptions, {}, 0.05, 1);
  };
  for (const std::size_t active : {0, 24}) {
    CAPTURE(active);
    const BoundChain chain = chain_with(active);
    const BoundLink* clipped = named(chain, "policy_gradient_clipped");
    REQUIRE(clipped != nullptr);
    CHECK_FALSE(clipped->upper.has_value());
    CHECK(clipped->method == "too few ratios beyond the clip to bound their tail");
    CHECK(best_link(chain, Bound::policy_gradient, Horizon::token)->name == "policy_gradient");
  }
  const BoundChain chain = chain_with(25);
  REQUIRE(named(chain, "policy_gradient_clipped")->upper.has_value());
  CHECK(best_link(chain, Bound::policy_gradient, Horizon::token)->name == "policy_gradient_clipped");
}

TEST_CASE("each link shows what it would be at the noise floor") {
  gpu::MeasurementTable drift = make::table(), noise = make::table();
  for (int i = 0; i < 60; ++i) {
    const std::string language = i < 30 ? "de" : "en";
    make::append(drift, {.tv = 0.01, .slices = {{"language", language}}});
    make::append(noise, {.tv = i < 30 ? 0.002 : 0.0, .slices = {{"language", language}}});
  }
  schema::Assumptions assumptions;
  assumptions.reward = schema::Assumptions::Reward{0, 2};
  auto chains = bound_chains(drift, assumptions, {{{"language", "de"}}, {{"language", "en"}}}, 0.05, 1);
  add_floor_values(chains, {.train = {}, .inf = {&noise, ""}}, assumptions);
  const auto floor_at = [&](std::size_t chain, const char* name) {
    const BoundLink* link = named(chains[chain], name);
    REQUIRE(link != nullptr);
    CHECK_FALSE(link->floors.contains("train"));
    return link->floors.at("inf");
  };
  CHECK(floor_at(0, "tv_measured") == doctest::Approx(0.001));
  CHECK(floor_at(1, "tv_measured") == doctest::Approx(0.002));
  CHECK(floor_at(2, "tv_measured") == 0);
  CHECK(floor_at(1, "reward") == doctest::Approx(0.004));
  CHECK(floor_at(1, "span_tv") == doctest::Approx(std::tanh(0.01 / 4)));
}
