#include "stages/diagnosis/diagnosis.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "gpu/drift.hpp"
#include "gpu/ranks/fault_injection.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using gpu::test::CaptureDraft;
using gpu::test::TemporaryFolder;

namespace {

const std::string kVectors = "tests/vectors/";
constexpr std::uint64_t kSeed = 77;

gpu::Capture open(const std::filesystem::path& path) {
  auto capture = gpu::Capture::open(path);
  if (!capture) throw std::runtime_error(capture.error().describe());
  return std::move(*capture);
}

gpu::Corpus tiny_corpus() {
  auto corpus = gpu::read_corpus(kVectors + "tiny_corpus.jsonl");
  if (!corpus) throw std::runtime_error(corpus.error().describe());
  return std::move(*corpus);
}

gpu::MeasurementTable measured(const gpu::Capture& train, const gpu::Capture& inf,
                               const gpu::Corpus* corpus) {
  auto table = gpu::measure(train, inf, corpus, {});
  if (!table) throw std::runtime_error(table.error().describe());
  return std::move(*table);
}

/// Changes the logits of one row, which is row `row` of sequence `sequence`.
using Change = std::function<void(std::int64_t sequence, std::int64_t position, std::span<float> logits)>;

/// The real model's captures: float32 against `inf` (one of the float32 files), changed.
gpu::MeasurementTable tiny(const Change& change, bool with_corpus = true,
                           const char* inf = "tiny_int8.safetensors") {
  TemporaryFolder folder;
  const gpu::Capture train = open(kVectors + "tiny_f32.safetensors"), from = open(kVectors + inf);
  CaptureDraft draft;
  draft.vocabulary = from.vocabulary();
  draft.metadata = from.segments().front().file.header().metadata;
  std::vector<float> row(from.vocabulary());
  for (std::uint64_t i = 0; i < from.rows(); ++i) {
    std::memcpy(row.data(), from.segments().front().logits + i * row.size() * sizeof(float),
                row.size() * sizeof(float));
    const std::int64_t sequence = from.sequence_ids()[i], position = from.positions()[i];
    if (change) change(sequence, position, row);
    draft.add_row(static_cast<std::int32_t>(sequence), static_cast<std::int32_t>(position),
                  static_cast<std::int32_t>(from.token_ids()[i]), row);
  }
  draft.write(folder / "inf.safetensors");
  const gpu::Corpus corpus = tiny_corpus();
  return measured(train, open(folder / "inf.safetensors"), with_corpus ? &corpus : nullptr);
}

gpu::MeasurementTable with_fault(gpu::Fault fault) {
  TemporaryFolder folder;
  const gpu::Corpus corpus = tiny_corpus();
  const gpu::Capture inf = open(kVectors + "tiny_int8.safetensors");
  const auto ok =
      gpu::write_faulty_capture(inf, &corpus, fault, {{"domain", "license"}}, 3, folder / "f.safetensors");
  if (!ok) throw std::runtime_error(ok.error().describe());
  return measured(open(kVectors + "tiny_f32.safetensors"), open(folder / "f.safetensors"), &corpus);
}

/// Random rows of a made-up model, `rows` to each of 40 sequences, with noise of a size that may depend on
/// the place.
gpu::MeasurementTable made_up(int rows, const std::function<double(int sequence, int position)>& noise,
                              bool other_weights = false) {
  TemporaryFolder folder;
  std::mt19937_64 random(kSeed), other(kSeed + 1);
  std::normal_distribution<float> normal;
  CaptureDraft train, inf;
  train.vocabulary = inf.vocabulary = 200;
  for (int sequence = 0; sequence < 40; ++sequence) {
    for (int position = 0; position < rows; ++position) {
      std::vector<float> z, y;
      for (int v = 0; v < 200; ++v) {
        z.push_back(3 * normal(random));
        y.push_back(other_weights ? 3 * normal(other)
                                  : z.back() + static_cast<float>(noise(sequence, position)) * normal(other));
      }
      train.add_row(sequence, position, position % 200, z);
      inf.add_row(sequence, position, position % 200, y);
    }
  }
  train.write(folder / "a.safetensors");
  inf.write(folder / "b.safetensors");
  return measured(open(folder / "a.safetensors"), open(folder / "b.safetensors"), nullptr);
}

/// The patterns by name, the first first.
std::string patterns(const Diagnosis& diagnosis) {
  std::string out;
  for (const Suspicion& s : diagnosis.suspicions) {
    out += (out.empty() ? "" : ", ") + std::string(to_string(s.pattern));
    CHECK_FALSE(s.because.empty());
    CHECK_FALSE(s.next.empty());
    CHECK_FALSE(s.figures.empty());
  }
  return out;
}

const Suspicion& first(const Diagnosis& diagnosis) {
  REQUIRE_FALSE(diagnosis.suspicions.empty());
  return diagnosis.suspicions.front();
}

/// Pairs of target tokens: log_p normal about −2, changed by `log_q`.
gpu::MeasurementTable realised(const std::function<double(double log_p, double noise)>& log_q) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  std::vector<gpu::TargetTokenPair> pairs;
  for (int i = 0; i < 800; ++i) {
    const double log_p = -std::abs(2 + 1.5 * normal(random)) - 0.01;
    pairs.push_back({i / 20, log_p, std::min(0.0, log_q(log_p, normal(random)))});
  }
  gpu::TargetTokenContext context;
  auto table = gpu::measure_target_tokens(pairs, context);
  if (!table) throw std::runtime_error(table.error().describe());
  return std::move(*table);
}

