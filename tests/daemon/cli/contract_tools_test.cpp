#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "captured.hpp"
#include "schema/contract/contract.hpp"

using driftgate::cli::test::file_with;
using driftgate::cli::test::Ran;
using driftgate::cli::test::run_captured;
using nlohmann::json;

namespace {

const std::string kTrain = "tests/vectors/tiny_f32.safetensors";
const std::string kGood = "tests/vectors/tiny_bf16.safetensors";
const std::string kWorse = "tests/vectors/tiny_int8.safetensors";
const std::string kBadSlice = "tests/vectors/tiny_bf16_one_bad_slice.safetensors";
const std::string kCorpus = "tests/vectors/tiny_corpus.jsonl";

/// A contract for the 48 sequences of the vectors; `span` limits the largest span of any row.
std::string contract(const std::string& tv, const std::string& span) {
  return file_with(R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: tiny, description: d, owners: [a@example.org]}
kernels: {train: {ref: tinylm-f32}, inf: {ref: tinylm-bf16}}
slices: {dimensions: [domain, prompt_length], min_sequences: 10, critical: [{domain: license}]}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: span, metric: logit_span, aggregate: max, max: )" +
                   span + R"(}
statistical:
  - {id: tv, metric: tv, aggregate: sequence_mean, max: )" +
                   tv + R"(, slices: [critical, monitored]}
runtime:
  - {id: errors, metric: error_rate, max: 0.02}
stages:
  shadow-runtime: {mirror_share: 0.5, min_duration: 4s, max_duration: 60s}
  canary: {steps: [{share: 0.1}, {share: 1.0}], soak: 1s, bake: 1s, min_keys: 20, max_duration: 1h}
)");
}

std::vector<std::string> with_captures(std::vector<std::string> words, const std::string& inf) {
  words.insert(words.end(), {"--train", kTrain, "--inf", inf, "--corpus", kCorpus});
  return words;
}

Ran test(const std::string& file, std::vector<std::string> more) {
  auto words = with_captures({"contract", "test", file}, kGood);
  words.insert(words.end(), more.begin(), more.end());
  return run_captured(words);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("contract diff says what became stricter and looser, and nothing of a contract against itself") {
  const std::string before = contract("0.4", "1"), after = contract("0.05", "2");
  const Ran ran = run_captured({"contract", "diff", before, after});
  CHECK(ran.exit_code == 1);
  const auto stricter = ran.out.find("tricter"), looser = ran.out.find("ooser");
  const auto tv = ran.out.find("statistical.tv"), span = ran.out.find("numerical.span");
  INFO(ran.out);
  REQUIRE(std::max({stricter, looser, tv, span}) != std::string::npos);
  CHECK((stricter < looser) == (tv < span));
  CHECK(has(ran.out, "0.05"));
  CHECK(run_captured({"contract", "diff", before, before}).exit_code == 0);
  const Ran as_json = run_captured({"contract", "diff", before, after, "--json"});
  CHECK(json::parse(as_json.out).is_array());
  const Ran missing = run_captured({"contract", "diff", before, "/nowhere/c.yaml"});
  CHECK(missing.exit_code == 74);
  CHECK(has(missing.err, "/nowhere/c.yaml"));
}

TEST_CASE("contract suggest writes a contract that lints, and refuses a headroom that leaves none") {
  const std::string out = file_with("");
  const Ran ran = run_captured(
      with_captures({"contract", "suggest", "--name", "mine", "--headroom", "3", "--out", out}, kGood));
  INFO(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.out, "contract lint"));
  std::ifstream file(out);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto report = driftgate::schema::parse_contract(text, "suggested");
  INFO(driftgate::schema::format_faults(report.faults, "suggested"));
  REQUIRE(report.contract.has_value());
  CHECK(report.contract->name == "mine");
  CHECK(report.contract->inf_kernel == "tinylm-bf16");
  CHECK(has(text, kGood));
  const Ran none = run_captured(with_captures({"contract", "suggest", "--headroom", "1"}, kGood));
  CHECK(none.exit_code != 0);
  CHECK(has(none.err, "headroom"));
}

