#include "stages/bounds/bounds.hpp"

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
  CHECK(*named(chain, "tv_measured")->upper < 0.02);
  CHECK_FALSE(named(chain, "tv_measured")->approximate);
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
  CHECK(*mean->upper < 0.03);
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
      table.sequences[i].target.n = 16;
      table.sequences[i].target.excess_is_clip = i < active ? 0.001 * (1 + static_cast<double>(i % 3)) : 0;
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

TEST_CASE("a chain names every link, and what one that is not computed needs") {
  const BoundChain chain = bound_chain(corpus(), {}, {}, 0.05, 1);
  std::uint32_t last = 0;
  for (const BoundLink& link : chain.links) {
    CHECK(link.number >= last);
    last = link.number;
  }
  CHECK(last == 8);
  for (const char* name : {"reward", "sequence_sup_tv", "policy_gradient", "clip_room", "inversion"}) {
    CAPTURE(name);
    const BoundLink* link = named(chain, name);
    REQUIRE(link != nullptr);
    CHECK_FALSE(link->value.has_value());
    CHECK(link->method.find("needs assumptions.") != std::string::npos);
    CHECK(link->status == AssumptionStatus::unchecked);
  }
  CHECK(named(chain, "filters")->status == AssumptionStatus::checked);
  CHECK(named(chain, "span_log_ratio")->value == doctest::Approx(0.06));
}

TEST_CASE("the best bound of whole sequences says which it is, and both forms have half of the level") {
  auto table = corpus();
  table.has_tokens = true;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  schema::Assumptions assumptions;
  assumptions.reward = schema::Assumptions::Reward{0, 2};
  assumptions.max_tokens = 16;
  const BoundChain chain = bound_chain(table, assumptions, {}, 0.05, 1, 0.3);
  const BoundLink* best = named(chain, "sequence_best");
  REQUIRE(best != nullptr);
  CHECK(best->from == "sequence_kl");
  CHECK(best->upper == named(chain, "sequence_kl")->upper);
  CHECK(best->alpha == 0.05);
  CHECK(named(chain, "sequence_kl")->alpha == 0.025);
  CHECK(named(chain, "sequence_kl")->inputs.at("rows_per_sequence_least") == 16);
  CHECK(named(chain, "reward_sequence")->from == "sequence_kl");
  // 1 − (1 − 0.012)^16, and 0.06/4·√16
  CHECK(*named(chain, "sequence_sup_tv")->value == doctest::Approx(1 - std::pow(0.988, 16)).epsilon(1e-9));
  CHECK(*named(chain, "sequence_sup_span")->value == doctest::Approx(0.06).epsilon(1e-9));
  // 4·0.3/(2·√16)
  CHECK(*named(chain, "inversion")->value == doctest::Approx(0.15).epsilon(1e-12));
}

TEST_CASE("sampled tokens bound whole sequences exactly, with a third of the level for each form") {
  auto table = corpus();
  table.has_tokens = true;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    table.sequences[i].target.n = 16;
    table.sequences[i].target.log_w = i % 2 == 0 ? 0.01 : -0.01;
  }
  const BoundChain chain = bound_chain(table, {}, {}, 0.05, 1);
  const BoundLink* exact = named(chain, "sequence_sampled");
  REQUIRE(exact != nullptr);
  CHECK_FALSE(exact->approximate);
  CHECK(*exact->value == doctest::Approx(-std::expm1(-0.01) / 2).epsilon(1e-9));
  CHECK(*exact->upper > *exact->value);
  const BoundLink* best = named(chain, "sequence_best");
  double least = 1;
  for (const char* name : {"sequence_tv", "sequence_kl", "sequence_sampled"}) {
    CHECK(named(chain, name)->alpha == doctest::Approx(0.05 / 3));
    least = std::min(least, *named(chain, name)->upper);
  }
  CHECK(*best->upper == least);
  CHECK(best->alpha == 0.05);
  // Where a sequence has no tokens the others do not speak for it.
  table.sequences.front().target.n = 0;
  CHECK(named(bound_chain(table, {}, {}, 0.05, 1), "sequence_sampled") == nullptr);
}

