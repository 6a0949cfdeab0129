#include "gpu/partial/partial_drift.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "gpu/capture/ingest_checks.hpp"
#include "gpu/table/summary.hpp"
#include "tests/gpu/partial_draft.hpp"
#include "tests/gpu/partial_pair.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::size_t kVocabulary = 40, kListed = 8;

/// What the two engines tell of the same rows: sequences of eight, the tokens drawn from q.
struct DraftPair {
  PartialDraft train, inf;
  std::vector<TruePair> rows;
};

PartialDraft::List stored(const std::vector<ListedToken>& list) {
  PartialDraft::List out;
  for (const ListedToken& token : list) out.emplace_back(static_cast<std::int32_t>(token.id), token.logprob);
  return out;
}

struct Manner {
  double size = 2;  ///< of the logits: how peaked the rows are
  Rounding rounding = Rounding::none;
};

/// That a capture of this draft is refused when it is measured, with these words.
void check_refused(const PartialDraft& draft, const char* words) {
  TemporaryFolder folder;
  draft.write(folder / "a.safetensors");
  const auto capture = Capture::open(folder / "a.safetensors");
  REQUIRE(capture);
  const auto table = measure(*capture, *capture, nullptr, {});
  REQUIRE_FALSE(table);
  CHECK(table.error().message.find(words) != std::string::npos);
}

DraftPair random_drafts(std::uint64_t seed, int count, double drift = 0.1, const Manner& manner = {}) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  DraftPair out;
  for (PartialDraft* draft : {&out.train, &out.inf}) {
    draft->metadata["vocabulary"] = std::to_string(kVocabulary);
    draft->metadata["token_source"] = "k";
  }
  for (int i = 0; i < count; ++i) {
    std::vector<double> z, y;
    for (std::size_t v = 0; v < kVocabulary; ++v) {
      z.push_back(manner.size * normal(random));
      y.push_back(z.back() + drift * normal(random));
    }
    const TruePair pair{softmax_of(z), softmax_of(y)};
    std::discrete_distribution<std::int32_t> draw(pair.q.begin(), pair.q.end());
    const std::int32_t token = draw(random);
    const auto at = static_cast<std::size_t>(token);
    out.train.add_row(i / 8, i % 8, token, stored_logprob(pair.p[at], manner.rounding),
                      stored(top_list(pair.p, kListed, manner.rounding, -1)));
    out.inf.add_row(i / 8, i % 8, token, stored_logprob(pair.q[at], manner.rounding),
                    stored(top_list(pair.q, kListed, manner.rounding, -1)));
    out.rows.push_back(pair);
  }
  return out;
}

MeasurementTable measure_drafts(const DraftPair& pair, MeasureOptions options = {}) {
  TemporaryFolder folder;
  pair.train.write(folder / "train.safetensors");
  pair.inf.write(folder / "inf.safetensors");
  const auto train = Capture::open(folder / "train.safetensors");
  const auto inf = Capture::open(folder / "inf.safetensors");
  if (!train) FAIL(train.error().describe());
  if (!inf) FAIL(inf.error().describe());
  auto table = measure(*train, *inf, nullptr, options);
  if (!table) FAIL(table.error().describe());
  return std::move(*table);
}

const CaptureFinding* find(const MeasurementTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.partial.findings, name, &CaptureFinding::name);
  return found == table.partial.findings.end() ? nullptr : &*found;
}

const BoundSummary& bound_of(const Summary& summary, Metric metric) {
  return *std::ranges::find(summary.bounds, metric, &BoundSummary::metric);
}

void each_value(PartialDraft& draft, const std::function<float(float)>& change) {
  for (PartialDraft::List& list : draft.lists) {
    for (auto& [id, value] : list) value = change(value);
  }
  for (float& value : draft.logprobs) value = change(value);
}

}  // namespace

