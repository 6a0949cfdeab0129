#include "stages/offline_numeric.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "schema/verdict_rule.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::Verdict;

namespace {
StageReport evaluate(const schema::Contract& contract, const gpu::MeasurementTable& table) {
  StageInputs inputs;
  inputs.alpha = 0.05;
  inputs.seed = 1;
  return evaluate_offline_numeric(contract, table, inputs);
}
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("a mean under its limit passes, one over it is violated and one at it is inconclusive") {
  auto contract = make::contract();
  contract.clauses = {make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(0.02))};
  auto good = make::table();
  auto bad = make::table();
  auto near = make::table();
  for (int i = 0; i < 700; ++i) {
    const double wobble = i % 2 == 0 ? 0.005 : -0.005;
    make::append(good, {10, 0.010 + wobble, {}});
    make::append(bad, {10, 0.040 + wobble, {}});
    make::append(near, {10, 0.020 + wobble, {}});
  }
  CHECK(evaluate(contract, good).verdict == Verdict::pass);
  CHECK(evaluate(contract, bad).verdict == Verdict::violated);
  CHECK(evaluate(contract, near).verdict == Verdict::inconclusive);
  CHECK(evaluate(contract, good).clauses.at(0).method == "betting, cap 0.99");
  CHECK_FALSE(evaluate(contract, good).clauses.at(0).approximate);
}

TEST_CASE("one row that is not finite violates every numerical clause over it") {
  auto contract = make::contract();
  contract.clauses = {
      make::numeric("tv", Metric::tv, Aggregate::sequence_mean, make::max(0.02)),
      make::numeric("finite", Metric::nonfinite, Aggregate::sum, make::max(0)),
      make::clause(schema::Family::numerical, "bound", schema::BoundSubject{schema::Bound::tv},
                   make::max(0.5), schema::Stage::offline_numeric)};
  auto table = make::table();
  for (int i = 0; i < 250; ++i) make::append(table, {10, 0.01 + 0.0001 * (i % 7), {}});
  table.sequences[77].metrics[make::at(Metric::nonfinite)] = make::constant(1, 1);
  table.nonfinite_rows = 1;
  const StageReport report = evaluate(contract, table);
  CHECK(report.verdict == Verdict::violated);
  for (const auto& verdict : report.clauses) CHECK(verdict.verdict == Verdict::violated);
  CHECK(report.clauses[0].message.find("sequence 77") != std::string::npos);
  CHECK(!report.bounds.at(0).refused.empty());
}

TEST_CASE("a census with no event passes from min_sequences on and says how many are missing before") {
  auto contract = make::contract();
  contract.clauses = {make::numeric("finite", Metric::nonfinite, Aggregate::sum, make::max(0))};
  auto table = make::table();
  for (int i = 0; i < 99; ++i) make::append(table, {});
  const auto few = evaluate(contract, table).clauses.at(0);
  CHECK(few.verdict == Verdict::inconclusive);
  CHECK(few.details.at("missing_sequences") == 1);
  make::append(table, {});
  const auto enough = evaluate(contract, table).clauses.at(0);
  CHECK(enough.verdict == Verdict::pass);
  // 1 − 0.05^{1/100}
  CHECK(enough.details.at("rate_bound") == doctest::Approx(0.0295130).epsilon(1e-5));
}

TEST_CASE("sequences of one cluster count once in a census") {
  auto contract = make::contract();
  contract.clauses = {make::numeric("finite", Metric::nonfinite, Aggregate::sum, make::max(0))};
  auto table = make::table();
  for (int i = 0; i < 300; ++i) {
    make::append(table, {});
    table.infos.back().cluster = "prompt-" + std::to_string(i % 60);
  }
  const auto verdict = evaluate(contract, table).clauses.at(0);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(verdict.clusters == 60);
  CHECK(verdict.details.at("missing_sequences") == 40);
}

TEST_CASE("a quantile clause is decided on the rows beyond its limit") {
  auto contract = make::contract();
  contract.clauses = {make::numeric("tail", Metric::logit_span, Aggregate::p90, make::max(0.25))};
  const auto thresholds = required_thresholds(contract);
  REQUIRE(thresholds.size() == 1);
  CHECK(thresholds[0] == gpu::Threshold{Metric::logit_span, 0.25, true});
  auto good = make::table(thresholds);
  auto bad = make::table(thresholds);
  for (int i = 0; i < 300; ++i) {
    make::append(good, {8, i % 100 == 0 ? 0.1 : 0.01, {}});
    make::append(bad, {8, i % 4 == 0 ? 0.1 : 0.01, {}});
  }
  const auto passed = evaluate(contract, good).clauses.at(0);
  CHECK(passed.verdict == Verdict::pass);
  CHECK(*passed.estimate == doctest::Approx(0.01));
  CHECK(evaluate(contract, bad).clauses.at(0).verdict == Verdict::violated);
}

/// 4% of the sequences have 200 rows beyond the limit, the others 8 rows each that are not.
gpu::MeasurementTable drift_in_long_sequences(const schema::Contract& contract) {
  auto table = make::table(required_thresholds(contract));
  for (int i = 0; i < 600; ++i) make::append(table, {i % 25 == 0 ? 200U : 8U, i % 25 == 0 ? 0.3 : 0.01, {}});
  return table;
}