TEST_CASE("the support of p is checked with figures, and a mean ratio below 1 makes it suspicious") {
  schema::Assumptions assumptions;
  assumptions.policy = schema::Assumptions::Policy{1, 1, 0.2, {}};
  auto table = corpus();
  CHECK(named(bound_chain(table, assumptions, {}, 0.05, 1), "support")->status ==
        AssumptionStatus::unchecked);
  table.has_tokens = true;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  const auto chain_at = [&](double mean) {
    for (std::size_t i = 0; i < table.sequences.size(); ++i) {
      gpu::TargetTokenSums& sums = table.sequences[i].target;
      const double w = mean + (i % 2 == 0 ? 0.01 : -0.01);
      sums.n = 16, sums.w = 16 * w, sums.w_squares = 16 * w * w, sums.min_log_q = -3;
    }
    return bound_chain(table, assumptions, {}, 0.05, 1);
  };
  const BoundChain good = chain_at(1);
  const BoundLink* support = named(good, "support");
  CHECK(support->status == AssumptionStatus::checked);
  CHECK(support->inputs.at("smallest_q_a") == doctest::Approx(std::exp(-3)));
  CHECK(support->inputs.at("ratio_mean_lower") < 1);
  CHECK(support->inputs.at("ratio_mean_upper") > 1);
  CHECK(*support->value < 1e-34);
  CHECK(named(good, "policy_gradient")->status == AssumptionStatus::unchecked);
  const BoundChain suspicious = chain_at(0.9);
  CHECK(named(suspicious, "support")->status == AssumptionStatus::suspicious);
  CHECK(named(suspicious, "policy_gradient")->status == AssumptionStatus::suspicious);
  CHECK(best_link(suspicious, schema::Bound::policy_gradient, schema::Horizon::token) != nullptr);
}

TEST_CASE(
    "with full logits the support is broken by an e-value or by mass where q underflows, not by ratios") {
  schema::Assumptions assumptions;
  assumptions.policy = schema::Assumptions::Policy{1, 1, 0.2, {}};
  const auto chain_of = [&](const gpu::SupportSums& sums) {
    auto table = corpus();
    table.has_tokens = true;
    table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
    for (gpu::SequenceRow& row : table.sequences) {
      row.target.n = 16, row.target.w = 14, row.target.w_squares = 14, row.target.min_log_q = -3;
      row.support = sums;
      row.support->rows = 16;
    }
    return bound_chain(table, assumptions, {}, 0.05, 1);
  };
  const auto status_of = [&](const gpu::SupportSums& sums) {
    return named(chain_of(sums), "support")->status;
  };
  CHECK(status_of({}) == AssumptionStatus::checked);  // the mean ratio is 14/16, and says nothing here
  gpu::SupportSums lost;
  lost.p_lost = 16 * 0.002;
  CHECK(status_of(lost) == AssumptionStatus::broken);
  lost.p_lost = 16 * 0.0005;
  CHECK(status_of(lost) == AssumptionStatus::checked);

  const auto sequences = static_cast<double>(corpus().sequences.size());
  gpu::SupportSums filtered;
  filtered.filters[4] = std::log(20 * 4 * gpu::kFilterBets) / sequences * 1.01;
  filtered.filters_p[4] = 16 * 0.05;
  const BoundChain chain = chain_of(filtered);
  const BoundLink* support = named(chain, "support");
  CHECK(support->status == AssumptionStatus::broken);
  CHECK(support->assumption.ends_with(", but tokens were taken as by a sampler with top_p = 0.95"));
  CHECK(named(chain, "policy_gradient")->assumption.contains("with top_p = 0.95; prefixes as"));
  CHECK(support->inputs.at("p_mass_missing") == doctest::Approx(0.05));
  CHECK(support->inputs.at("e_value_not_sampled_from_q") > 20);
  CHECK(named(chain, "policy_gradient")->status == AssumptionStatus::broken);
  filtered.filters[4] *= 0.97;
  CHECK(status_of(filtered) == AssumptionStatus::checked);
  gpu::SupportSums untaken;
  untaken.untaken = std::log(80) / sequences * 1.01;
  CHECK(status_of(untaken) == AssumptionStatus::broken);
  gpu::SupportSums ranges;
  ranges.ranges = std::log(80) / sequences * 1.01;
  CHECK(status_of(ranges) == AssumptionStatus::broken);
  gpu::SupportSums preferred;
  preferred.preference[3] = std::log(20 * 4 * gpu::kPreferenceBets) / sequences * 1.01;
  CHECK(status_of(preferred) == AssumptionStatus::broken);
}