double to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0x8000U) & 0xFFFF0000U));
}

}  // namespace

TEST_CASE("kernels that only round fit no known pattern") {
  const gpu::Corpus corpus = tiny_corpus();
  const gpu::Capture train = open(kVectors + "tiny_f32.safetensors");
  for (const char* name : {"tiny_bf16.safetensors", "tiny_int8.safetensors"}) {
    CAPTURE(name);
    const auto diagnosis = diagnose(measured(train, open(kVectors + name), &corpus));
    CHECK(patterns(diagnosis) == "");
    CHECK(diagnosis.summary.find("No known pattern") == 0);
  }
  for (const double noise : {1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.15}) {
    CAPTURE(noise);
    CHECK(patterns(diagnose(made_up(64, [&](int, int) { return noise; }))) == "");
  }
  // Noise that differs from sequence to sequence and with the size of the logits, as activations' scales do.
  CHECK(patterns(diagnose(
            made_up(64, [](int s, int p) { return 0.02 * (1 + s % 5 * 0.3) * (1 + p % 3 * 0.5); }))) == "");
  CHECK(patterns(diagnose(realised([](double p, double noise) { return p + 0.02 * noise; }))) == "");
}

TEST_CASE("identical captures are said to be identical") {
  const gpu::Capture train = open(kVectors + "tiny_f32.safetensors");
  const auto diagnosis = diagnose(measured(train, train, nullptr));
  CHECK(diagnosis.suspicions.empty());
  CHECK(diagnosis.summary.find("same logits") != std::string::npos);
  CHECK(diagnose(gpu::MeasurementTable{}).summary.find("no pattern can be found") != std::string::npos);
}

TEST_CASE("rows shifted by one are recognised by their neighbours' entropies, in either direction") {
  const auto ahead = diagnose(with_fault(gpu::Fault::off_by_one));
  CHECK(patterns(ahead) == "off_by_one");
  CHECK(first(ahead).because.find("K_train's next row") != std::string::npos);
  CHECK(ahead.summary.find("Looks like rows shifted by one position, because the entropy") == 0);
  std::vector<float> last;
  std::int64_t of = -1;
  const auto behind = diagnose(tiny([&](std::int64_t sequence, std::int64_t, std::span<float> row) {
    std::vector<float> own(row.begin(), row.end());
    if (of == sequence) std::ranges::copy(last, row.begin());
    last = std::move(own), of = sequence;
  }));
  CHECK(patterns(behind) == "off_by_one");
  CHECK(first(behind).because.find("K_train's previous row") != std::string::npos);
}