TEST_CASE("a table of lists carries bounds whose means enclose the true means") {
  const DraftPair pair = random_drafts(3, 400);
  MeasureOptions options;
  options.top_k = 4;
  options.thresholds = {{Metric::tv, 0.05, true}, {Metric::topk_overlap, 0.9, false}};
  const MeasurementTable table = measure_drafts(pair, options);
  CHECK(table.partial.mode == "topk");
  CHECK(table.partial.listed == kListed);
  CHECK(table.partial.findings.empty());
  CHECK(table.sequences.size() == 50);
  const Summary summary = summarise(table);
  CHECK(summary.nonfinite_rows == 0);
  CHECK(summary.tail_train > 0.01);
  for (const Metric metric : table.partial.metrics) {
    if (metric == Metric::logit_max_abs) continue;
    double mean = 0;
    for (const TruePair& row : pair.rows) mean += truth_of(row, 4)[static_cast<std::size_t>(metric)] / 400;
    const BoundSummary& bounds = bound_of(summary, metric);
    CAPTURE(schema::to_string(metric));
    CHECK(bounds.n == 400);
    CHECK(bounds.mean_lower <= mean + 1e-12);  // rounding of the sum of 400 doubles
    CHECK(bounds.mean_upper >= mean - 1e-12);
    CHECK(bounds.max_lower <= bounds.max_upper);
    CHECK(summary.metrics[static_cast<std::size_t>(metric)].n == 0);
  }
  std::uint64_t surely = 0, maybe = 0, truly = 0;
  for (const SequenceRow& row : table.sequences) {
    surely += row.beyond[0];
    maybe += row.bounds->maybe_beyond[0];
  }
  for (const TruePair& row : pair.rows)
    truly += truth_of(row, 4)[static_cast<std::size_t>(Metric::tv)] > 0.05 ? 1U : 0U;
  CHECK(surely <= truly);
  CHECK(maybe >= truly);
  CHECK(summary.derived.size() > 5);
  CHECK(table.worst_rows.size() == 20);
  CHECK(table.worst_rows.front().upper.size() == table.partial.metrics.size());
  const auto back = deserialise(serialise(table));
  REQUIRE(back);
  CHECK(serialise(*back) == serialise(table));
}

TEST_CASE("a table of partial captures whose lists do not match in length is refused") {
  MeasurementTable table = measure_drafts(random_drafts(3, 8));
  const auto refused = [&](const std::function<void(MeasurementTable&)>& change) {
    MeasurementTable copy = table;
    change(copy);
    return !deserialise(serialise(copy));
  };
  CHECK(refused([](MeasurementTable& t) { t.sequences[0].bounds.reset(); }));
  CHECK(refused([](MeasurementTable& t) { t.sequences[0].bounds->metrics.pop_back(); }));
  CHECK(refused([](MeasurementTable& t) { t.sequences[0].bounds->maybe_beyond.push_back(1); }));
  CHECK(refused([](MeasurementTable& t) { t.worst_rows[0].upper.pop_back(); }));
  CHECK(refused([](MeasurementTable& t) { t.partial.metrics[0] = Metric::error_rate; }));
  CHECK_FALSE(refused([](MeasurementTable&) {}));
}

TEST_CASE("NaN in a list makes its row not finite, and the row is not averaged away") {
  DraftPair pair = random_drafts(3, 40);
  pair.inf.lists[17][3].second = NAN;
  const MeasurementTable table = measure_drafts(pair);
  CHECK(table.nonfinite_rows == 1);
  CHECK(table.worst_rows.front().row == 17);
  const Summary summary = summarise(table);
  CHECK(summary.nonfinite_rows == 1);
  CHECK(std::isnan(bound_of(summary, Metric::tv).mean_lower));
  CHECK(bound_of(summary, Metric::tv).n == 39);
}

TEST_CASE("unknown rows widen the bounds and are found") {
  DraftPair pair = random_drafts(3, 40);
  pair.inf.lists[5].clear();
  pair.inf.logprobs[5] = -9999.0F;
  const MeasurementTable table = measure_drafts(pair);
  CHECK(table.partial.unknown_rows == 1);
  const CaptureFinding* finding = find(table, kUnknownRows);
  REQUIRE(finding != nullptr);
  CHECK_FALSE(finding->decides);
  CHECK(bound_of(summarise(table), Metric::tv).max_upper == 1);
  CHECK(table.sequences[0].target.n == 7);
}

