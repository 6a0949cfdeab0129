#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/cli/drift/drift_partial.hpp"
#include "daemon/cli/drift/drift_text.hpp"
#include "daemon/drift/drift_report.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;
using cli::test::text_of_file;
using nlohmann::json;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::string kHostile = "a\x1b[2Jb";
const std::string kTrain = "tests/vectors/tiny_f32.safetensors";
const std::string kInf = "tests/vectors/tiny_int8.safetensors";

/// A report of nothing but what a test puts into it.
struct Made {
  gpu::MeasurementTable table;
  drift::DriftReport report;

  Made() {
    table.train.kernel = "k-train";
    table.inf.kernel = "k-inf";
    table.rows = 10;
    table.slices.emplace_back();
    report.table = &table;
    report.corpus = gpu::summarise(table);
    report.device = "cpu";
  }
  [[nodiscard]] std::string text() const { return cli::drift_text(report); }
  [[nodiscard]] json parsed() const { return json::parse(drift::drift_json(report)); }
};

gpu::WorstRow worst(std::uint64_t row, double kl) {
  gpu::WorstRow made;
  made.row = row;
  made.sequence = 3;
  made.position = 4;
  made.token = 5;
  made.values[static_cast<std::size_t>(schema::Metric::kl_inf_train)] = kl;
  return made;
}

}  // namespace

TEST_CASE("the head of a report says which kernels, how much, and what it cannot say") {
  Made made;
  CHECK(made.text().starts_with(
      "k-train (train) against k-inf (inf)\n10 rows, 0 sequences, vocabulary not stated, "
      "temperature 1, cpu\n"));
  made.table.train.kernel.clear();
  made.table.inf.kernel = kHostile;
  made.table.vocabulary = 50;
  made.table.train.temperature = kNan;
  made.report.warnings = {"the contract names the inf kernel '" + kHostile + "'"};
  made.report.notes = {"a note" + kHostile};
  CHECK(made.text().starts_with(
      "(unnamed) (train) against a [2Jb (inf)\n10 rows, 0 sequences, vocabulary 50, temperature -, cpu\n"
      "warning: the contract names the inf kernel 'a [2Jb'\n"));
  CHECK(made.text().ends_with("note: a notea [2Jb\n"));
  CHECK(made.parsed()["warnings"][0] == made.report.warnings[0]);
  CHECK(made.parsed()["train"]["temperature"] == "NaN");
}

TEST_CASE("rows whose logits are not finite are told before everything else, with the first of them") {
  Made made;
  made.table.nonfinite_rows = 2;
  CHECK(has(made.text(), "!! 2 of 10 rows have NaN or infinite logits. Means over them do not exist (-)"));
  CHECK_FALSE(has(made.text(), "The first is row"));
  made.table.worst_rows = {worst(7, kNan)};
  made.table.worst_rows[0].values[static_cast<std::size_t>(schema::Metric::nonfinite)] = 1;
  CHECK(has(made.text(), "!! The first is row 7: sequence 3, position 4.\n"));
  CHECK(has(made.text(), "not finite"));
  CHECK(made.parsed()["nonfinite_rows"] == 2);
}

TEST_CASE("numbers that are not finite are words in JSON, so that every reader can read the file") {
  Made made;
  made.table.worst_rows = {worst(1, kNan), worst(2, kInfinity), worst(3, -kInfinity)};
  made.table.ppo_clip = kInfinity;
  json report = made.parsed();
  const auto kl = [&](std::size_t i) { return report["worst_rows"][i]["metrics"]["kl_inf_train"]; };
  CHECK(kl(0) == "NaN");
  CHECK(kl(1) == "Infinity");
  CHECK(kl(2) == "-Infinity");
  CHECK(report["worst_rows"][0]["kl_before"] == "NaN");
  CHECK(report["ppo_clip"] == "Infinity");
  CHECK_FALSE(report["worst_rows"][0].contains("token"));
  made.table.has_tokens = true;
  CHECK(made.parsed()["worst_rows"][0]["token"] == 5);
}

