#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/drift.hpp"
#include "gpu/table/summary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;

namespace {

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// The accuracy of docs/design/measurement.md, "Error bounds", which means, maxima and minima of rows
/// inherit.
double permitted(Metric metric, double value) {
  const bool tight = metric == Metric::tv || metric == Metric::kl_train_inf ||
                     metric == Metric::kl_inf_train || metric == Metric::js;
  if (metric == Metric::logprob_train || metric == Metric::logprob_inf) return 1e-6;
  return tight ? std::max(1e-6 * std::abs(value), 1e-15) : std::max(1e-4 * std::abs(value), 1e-12);
}

void check_metric(const nlohmann::json& wanted, const MetricSummary& got, Metric metric) {
  CAPTURE(schema::to_string(metric));
  const auto close = [&](const char* field, double value) {
    if (!wanted.contains(field)) return;
    const double want = wanted[field].get<double>();
    CAPTURE(field);
    CHECK(std::abs(value - want) <= permitted(metric, want));
  };
  close("mean", got.mean);
  close("max", got.max);
  close("min", got.min);
  close("sequence_mean", got.sequence_mean);
  const auto quantile = [&](const char* field, double value) {
    if (!wanted.contains(field)) return;
    const double want = wanted[field].get<double>();
    CAPTURE(field);
    CHECK(std::abs(value - want) <= 0.01 * std::abs(want) + permitted(metric, want));  // the histogram's 1%
  };
  quantile("p50", got.p50);
  quantile("p99", got.p99);
}

double figure(const Summary& summary, Metric metric, const std::string& path) {
  for (const DerivedSummary& derived : summary.derived) {
    if (derived.metric != metric) continue;
    for (const auto& [name, value] : derived.figures) {
      if (name == path) return value;
    }
  }
  FAIL("there is no " << schema::to_string(metric) << " " << path);
  return 0;
}

void check_derived(const nlohmann::json& wanted, const Summary& summary) {
  // Sums of figures with relative error 1e-4 at worst; the log-ratios of these rows are far better.
  const auto close = [](double got, double want) {
    CHECK(std::abs(got - want) <= 1e-6 * std::abs(want) + 1e-12);
  };
  for (const char* name :
       {"ratio_mean", "tv_sampled", "kl_inf_train_sampled", "abs_log_ratio", "mult_prob_error",
        "ess_fraction", "clip_budget_used", "chi2_sequence", "tv_sequence", "prob_pearson"}) {
    CAPTURE(name);
    close(figure(summary, *schema::metric_from_name(name), "value"), wanted[name].get<double>());
  }
  for (const char* band : {"0_1pct", "1pct", "5pct"}) {
    CAPTURE(band);
    close(figure(summary, Metric::band_retention, std::string("tokens.") + band),
          wanted["band_retention_tokens"][band].get<double>());
  }
  for (const char* path : {"mean", "min", "max"}) {
    CAPTURE(path);
    close(figure(summary, Metric::sequence_log_ratio, path),
          wanted["sequence_log_ratio"][path].get<double>());
  }
}

void check_slices(const nlohmann::json& wanted, const MeasurementTable& table) {
  std::size_t seen = 0;
  for (const nlohmann::json& slice : wanted) {
    const auto where = slice["where"].get<SliceAttributes>();
    const Summary summary = summarise(table, where);
    CAPTURE(slice["where"].dump());
    CHECK(summary.rows == slice["rows"].get<std::uint64_t>());
    CHECK(summary.sequences == slice["sequences"].get<std::uint64_t>());
    const bool described = summary.sequences >= kDescribedMinSequences;
    CHECK(std::ranges::count(table.slices, where, &SliceHistograms::where) == (described ? 1 : 0));
    seen += described ? 1 : 0;
    for (const auto& [name, figures] : slice["metrics"].items()) {
      const Metric metric = *schema::metric_from_name(name);
      check_metric(figures, summary.metrics[static_cast<std::size_t>(metric)], metric);
    }
  }
  CHECK(seen + 1 == table.slices.size());  // and the corpus
}

void check_pair(const std::string& inf_name) {
  CAPTURE(inf_name);
  const auto train = Capture::open("tests/vectors/tiny_f32.safetensors");
  const auto inf = Capture::open("tests/vectors/tiny_" + inf_name + ".safetensors");
  const auto corpus = read_corpus("tests/vectors/tiny_corpus.jsonl");
  REQUIRE(train);
  REQUIRE(inf);
  REQUIRE(corpus);
  const auto table = measure(*train, *inf, &*corpus, {});
  REQUIRE(table);
  const nlohmann::json wanted = read_json("tests/vectors/expected_tiny_" + inf_name + ".json");
  const Summary summary = summarise(*table);
  CHECK(summary.rows == wanted["rows"].get<std::uint64_t>());
  CHECK(summary.sequences == wanted["sequences"].get<std::uint64_t>());
  for (std::size_t i = 0; i < kRowMetricCount; ++i) {
    const auto metric = static_cast<Metric>(i);
    if (metric == Metric::nonfinite) continue;
    check_metric(wanted[std::string(schema::to_string(metric))], summary.metrics[i], metric);
  }
  check_derived(wanted, summary);
  check_slices(wanted["slices"], *table);
}

}  // namespace

TEST_CASE("int8 against float32 agrees with the reference") {
  check_pair("int8");
}
TEST_CASE("bf16 against float32 agrees with the reference") {
  check_pair("bf16");
}
TEST_CASE("bf16 with one bad slice against float32 agrees with the reference") {
  check_pair("bf16_one_bad_slice");
}