TEST_CASE("three kinds of quantile count what their names say where long sequences hold the drift") {
  using schema::QuantileOver;
  auto contract = make::contract();
  contract.clauses = {make::numeric("tail", Metric::tv, Aggregate::p90, make::max(0.1))};
  schema::Clause& clause = contract.clauses.front();
  const auto table = drift_in_long_sequences(contract);

  auto verdict = evaluate(contract, table).clauses.at(0);
  CHECK(*verdict.estimate == doctest::Approx(0.04));
  CHECK(verdict.details.at("share_of_rows") == doctest::Approx(200.0 / (200 + 24 * 8)));
  CHECK(verdict.details.at("p_proof") <= verdict.alpha);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(schema::rederive(verdict).value() == Verdict::inconclusive);
  CHECK(contains(
      verdict.message,
      "the share of rows in an average sequence with tv over 0.1 (clause: p90 tv) is within the 10% that may "
      "be, but of all 9,408 rows 51.02% are beyond the limit, because they lie in long sequences"));

  clause.over = QuantileOver::rows;
  verdict = evaluate(contract, table).clauses.at(0);
  CHECK(verdict.verdict == Verdict::inconclusive);
  CHECK(contains(verdict.message, "only where the contract states assumptions.max_tokens"));
  contract.assumptions.max_tokens = 200;
  verdict = evaluate(contract, table).clauses.at(0);
  CHECK(*verdict.estimate == doctest::Approx(200.0 / (200 + 24 * 8)));
  CHECK(verdict.verdict == Verdict::violated);
  CHECK(contains(verdict.message, "the share of rows with tv over 0.1"));
  contract.assumptions.max_tokens = 100;  // a sequence is longer
  CHECK(evaluate(contract, table).clauses.at(0).verdict == Verdict::inconclusive);

  clause.over = QuantileOver::sequences;
  verdict = evaluate(contract, table).clauses.at(0);
  CHECK(*verdict.estimate == doctest::Approx(0.04));
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(contains(verdict.message, "the share of sequences with a mean tv over 0.1"));
}

TEST_CASE("the share of all rows passes where all sequences are long enough to show it") {
  auto contract = make::contract();
  contract.assumptions.max_tokens = 16;
  contract.clauses = {make::numeric("tail", Metric::tv, Aggregate::p90, make::max(0.1))};
  contract.clauses.front().over = schema::QuantileOver::rows;
  auto table = make::table(required_thresholds(contract));
  for (int i = 0; i < 300; ++i) make::append(table, {8, i % 50 == 0 ? 0.3 : 0.01, {}});
  const auto verdict = evaluate(contract, table).clauses.at(0);
  CHECK(verdict.verdict == Verdict::pass);
  CHECK(*verdict.estimate == doctest::Approx(0.02));
  CHECK_FALSE(verdict.details.contains("share_of_rows"));
}

TEST_CASE("a table measured without a clause's threshold is an error that says so") {
  auto contract = make::contract();
  contract.clauses = {make::numeric("tail", Metric::tv, Aggregate::p99, make::max(0.25))};
  auto table = make::table();
  make::append(table, {});
  const auto verdict = evaluate(contract, table).clauses.at(0);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("measure again") != std::string::npos);
}

TEST_CASE("a sampled metric on tokens of the corpus is an error that names token_source") {
  auto contract = make::contract();
  contract.clauses = {make::clause(schema::Family::numerical, "k3",
                                   schema::MetricSubject{Metric::kl_inf_train_sampled, {}}, make::max(0.01),
                                   schema::Stage::offline_numeric)};
  auto table = make::table();
  table.has_tokens = true;
  table.train.token_source = table.inf.token_source = "corpus";
  for (int i = 0; i < 60; ++i) make::append(table, {});
  const auto verdict = evaluate(contract, table).clauses.at(0);
  CHECK(verdict.verdict == Verdict::error);
  CHECK(verdict.message.find("token_source") != std::string::npos);
}

TEST_CASE("a stage of which nothing is demanded passes and says so") {
  auto table = make::table();
  make::append(table, {});
  const StageReport report = evaluate(make::contract(), table);
  CHECK(report.nothing_demanded);
  CHECK(report.verdict == Verdict::pass);
  CHECK(!report.notes.empty());
}

TEST_CASE("the second fresh run spends a quarter of what the first spent") {
  auto table = make::table();
  make::append(table, {});
  StageInputs inputs;
  const double first = evaluate_offline_numeric(make::contract(), table, inputs).alpha;
  inputs.attempt = 2;
  CHECK(evaluate_offline_numeric(make::contract(), table, inputs).alpha == doctest::Approx(first / 4));
  CHECK(first == doctest::Approx(0.05 * 6 / 9.869604401).epsilon(1e-8));
}