TEST_CASE("names that are not UTF-8 do not keep a report from being written") {
  Made made;
  made.table.train.kernel = "Ger\xE4t";
  made.table.infos.push_back({});
  made.table.infos[0].sequence = 3;
  made.table.infos[0].id = "\xFF";
  made.table.infos[0].slices = {{"language", "\xFE"}};
  made.table.worst_rows = {worst(1, 0.5)};
  CHECK(made.parsed()["train"]["kernel"] == "Ger\xEF\xBF\xBDt");
  CHECK(made.parsed()["worst_rows"][0]["id"] == "\xEF\xBF\xBD");
  CHECK(made.parsed()["worst_rows"][0]["slices"]["language"] == "\xEF\xBF\xBD");
}

TEST_CASE("a contract's verdicts stand in capitals with what was not decided, and soft ones are marked") {
  Made made;
  made.report.has_contract = true;
  made.report.contract_name = "c" + kHostile;
  made.report.verdict = schema::Verdict::inconclusive;
  schema::ClauseVerdict verdict;
  verdict.clause = "numerical.kl";
  verdict.where = {{"language", "de"}};
  verdict.severity = schema::Severity::soft;
  verdict.verdict = schema::Verdict::violated;
  verdict.message = "0.3 is over 0.1" + kHostile;
  made.report.verdicts = {verdict};
  made.report.not_evaluated = {"runtime.errors", "bounds.reward"};
  CHECK(has(made.text(),
            "\nContract ca [2Jb: INCONCLUSIVE\n  VIOLATED      numerical.kl on language=de (soft)\n"
            "                0.3 is over 0.1a [2Jb\n"
            "  not evaluated, since captures cannot decide them: runtime.errors, bounds.reward\n"));
  json report = made.parsed();
  CHECK(report["verdict"] == "inconclusive");
  CHECK(report["verdicts"][0]["clause"] == "numerical.kl");
  CHECK(report["not_evaluated"].size() == 2);
  CHECK_FALSE(Made().parsed().contains("verdict"));
  CHECK_FALSE(has(Made().text(), "Contract"));
}

TEST_CASE("slices beyond their limit are ranked, and one that the mean hides is marked as such") {
  Made made;
  stages::SliceRank rank;
  rank.clause = "statistical.tv";
  rank.where = {{"domain", "code"}};
  rank.role = schema::SliceRole::discovered;
  rank.estimate = 0.24;
  rank.limit = 0.16;
  rank.lower = 0.2;
  rank.excess = 0.5;
  rank.verdict = schema::Verdict::violated;
  rank.hidden_by_mean = true;
  made.report.ranking.assign(20, rank);
  CHECK(has(made.text(), "\nSlices, largest excess over their limit first (12 of 20)\n"));
  CHECK(has(made.text(),
            "domain=code  discovered  statistical.tv  0.24    0.2 to -  0.16   +50%    -       VIOLATED  "
            "hidden\n"));
  CHECK(has(made.text(), "hidden: beyond the limit while the corpus as a whole is within it.\n"));
  CHECK(made.parsed()["ranking"].size() == 20);
}

TEST_CASE("no more rows are printed than people read, and the JSON has them all") {
  Made made;
  for (std::uint64_t i = 0; i < 25; ++i) made.table.worst_rows.push_back(worst(i, 1));
  CHECK(has(made.text(), "\nWorst rows (10 of 25 kept)\n"));
  CHECK(made.parsed()["worst_rows"].size() == 25);
  for (int i = 0; i < 15; ++i) {
    drift::DriftSlice slice;
    slice.summary = gpu::summarise(made.table);
    slice.summary.where = {{"n", std::to_string(i)}};
    slice.summary.metrics[static_cast<std::size_t>(schema::Metric::kl_inf_train)].mean = i == 3 ? kNan : i;
    made.report.slices.push_back(slice);
  }
  made.report.corpus.metrics[static_cast<std::size_t>(schema::Metric::kl_inf_train)].mean = 2;
  const std::string text = made.text();
  CHECK(has(text, "\nSlices, largest mean kl_inf_train first (12 of 15)\n"));
  CHECK(text.find("\nn=3 ") < text.find("\nn=14 "));  // what is not finite comes first
  CHECK(text.find("\nn=14 ") < text.find("\nn=13 "));
  CHECK(has(text, "7.00x"));
  CHECK_FALSE(has(text, "\nn=0 "));
}