TEST_CASE("log-probabilities that were rounded to bf16 are found and widen the bounds") {
  DraftPair pair = random_drafts(11, 80, 0.001);
  const MeasurementTable exact = measure_drafts(pair);
  CHECK(find(exact, kRoundedToBf16) == nullptr);
  each_value(pair.inf, [](float value) { return cpu::from_bf16(to_bf16(value)); });
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kRoundedToBf16);
  REQUIRE(finding != nullptr);
  CHECK(finding->side == "inf");
  CHECK_FALSE(finding->decides);
  double mean = 0;
  for (const TruePair& row : pair.rows) mean += truth_of(row, 4)[static_cast<std::size_t>(Metric::tv)] / 80;
  const BoundSummary bounds = bound_of(summarise(table), Metric::tv);
  CHECK(bounds.mean_lower <= mean);
  CHECK(bounds.mean_upper >= mean);
  CHECK(bounds.mean_lower < bound_of(summarise(exact), Metric::tv).mean_lower);
}

TEST_CASE("positive log-probabilities are a deciding finding") {
  DraftPair pair = random_drafts(11, 80);
  each_value(pair.inf, [](float value) { return -value; });
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kPositiveLogprobs);
  REQUIRE(finding != nullptr);
  CHECK(finding->decides);
  CHECK(finding->side == "inf");
  CHECK(finding->count == finding->of);
  CHECK(find(table, kMassOverOne) != nullptr);
}

TEST_CASE("peaked lists that were rounded to bf16 sum to more than 1 by their rounding, and only widen bounds") {
  std::size_t over_one = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    DraftPair pair = random_drafts(seed, 200, 0.1, {5, Rounding::bf16});
    for (const PartialDraft* draft : {&pair.train, &pair.inf}) {
      for (const PartialDraft::List& list : draft->lists) {
        double mass = 0;
        for (const auto& [id, value] : list) mass += std::exp(static_cast<double>(value));
        over_one += mass > 1.001 ? 1 : 0;
      }
    }
    const MeasurementTable table = measure_drafts(pair);
    CHECK(find(table, kRoundedToBf16) != nullptr);
    CHECK(std::ranges::none_of(table.partial.findings, &CaptureFinding::decides));
    double mean = 0;
    for (const TruePair& row : pair.rows) mean += truth_of(row, 4)[static_cast<std::size_t>(Metric::tv)] / 200;
    const Summary summary = summarise(table);
    const BoundSummary& bounds = bound_of(summary, Metric::tv);
    CHECK(bounds.mean_lower <= mean);
    CHECK(bounds.mean_upper >= mean);
  }
  CHECK(over_one >= 10);  // by the stored values alone these would be of no distribution

  // What rounding does not explain decides as ever: masses of 1.1, in float32 and in bf16.
  for (const Rounding rounding : {Rounding::none, Rounding::bf16}) {
    DraftPair pair = random_drafts(3, 200, 0.1, {5, rounding});
    each_value(pair.inf, [&](float value) {
      const auto more = static_cast<float>(value + std::log(1.1));
      return rounding == Rounding::none ? more : cpu::from_bf16(to_bf16(more));
    });
    const MeasurementTable table = measure_drafts(pair);
    const CaptureFinding* finding = find(table, kMassOverOne);
    REQUIRE(finding != nullptr);
    CHECK(finding->decides);
    CHECK(finding->side == "inf");
  }
}

TEST_CASE("a rounding error above zero is not a positive log-probability") {
  DraftPair pair = random_drafts(11, 80);
  pair.inf.lists[0] = {{1, 1e-7F}};
  CHECK(measure_drafts(pair).partial.findings.empty());
}

TEST_CASE("log-probabilities that are one row late are found across the captures") {
  DraftPair pair = random_drafts(11, 160, 0.02);
  for (PartialDraft* draft : {&pair.train, &pair.inf}) {
    draft->columns = 0;  // realised mode
  }
  CHECK(find(measure_drafts(pair), kOffByOne) == nullptr);
  auto& late = pair.inf.logprobs;
  std::ranges::rotate(late, late.end() - 1);
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kOffByOne);
  REQUIRE(finding != nullptr);
  CHECK(finding->decides);
  CHECK(finding->text.find("later") != std::string::npos);
  RowContrast contrast;  // what the diagnosis reads; the shift crosses sequences, whose pairs do not
  for (const SequenceRow& row : table.sequences) contrast.merge(row.contrast);
  CHECK(contrast.tokens == 160);
  CHECK(contrast.logprob.pairs == 140);
  CHECK(contrast.logprob.previous < 0.1 * contrast.logprob.own);
  CHECK(table.profile.by_position[3].tokens == 80);
  std::ranges::rotate(late, late.begin() + 2);
  const MeasurementTable early = measure_drafts(pair);
  REQUIRE(find(early, kOffByOne) != nullptr);
  CHECK(find(early, kOffByOne)->text.find("earlier") != std::string::npos);
}