TEST_CASE("captures of a part of each distribution have a chain from the upper bound of tv") {
  schema::Assumptions assumptions;
  assumptions.reward = schema::Assumptions::Reward{0, 2};
  auto table = corpus();
  table.partial.mode = "topk";
  table.partial.metrics = {schema::Metric::tv, schema::Metric::kl_inf_train, schema::Metric::kl_train_inf};
  for (gpu::SequenceRow& row : table.sequences) {
    gpu::SequenceBounds& bounds = row.bounds.emplace();
    bounds.metrics.resize(3);
    bounds.metrics[0] = {make::constant(16, 0.001), make::constant(16, 0.03)};
    for (std::size_t kl : {1U, 2U})
      bounds.metrics[kl] = {make::constant(16, 0), make::constant(16, HUGE_VAL)};
    for (const schema::Metric metric : table.partial.metrics) row.metrics[make::at(metric)] = {};
    row.metrics[make::at(schema::Metric::logit_span)] = {};
  }
  const BoundChain chain = bound_chain(table, assumptions, {}, 0.05, 1);
  REQUIRE(chain.refused.empty());
  CHECK(named(chain, "tv_measured") == nullptr);
  CHECK(named(chain, "tv_from_kl") == nullptr);
  CHECK(named(chain, "span_tv") == nullptr);
  CHECK(named(chain, "sequence_kl") == nullptr);
  CHECK(*named(chain, "tv_upper")->value == doctest::Approx(0.03).epsilon(1e-12));
  CHECK(*named(chain, "sequence_tv")->value == doctest::Approx(0.48).epsilon(1e-12));
  CHECK(*best_link(chain, Bound::reward, Horizon::token)->value == doctest::Approx(0.06).epsilon(1e-12));
  table.partial.findings = {{"off_by_one", "inf", true, 90, 100, "The rows are shifted by one"}};
  CHECK(bound_chain(table, assumptions, {}, 0.05, 1).refused.find("The rows are shifted by one") !=
        std::string::npos);
}

TEST_CASE("core metrics, which know no tv, have a chain from their KL") {
  schema::Assumptions assumptions;
  assumptions.reward = schema::Assumptions::Reward{0, 2};
  auto table = corpus();
  for (gpu::SequenceRow& row : table.sequences) row.metrics[make::at(schema::Metric::tv)] = {};
  const BoundChain chain = bound_chain(table, assumptions, {}, 0.05, 1);
  REQUIRE(chain.refused.empty());
  CHECK(named(chain, "tv_measured") == nullptr);
  const BoundLink* tv = named(chain, "tv_from_kl");
  REQUIRE(tv != nullptr);
  CHECK(*named(chain, "reward")->value == 2 * *tv->value);
  CHECK(*named(chain, "reward")->upper == 2 * *tv->upper);
  CHECK(named(chain, "reward")->approximate);
  for (gpu::SequenceRow& row : table.sequences) {
    row.metrics[make::at(schema::Metric::kl_inf_train)] =
        row.metrics[make::at(schema::Metric::kl_train_inf)] = {};
  }
  CHECK(bound_chain(table, assumptions, {}, 0.05, 1).refused.find("nothing is known") == 0);
}

TEST_CASE(
    "the tv of whole sequences stands beside its bounds where K_inf sampled the tokens, and not elsewhere") {
  auto table = corpus();
  table.has_tokens = true;
  for (gpu::SequenceRow& row : table.sequences) {
    row.target.n = row.rows;
    row.target.log_w = row.sequence % 2 == 0 ? std::log(0.9) : std::log(1.1);
  }
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  const BoundChain sampled = bound_chain(table, {}, {}, 0.05, 1);
  const BoundLink* link = named(sampled, "tv_sequence");
  REQUIRE(link != nullptr);
  CHECK(*link->value == doctest::Approx(0.05).epsilon(0.02));
  CHECK(*link->upper > *link->value);
  CHECK(link->inputs.at("lower") < *link->value);
  CHECK(link->inputs.at("upper_exact") > *link->upper);
  CHECK(link->approximate);
  CHECK_FALSE(link->bound.has_value());

  table.inf.token_source = table.train.token_source = "corpus";
  const BoundChain corpus_tokens = bound_chain(table, {}, {}, 0.05, 1);
  const BoundLink* described = named(corpus_tokens, "tv_sequence");
  REQUIRE(described != nullptr);
  CHECK(described->status == AssumptionStatus::broken);
  CHECK_FALSE(described->upper.has_value());
}