TEST_CASE("realised log-probabilities shifted by one are recognised") {
  double before = -1;
  const auto table = realised([&](double p, double noise) {
    const double shifted = before + 0.01 * noise;
    before = p;
    return shifted;
  });
  const auto diagnosis = diagnose(table);
  CHECK(first(diagnosis).pattern == Pattern::off_by_one);
  CHECK(first(diagnosis).because.find("log-probability") != std::string::npos);
}

TEST_CASE("columns of the head in another order keep the entropy and lose everything else") {
  const auto diagnosis = diagnose(with_fault(gpu::Fault::permuted_head));
  CHECK(patterns(diagnosis) == "permuted_columns");
}

TEST_CASE("logits times a factor keep the order and move every entropy one way") {
  for (const double factor : {1.5, 1.25, 1.05, 1.02, 0.98, 0.8, 0.6}) {
    CAPTURE(factor);
    const bool small = std::abs(factor - 1) < 0.1;  // less than int8's own noise
    const auto diagnosis = diagnose(tiny(
        [&](std::int64_t, std::int64_t, std::span<float> row) {
          for (float& z : row) z *= static_cast<float>(factor);
        },
        true, small ? "tiny_f32.safetensors" : "tiny_int8.safetensors"));
    CHECK(patterns(diagnosis) == "scaled_logits");
    CHECK(first(diagnosis).where == "all sequences");
    CHECK((first(diagnosis).looks_like.find("above 1") != std::string::npos) == (factor > 1));
    const double found = (first(diagnosis).figures.at("factor") - 1) / (factor - 1);
    CHECK(found > 0.999);
    CHECK(found < (small ? 1.001 : 1.6));  // int8's noise adds to both KL
  }
}

TEST_CASE("a scaled block of sequences is found as such, with the sequences counted") {
  const auto diagnosis = diagnose(with_fault(gpu::Fault::scaled_rows));
  CHECK(patterns(diagnosis) == "scaled_logits, some_sequences");
  CHECK(first(diagnosis).where == "5 of 48 sequences");
}

TEST_CASE("a fault of one slice names the slice") {
  const auto noisy = diagnose(with_fault(gpu::Fault::corrupted_slice));
  REQUIRE(patterns(noisy) == "one_slice");
  CHECK(first(noisy).where.find("domain=license, ") == 0);
  const gpu::Corpus corpus = tiny_corpus();
  const auto pair = diagnose(measured(open(kVectors + "tiny_f32.safetensors"),
                                      open(kVectors + "tiny_bf16_one_bad_slice.safetensors"), &corpus));
  REQUIRE(patterns(pair).find("one_slice") != std::string::npos);
  const auto slice = std::ranges::find(pair.suspicions, Pattern::one_slice, &Suspicion::pattern);
  CHECK(slice->where.find("domain=license;prompt_length=short, 13 of 48") == 0);
}

TEST_CASE("sequences that stand out without a slice to explain them are counted") {
  const auto diagnosis = diagnose(made_up(16, [](int s, int) { return s % 9 == 4 ? 0.5 : 0.01; }));
  CHECK(patterns(diagnosis) == "some_sequences");
  CHECK(first(diagnosis).where == "4 of 40 sequences");
}

TEST_CASE("other weights drift beyond rounding on every row") {
  const auto diagnosis = diagnose(made_up(
      16, [](int, int) { return 0.0; }, true));
  CHECK(patterns(diagnosis) == "wrong_weights");
  CHECK(patterns(diagnose(realised([](double p, double noise) { return p + 1.2 * noise; }))) ==
        "wrong_weights");
}

TEST_CASE("drift that grows along the sequence is told from drift that begins somewhere") {
  const auto grows = diagnose(made_up(256, [](int, int p) { return 0.004 * std::sqrt(1.0 + p); }));
  CHECK(patterns(grows) == "grows_with_position");
  CHECK(first(grows).looks_like.find("accumulates") != std::string::npos);
  const auto begins = diagnose(made_up(256, [](int, int p) { return p < 128 ? 0.002 : 0.05; }));
  CHECK(patterns(begins) == "grows_with_position");
  CHECK(first(begins).where == "from position 128 on");
  CHECK(first(begins).looks_like.find("begins near position 128") != std::string::npos);
}