TEST_CASE("tokens that belong to the neighbouring row's list are found within one capture") {
  DraftPair pair = random_drafts(11, 160, 0.02);
  for (PartialDraft* draft : {&pair.train, &pair.inf}) {
    std::ranges::rotate(draft->logprobs, draft->logprobs.end() - 1);
    std::ranges::rotate(draft->tokens, draft->tokens.end() - 1);
  }
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kOffByOne);
  REQUIRE(finding != nullptr);
  CHECK(finding->decides);
  CHECK(finding->text.find("previous row's list") != std::string::npos);
}

TEST_CASE("log-probabilities that one engine divided by a temperature are found") {
  DraftPair pair = random_drafts(11, 160, 0.01);
  for (std::size_t row = 0; row < pair.rows.size(); ++row) {
    std::vector<double> hot;
    for (const double q : pair.rows[row].q) hot.push_back(std::log(q) / 0.7);
    pair.inf.lists[row] = stored(top_list(softmax_of(hot), kListed, Rounding::none, -1));
  }
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kProcessedLogprobs);
  REQUIRE(finding != nullptr);
  CHECK(finding->decides);
  CHECK(finding->text.find("about 0.7)") != std::string::npos);
}

TEST_CASE("lists that were taken after a sampling filter are found") {
  DraftPair pair = random_drafts(11, 160, 0.3);
  for (std::size_t row = 0; row < pair.rows.size(); ++row) {
    auto& list = pair.inf.lists[row];
    double mass = 0;
    for (const auto& [id, value] : list) mass += std::exp(static_cast<double>(value));
    for (auto& [id, value] : list) value -= static_cast<float>(std::log(mass));
  }
  const MeasurementTable table = measure_drafts(pair);
  const CaptureFinding* finding = find(table, kProcessedLogprobs);
  REQUIRE(finding != nullptr);
  CHECK(finding->side == "inf");
  CHECK(finding->decides);
}

TEST_CASE(
    "a stated error of the log-probabilities widens the bounds, and one that is not a number is refused") {
  DraftPair pair = random_drafts(3, 40, 0.001);
  const double before = bound_of(summarise(measure_drafts(pair)), Metric::tv).mean_lower;
  pair.inf.metadata["logprob_error"] = "0.01";
  CHECK(bound_of(summarise(measure_drafts(pair)), Metric::tv).mean_lower < before);
  pair.inf.metadata["logprob_error"] = "small";
  check_refused(pair.inf, "logprob_error 'small'");
}

TEST_CASE("a softmax that is stated to be exact leaves narrower bounds, and an unknown type is refused") {
  DraftPair pair = random_drafts(3, 40, 0.001);
  const double before = bound_of(summarise(measure_drafts(pair)), Metric::tv).mean_lower;
  pair.train.metadata["softmax_dtype"] = pair.inf.metadata["softmax_dtype"] = "float64";
  CHECK(bound_of(summarise(measure_drafts(pair)), Metric::tv).mean_lower > before);
  pair.inf.metadata["softmax_dtype"] = "float8";
  check_refused(pair.inf, "softmax_dtype 'float8'");
}

TEST_CASE("partial captures are refused with the reason where full logits are needed") {
  TemporaryFolder folder;
  random_drafts(3, 8).train.write(folder / "a.safetensors");
  const auto capture = Capture::open(folder / "a.safetensors");
  REQUIRE(capture);
  MeasureOptions options;
  options.device = "cuda";
  auto table = measure(*capture, *capture, nullptr, options);
  REQUIRE_FALSE(table);
  CHECK(table.error().message.find("measured on the cpu") != std::string::npos);
  for (const std::uint32_t top_k : {0U, 1'025U}) {  // an overlap of no tokens would be 0/0
    MeasureOptions none;
    none.top_k = top_k;
    table = measure(*capture, *capture, nullptr, none);
    REQUIRE_FALSE(table);
    CHECK(table.error().message.find("top_k") != std::string::npos);
  }
  const RowSink sink = [](std::uint64_t, std::span<const driftgate_row>) { return schema::Result<void>{}; };
  table = measure(*capture, *capture, nullptr, {}, {}, sink);
  REQUIRE_FALSE(table);
  CHECK(table.error().message.find("capture full logits") != std::string::npos);
}