TEST_CASE("a floor stands beside the drift as its multiple, and there is none of no noise") {
  Made made;
  const auto tv = static_cast<std::size_t>(schema::Metric::tv),
             js = static_cast<std::size_t>(schema::Metric::js);
  for (const auto metric : {tv, js})
    made.report.corpus.metrics[metric].n = 10, made.report.corpus.metrics[metric].mean = 0.5;
  drift::DriftFloor floor{stages::FloorSide::inf, kHostile, 3, made.report.corpus};
  floor.corpus.metrics[tv].mean = 0.125;
  floor.corpus.metrics[js].mean = 0;
  made.report.floors = {floor};
  CHECK(has(made.text(), "metric  drift  inf floor  drift / floor\n"));
  CHECK(has(made.text(), "tv      0.5    0.125      4x\n"));
  CHECK(has(made.text(), "js      0.5    0          -\n"));
  CHECK(has(
      made.text(),
      "inf floor: a [2Jb against itself with another batch size, 0 rows of 0 sequences, 3 of them with NaN "
      "or infinite logits.\n"));
  CHECK(made.parsed()["floors"][0]["side"] == "inf");
}

TEST_CASE("a certificate that is refused says why, in text and in JSON") {
  Made made;
  stages::BoundChain chain;
  chain.refused = "the captures were filtered by " + kHostile;
  made.report.bounds = {chain};
  CHECK(has(made.text(), "\nNo bound certificate: the captures were filtered by a [2Jb\n"));
  CHECK(made.parsed()["bounds"][0]["refused"] == chain.refused);
}

TEST_CASE("figures that are bounds are said to be, with what is known of each row") {
  Made made;
  CHECK(cli::partial_text(made.report).empty());
  CHECK(cli::bounded_text(made.report.corpus).empty());
  made.table.partial.findings = {{"unphysical_logits", "inf", true, 3, 10, "in 3 of 10 rows"},
                                 {"bits_of_logits", "both", false, 0, 10, "equal"}};
  CHECK(cli::partial_text(made.report) == "!! unphysical_logits: in 3 of 10 rows.\n");
  CHECK(made.parsed()["findings"].size() == 2);
  made.table.partial.findings.clear();
  CHECK_FALSE(made.parsed().contains("findings"));
  made.table.partial.mode = "realised";
  CHECK(cli::partial_text(made.report).starts_with("Each row contains only the target token"));
  made.table.partial.mode = "matched";
  made.table.partial.listed = 20;
  made.report.corpus.tail_train = 0.5;
  made.report.corpus.tail_inf = 0.001;
  made.table.partial.findings = {{"off_by_one", "both", true, 3, 10, "rows are shifted" + kHostile},
                                 {"rounded", "inf", false, 1, 10, "rounded to bf16"}};
  const std::string text = cli::partial_text(made.report);
  CHECK(has(text,
            "Each row contains a list of tokens that the caller chose, up to 20 of them; the tokens that "
            "both kernels list "
            "leave out 50% of the mass of train and 0.1% of inf"));
  CHECK(has(text, "!! off_by_one: rows are shifteda [2Jb.\nwarning: rounded: rounded to bf16.\n"));
  gpu::BoundSummary bound{};
  bound.metric = schema::Metric::tv;
  bound.mean_lower = 0.1;
  bound.mean_upper = kInfinity;
  bound.max_lower = kNan;
  made.report.corpus.bounds = {bound};
  CHECK(has(cli::bounded_text(made.report.corpus), "tv      0.1        none"));
  CHECK(cli::mean_at_least(made.report.corpus, schema::Metric::tv) == 0.1);
}