TEST_CASE("no drift at position 0 and drift at once after it is a fault of attention") {
  const auto diagnosis = diagnose(made_up(64, [](int, int p) { return p == 0 ? 0.0 : 0.1; }));
  REQUIRE(patterns(diagnosis) == "attention_scores");
  CHECK(first(diagnosis).looks_like.find("rotary base") != std::string::npos);
  // As large at position 0 as elsewhere, or nothing but what fused attention rounds.
  CHECK(patterns(diagnose(made_up(64, [](int, int p) { return p == 0 ? 0.05 : 0.1; }))) == "");
  CHECK(patterns(diagnose(made_up(64, [](int, int p) { return p == 0 ? 0.0 : 0.01; }))) == "");
}

TEST_CASE("drift that fades from the start of sequences is a fault of how they begin") {
  const auto diagnosis = diagnose(made_up(64, [](int, int p) { return 1.0 / (1 + p); }));
  REQUIRE(patterns(diagnosis) == "sequence_start");
  CHECK(first(diagnosis).next.find("token ids") != std::string::npos);
}

TEST_CASE("even drift between that of eight bits and that of other weights is told from both") {
  const auto diagnosis = diagnose(made_up(64, [](int, int) { return 0.35; }));
  REQUIRE(patterns(diagnosis) == "some_weights");
  CHECK(first(diagnosis).looks_like.find("attention to other tokens") == std::string::npos);
  CHECK(first(diagnosis).next.find("four bits") != std::string::npos);
}

TEST_CASE("nothing is said below what rounding in float32 leaves, whatever its shape") {
  const std::function<double(int, int)> shapes[] = {
      [](int s, int) { return s % 9 == 4 ? 2e-5 : 1e-7; },
      [](int, int p) { return p == 0 ? 0.0 : 2e-5; },
      [](int, int p) { return p < 32 ? 0.0 : 2e-5; },
      [](int, int p) { return 2e-5 / (1 + p); },
  };
  for (const auto& shape : shapes) {
    const auto diagnosis = diagnose(made_up(64, shape));
    CHECK(patterns(diagnosis) == "");
    CHECK(diagnosis.summary.find("is what rounding in float32 leaves") != std::string::npos);
  }
}

TEST_CASE("nothing is said of a drift that is no larger than a noise floor") {
  const auto drift = made_up(64, [](int, int p) { return p == 0 ? 0.0 : 0.1; });
  CHECK(patterns(diagnose(drift)) == "attention_scores");
  const auto noise = made_up(64, [](int, int) { return 0.08; });
  const auto silent = diagnose(drift, {.train = {}, .inf = {&noise, {}}});
  CHECK(patterns(silent) == "");
  CHECK(silent.summary.find("times the noise floor of K_inf, so there is nothing to explain") !=
        std::string::npos);
  const auto little = made_up(64, [](int, int) { return 0.02; });
  CHECK(patterns(diagnose(drift, {.train = {&little, {}}, .inf = {}})) == "attention_scores");
  // A few sequences far above the floor are not averaged away.
  const auto few = made_up(64, [](int s, int) { return s % 20 == 4 ? 0.5 : 0.05; });
  CHECK(patterns(diagnose(few, {.train = {}, .inf = {&noise, {}}})) == "some_sequences");
}

TEST_CASE("sequences that reach the position where drift begins are not called those that stand out") {
  TemporaryFolder folder;
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal;
  CaptureDraft train, inf;
  train.vocabulary = inf.vocabulary = 200;
  for (int sequence = 0; sequence < 40; ++sequence) {
    for (int position = 0; position < (sequence % 4 == 0 ? 128 : 40); ++position) {
      std::vector<float> z, y;
      for (int v = 0; v < 200; ++v) {
        z.push_back(3 * normal(random));
        y.push_back(z.back() + (position < 64 ? 0.0F : 0.3F) * normal(random));
      }
      train.add_row(sequence, position, position % 200, z);
      inf.add_row(sequence, position, position % 200, y);
    }
  }
  train.write(folder / "a.safetensors");
  inf.write(folder / "b.safetensors");
  const auto diagnosis =
      diagnose(measured(open(folder / "a.safetensors"), open(folder / "b.safetensors"), nullptr));
  REQUIRE(patterns(diagnosis) == "grows_with_position");
  CHECK(first(diagnosis).where == "from position 64 on");
}