TEST_CASE("a bound clause passes within its limit and is never violated") {
  auto contract = make::contract();
  contract.assumptions.reward = schema::Assumptions::Reward{0, 2};
  const auto bound = [](double limit) {
    return make::clause(schema::Family::numerical, "reward", schema::BoundSubject{schema::Bound::reward},
                        make::max(limit), schema::Stage::offline_numeric);
  };
  auto table = make::table();
  for (int i = 0; i < 300; ++i) make::append(table, {10, i % 2 == 0 ? 0.009 : 0.011, {}});
  contract.clauses = {bound(0.06)};
  const auto passed = evaluate(contract, table).clauses.at(0);
  CHECK(passed.verdict == Verdict::pass);
  CHECK(*passed.estimate == doctest::Approx(0.02));
  contract.clauses = {bound(0.001)};
  CHECK(evaluate(contract, table).clauses.at(0).verdict == Verdict::inconclusive);
}

TEST_CASE("a bound over whole sequences is decided by the best link and never violated") {
  auto contract = make::contract();
  contract.assumptions.reward = schema::Assumptions::Reward{0, 2};
  contract.assumptions.policy = schema::Assumptions::Policy{1, 1, 0.2, {}};
  contract.assumptions.max_tokens = 16;
  const auto bound = [](std::string id, schema::Bound kind, double limit) {
    return make::clause(schema::Family::numerical, std::move(id),
                        schema::BoundSubject{kind, schema::Horizon::sequence}, make::max(limit),
                        schema::Stage::offline_numeric);
  };
  const auto with = [&](double factor) {
    // tv_seq ≤ √(½·16·2.5·1.04e-4) = 0.0456 by KL; the reward's is twice that, the gradient's 2·16 times.
    return std::vector{bound("tv", schema::Bound::tv, 0.0456 * factor),
                       bound("sequence", schema::Bound::sequence, 0.0456 * factor),
                       bound("reward", schema::Bound::reward, 0.0912 * factor),
                       bound("gradient", schema::Bound::policy_gradient, 1.459 * factor)};
  };
  auto table = make::table();
  for (int i = 0; i < 400; ++i) make::append(table, {16, i % 2 == 0 ? 0.008 : 0.012, {}});
  contract.clauses = with(1.1);
  // Tokens of the corpus say nothing of whole sequences.
  for (const auto& verdict : evaluate(contract, table).clauses) {
    CAPTURE(verdict.clause);
    CHECK(verdict.verdict == Verdict::inconclusive);
    CHECK(verdict.message.find("assumption that the data contradict") != std::string::npos);
  }
  table.has_tokens = true;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "tinylm-bf16";
  REQUIRE(table.sampled_by_inf());
  for (const auto& verdict : evaluate(contract, table).clauses) {
    CAPTURE(verdict.clause);
    CHECK(verdict.verdict == Verdict::pass);
    CHECK(verdict.method.find("bootstrap-t") != std::string::npos);
    CHECK(verdict.approximate);
  }
  for (const double factor : {0.9, 1e-9}) {
    contract.clauses = with(factor);
    for (const auto& verdict : evaluate(contract, table).clauses) {
      CAPTURE(verdict.clause);
      CHECK(verdict.verdict == Verdict::inconclusive);
      CHECK(verdict.message.find("proves no harm") != std::string::npos);
    }
  }
  table.sequences.resize(49);
  table.infos.resize(49);
  contract.clauses = with(1.1);
  for (const auto& verdict : evaluate(contract, table).clauses) {
    CHECK(verdict.verdict == Verdict::inconclusive);
    CHECK(verdict.message.find("at least 50 independent sequences") != std::string::npos);
  }
}

TEST_CASE("a capture taken after a sampling filter has no certificate") {
  auto contract = make::contract();
  auto table = make::table();
  make::append(table, {});
  table.inf.sampling_filter = "top_p=0.9";
  const StageReport report = evaluate(contract, table);
  CHECK(report.bounds.at(0).links.empty());
  CHECK(report.bounds.at(0).refused.find("top_p=0.9") != std::string::npos);
}

TEST_CASE("rewards outside the contract's range break the reward link") {
  auto contract = make::contract();
  contract.assumptions.reward = schema::Assumptions::Reward{0, 1};
  auto table = make::table();
  for (int i = 0; i < 60; ++i) make::append(table, {});
  table.infos[3].reward = 0.5;
  const auto some = bound_chain(table, contract.assumptions, {}, 0.05, 1);
  REQUIRE(best_link(some, schema::Bound::reward, schema::Horizon::token) != nullptr);
  CHECK(best_link(some, schema::Bound::reward, schema::Horizon::token)->status ==
        AssumptionStatus::unchecked);
  for (auto& info : table.infos) info.reward = 0.5;
  const auto fine = bound_chain(table, contract.assumptions, {}, 0.05, 1);
  REQUIRE(best_link(fine, schema::Bound::reward, schema::Horizon::token) != nullptr);
  CHECK(best_link(fine, schema::Bound::reward, schema::Horizon::token)->status == AssumptionStatus::checked);
  table.infos[3].reward = 1.5;
  const auto broken = bound_chain(table, contract.assumptions, {}, 0.05, 1);
  CHECK(best_link(broken, schema::Bound::reward, schema::Horizon::token) == nullptr);
}