TEST_CASE("the JSON on standard output is the report alone, and text is printed beside a file") {
  const Ran out =
      run_captured({"drift", kTrain, kInf, "--json", "-", "--metrics", "core", "--top-rows", "2"});
  REQUIRE(out.exit_code == 0);
  json report = json::parse(out.out);
  CHECK(report["worst_rows"].size() == 2);
  CHECK(has(report["warnings"][0], "--metrics core: tv, js,"));
  CHECK_FALSE(report["metrics"].contains("tv"));
  const std::string path = file_with("");
  const Ran file =
      run_captured({"drift", kTrain, kInf, "--json", path, "--metrics", "core", "--top-rows", "0"});
  CHECK(file.exit_code == 0);
  CHECK(json::parse(text_of_file(path))["worst_rows"].empty());
  CHECK(file.out.starts_with("tinylm-f32 (train) against tinylm-int8 (inf)\n"));
  CHECK(has(file.out, "warning: --metrics core"));
}

TEST_CASE("a contract of other kernels is a warning, and what only traffic decides is listed") {
  const std::string contract = file_with(
      "apiVersion: driftgate/v1\nkind: KernelContract\nmetadata: {name: t}\nkernels: {train: {ref: other}, "
      "inf: {ref: tinylm-int8}}\n"
      "numerical:\n  - {id: tv, metric: tv, aggregate: sequence_mean, max: 0.5}\n"
      "runtime:\n  - {id: errors, metric: error_rate, max: 0.02}\n"
      "stages:\n  canary: {steps: [{share: 0.1}, {share: 1.0}], soak: 1s, bake: 1s, min_keys: 20, "
      "max_duration: 1h}\n");
  const Ran ran = run_captured({"drift", kTrain, kInf, "--contract", contract});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.out,
            "warning: the contract names the train kernel 'other' and the capture says 'tinylm-f32'\n"));
  CHECK_FALSE(has(ran.out, "the contract names the inf kernel"));
  CHECK(has(ran.out, "not evaluated, since captures cannot decide them: runtime.errors\n"));
}

TEST_CASE("the command in a certificate can be typed as it stands, whatever the names of its files") {
  const std::string folder = file_with("") + " it's $HOME";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(kInf, folder + "/inf.safetensors");
  const std::string page = folder + "/c.md";
  const Ran ran = run_captured({"drift", kTrain, folder + "/inf.safetensors", "--top-k", "5", "--floor-inf",
                                kInf, "--certificate", page});
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  const std::string text = text_of_file(page);
  std::string quoted = folder;
  quoted.replace(quoted.find('\''), 1, "'\\''");
  CHECK(has(text, "driftgate drift " + kTrain + " '" + quoted + "/inf.safetensors' --floor-inf " + kInf +
                      " --top-k 5 --certificate '" + quoted + "/c.md'"));
}

TEST_CASE("floors that show no noise, or too many of them, are refused by side") {
  const std::tuple<std::vector<std::string>, int, const char*> floors[] = {
      {{"--floor-train", kTrain}, 64, "the train floor compares "},
      {{"--floor-inf", kInf, "--floor-inf", kInf}, 64, "with itself, which shows no noise"},
      {{"--floor-train", "a", "--floor-train", "b", "--floor-train", "c"},
       64,
       "--floor-train was given 3 captures"},
      {{"--floor-inf", "/nowhere/x"}, 74, "the inf floor"},
      {{"--floor-inf", kTrain}, 4, "the inf floor"},
  };
  for (const auto& [more, code, words] : floors) {
    CAPTURE(words);
    std::vector<std::string> line{"drift", kTrain, kInf};
    line.insert(line.end(), more.begin(), more.end());
    const Ran ran = run_captured(line);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == code);
    CHECK(has(ran.err, words));
    CHECK(ran.out.empty());
  }
}