TEST_CASE("contract test passes good captures, catches every injected fault and names what caught it") {
  const std::string file = contract("0.4", "1");
  const Ran ran = test(file, {"--good", kGood, "--fault", "one bad slice=" + kBadSlice, "--fault",
                              "a worse kernel=" + kWorse, "--json"});
  INFO(ran.out);
  INFO(ran.err);
  CHECK(ran.exit_code == 0);
  const auto cases = json::parse(ran.out)["cases"];
  REQUIRE(cases.size() == 9);
  for (const json& one : cases) {
    CAPTURE(one["case"]);
    CHECK(one["holds"] == true);
    CHECK(one["verdict"] == (one["expected"] == "pass" ? "pass" : "violated"));
  }
  const auto deciding = [&](const std::string& name) {
    for (const json& one : cases)
      if (one["case"] == name) return one["deciding"].dump();
    return std::string("no such case");
  };
  CHECK(has(deciding("one bad slice"), "numerical.span"));
  CHECK(has(deciding("a worse kernel"), "numerical.span"));
  CHECK(has(deciding("scaled-rows"), "numerical.span"));
  CHECK(has(deciding("permuted-head"), "statistical.tv on domain=license"));
  CHECK(has(deciding("off-by-one"), "statistical.tv on domain=license"));
  CHECK(has(deciding("nan"), "numerical.finite"));
  CHECK(has(deciding("corrupted-slice domain=license"), "numerical.span"));
  const Ran text = test(file, {});
  CHECK(text.exit_code == 0);
  CHECK(std::ranges::count(text.out, '\n') == 7);
  CHECK(text.out.ends_with("The contract holds.\n"));
}

TEST_CASE("a contract that would not notice fails its test, line by line") {
  const Ran ran = test(contract("0.999", "1000"), {});
  INFO(ran.out);
  CHECK(ran.exit_code == 1);
  CHECK(has(ran.out, "FAIL  scaled-rows"));
  CHECK(has(ran.out, "a broken kernel is not caught:"));
  CHECK(has(ran.out, "clauses pass\n"));
  CHECK(has(ran.out, "ok    nan"));
  CHECK(ran.out.ends_with("The contract fails its test.\n"));
  const Ran strict = test(contract("0.0001", "1"), {});
  CHECK(strict.exit_code == 1);
  CHECK(has(strict.out, "a capture known to be good does not pass:"));
}

TEST_CASE("what contract test cannot use is said before anything is decided") {
  const std::string file = contract("0.4", "1");
  const Ran unnamed = test(file, {"--fault", kWorse});
  CHECK(unnamed.exit_code == 64);
  CHECK(has(unnamed.err, "NAME=CAPTURE"));
  const Ran slice = test(file, {"--slice", "German"});
  CHECK(slice.exit_code == 64);
  CHECK(has(slice.err, "DIMENSION=VALUE"));
  const Ran absent = test(file, {"--slice", "domain=poetry"});
  CHECK(absent.exit_code == 64);
  CHECK(has(absent.err, "has none in this capture"));
  const Ran floor = test(file, {"--floor-inf", kGood});
  CHECK(floor.exit_code == 64);
  CHECK(has(floor.err, "with itself, which shows no noise"));
  const Ran other = test(file, {"--floor-inf", kWorse});
  CHECK(other.exit_code == 4);
  CHECK(has(other.err, "a floor is the same kernel run twice on the same corpus"));
  const Ran three = test(file, {"--floor-inf", kGood, "--floor-inf", kGood, "--floor-inf", kGood});
  CHECK(three.exit_code == 64);
  CHECK(has(three.err, "3 captures"));
}

TEST_CASE("contract explain says how long traffic takes at a rate, and warns of nothing without one") {
  const std::string file = contract("0.4", "1");
  const Ran ran = run_captured({"contract", "explain", file, "--rate", "20"});
  INFO(ran.out);
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.out, "runtime.errors in canary: about"));
  CHECK(has(ran.out, "at 10% of 20 requests a second"));
  const auto power = json::parse(run_captured({"contract", "explain", file, "--rate", "20", "--json"}).out);
  const auto slower = json::parse(run_captured({"contract", "explain", file, "--rate", "10", "--json"}).out);
  const auto errors = [](const json& document) {
    for (const json& one : document["power_at_half"])
      if (one["clause"] == "runtime.errors" && one["stage"] == "canary") return one;
    return json();
  };
  REQUIRE(errors(power).is_object());
  CHECK(errors(power)["n"] == errors(slower)["n"]);
  const double fast = errors(power)["durations"][0]["seconds"];
  CHECK(errors(slower)["durations"][0]["seconds"].get<double>() == doctest::Approx(2 * fast));
  CHECK_FALSE(has(run_captured({"contract", "explain", file}).out, "requests a second"));
  // A step that lasts brings more keys of faster traffic, and what it finds is told for these.
  const auto exposures = [](const json& document) {
    for (const json& one : document["smallest_regressions"])
      if (one["clause"] == "runtime.errors" && one["stage"] == "canary") return one["found"];
    return json();
  };
  REQUIRE(exposures(power).is_array());
  CHECK(exposures(power).back()["exposure"].get<int>() >= exposures(slower).back()["exposure"].get<int>());
  CHECK(has(ran.out, "Smallest regressions that are found in 8 of 10 runs"));
  CHECK(has(ran.out, "runtime.errors in canary (max): failure rate "));
}