TEST_CASE("a filter that sets dropped tokens to minus infinity or a large number is recognised") {
  for (const float dropped : {-std::numeric_limits<float>::infinity(), -10'000.0F}) {
    CAPTURE(dropped);
    const auto diagnosis = diagnose(tiny([&](std::int64_t, std::int64_t, std::span<float> row) {
      std::vector<float> sorted(row.begin(), row.end());
      std::ranges::nth_element(sorted, sorted.begin() + 19, std::greater<>{});
      for (float& z : row) z = z < sorted[19] ? dropped : z;
    }));
    CHECK(patterns(diagnosis) == "truncated_support");
  }
}

TEST_CASE("a filter on target tokens alone makes K_inf likelier on all of them") {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> kept(0.8, 0.99);
  const auto diagnosis = diagnose(realised([&](double p, double) { return p - std::log(kept(random)); }));
  CHECK(patterns(diagnosis) == "truncated_support");
}

TEST_CASE("NaN is told apart from a filter, whole rows from single entries") {
  const auto single = diagnose(with_fault(gpu::Fault::nan));
  REQUIRE(patterns(single) == "nonfinite");
  CHECK(first(single).looks_like.find("single logits") == 0);
  CHECK(first(single).next.find("Look at row ") == 0);
  CHECK(first(single).because.find(" of the 518 of both kernels in each") != std::string::npos);
  const auto whole = diagnose(tiny([](std::int64_t sequence, std::int64_t, std::span<float> row) {
    if (sequence == 4) std::ranges::fill(row, std::nanf(""));
  }));
  REQUIRE(patterns(whole) == "nonfinite");
  CHECK(first(whole).looks_like.find("rows that the kernel did not compute") == 0);
}

TEST_CASE("columns that one capture alone masks are told from logits that overflowed") {
  const auto diagnosis = diagnose(tiny([](std::int64_t, std::int64_t, std::span<float> row) {
    std::ranges::fill(row.last(5), -std::numeric_limits<float>::infinity());
  }));
  REQUIRE(patterns(diagnosis) == "nonfinite");
  CHECK(first(diagnosis).looks_like.find("columns that one capture alone masks") == 0);
  CHECK(first(diagnosis).because.find("5 of the 518 of both kernels in each") != std::string::npos);
  const auto filled = diagnose(
      tiny([](std::int64_t, std::int64_t, std::span<float> row) { std::ranges::fill(row.last(5), -1e9F); }));
  REQUIRE(patterns(filled) == "truncated_support");
  CHECK(first(filled).looks_like.find("columns that the captures mask with different numbers") !=
        std::string::npos);
}

TEST_CASE("NaN among listed log-probabilities is not called a row of logits that was not computed") {
  gpu::MeasurementTable table;
  table.partial.mode = "topk";  // the vocabulary is not known
  table.rows = 40;
  table.nonfinite_rows = 38;
  table.infos.resize(1);
  gpu::SequenceRow& sequence = table.sequences.emplace_back();
  sequence.rows = 40;
  sequence.bounds.emplace();
  for (int row = 0; row < 40; ++row)
    sequence.metrics[static_cast<std::size_t>(schema::Metric::nonfinite)].add(row < 38 ? 2 : 0);
  const auto diagnosis = diagnose(table);
  REQUIRE(patterns(diagnosis) == "nonfinite");
  CHECK(first(diagnosis).looks_like.find("log-probabilities") == 0);
  CHECK(first(diagnosis).because ==
        "38 of 40 rows have log-probabilities that are NaN or infinite, 2 in each on average");
}

TEST_CASE("log-probabilities rounded to bf16 are recognised on the side that rounded") {
  const auto diagnosis = diagnose(realised([](double p, double noise) { return to_bf16(p + 0.02 * noise); }));
  REQUIRE(patterns(diagnosis) == "bf16_logprobs");
  CHECK(first(diagnosis).looks_like.find("K_inf") != std::string::npos);
  CHECK(first(diagnosis).figures.at("bf16_inf") == 1);
}

TEST_CASE("tokens that are all but certain are not called rounded to bf16") {
  // 1 − 2^-20 and the like: the log-softmax of anyone has few bits there.
  const auto diagnosis =
      diagnose(realised([](double, double noise) { return -std::ldexp(noise < 0 ? 3 : 5, -20); }));
  CHECK(patterns(diagnosis).find("bf16_logprobs") == std::string::npos);
}

TEST_CASE("without a pattern the size of the drift is told by what is known of it") {
  const auto tokens = diagnose(realised([](double p, double noise) { return p + 0.05 * noise; }));
  CHECK(patterns(tokens) == "");
  CHECK(tokens.summary.find("The drift (mean abs_log_ratio 0.0") != std::string::npos);
  gpu::MeasureOptions core;
  core.metrics = DRIFTGATE_METRICS_CORE;
  const auto table = gpu::measure(open(kVectors + "tiny_f32.safetensors"),
                                  open(kVectors + "tiny_bf16.safetensors"), nullptr, core);
  REQUIRE(table);
  const auto one_pass = diagnose(*table);
  CHECK(patterns(one_pass) == "");
  CHECK(one_pass.summary.find("(mean kl_inf_train ") != std::string::npos);
  CHECK(one_pass.summary.find(", mean abs_log_ratio ") != std::string::npos);
}

TEST_CASE("a drift is called rounding only where it is as small as that of bf16, or where floors say so") {
  const auto summary = [](double noise, const Floors& floors = {}) {
    return diagnose(made_up(64, [=](int, int) { return noise; }), floors).summary;
  };
  const char* as_bf16 = "as small as what rounding in bf16 was seen to leave";
  const char* unknown = "its size alone does not say whether rounding explains it; noise floors would";
  CHECK(summary(1e-3).find(as_bf16) != std::string::npos);
  CHECK(summary(0.1).find(as_bf16) == std::string::npos);
  CHECK(summary(0.1).find(unknown) != std::string::npos);
  const auto noise = made_up(64, [](int, int) { return 0.08; });
  CHECK(summary(0.1, {.train = {}, .inf = {&noise, {}}}).find("so there is nothing to explain") !=
        std::string::npos);
  const auto quiet = made_up(64, [](int, int) { return 0.02; });
  const std::string above = summary(0.1, {.train = {}, .inf = {&quiet, {}}});
  CHECK(above.find("whether rounding explains it. It is 5 times the noise floor of K_inf.") !=
        std::string::npos);
}

TEST_CASE("a large drift without a pattern is not called rounding") {
  // Every other row of every sequence drifts by nats: not every row, not some sequences, not a position.
  const auto diagnosis = diagnose(made_up(64, [](int, int p) { return p % 2 == 0 ? 2.0 : 0.001; }));
  CHECK(patterns(diagnosis) == "");
  CHECK(diagnosis.summary.find("larger than rounding explains") != std::string::npos);
}

TEST_CASE("the size of the drift stands beside the noise floor") {
  const auto drift = made_up(16, [](int, int) { return 0.08; });
  const auto noise = made_up(16, [](int, int) { return 0.02; });
  const auto diagnosis = diagnose(drift, {.train = {}, .inf = {&noise, {}}});
  CHECK(diagnosis.summary.find(" 4 times the noise floor of K_inf") != std::string::npos);
}

TEST_CASE("the JSON of a diagnosis holds the suspicions and the buckets that have rows") {
  const auto table = made_up(16, [](int, int) { return 0.1; });
  const auto json = nlohmann::json::parse(diagnosis_json(diagnose(table), table));
  CHECK(json["suspicions"].empty());
  const auto& positions = json["profile"]["by_position"];
  REQUIRE(positions.size() == 5);  // 0, 1, 2 to 3, 4 to 7, 8 to 15
  CHECK(positions[4]["from"] == 8);
  CHECK(positions[4]["rows"] == 40 * 8);
  std::uint64_t rows = 0;
  for (const auto& bucket : json["profile"]["by_probability"]) rows += bucket["rows"].get<std::uint64_t>();
  CHECK(rows == table.rows);
  CHECK(positions[0]["tv"].get<double>() > 0);
}
