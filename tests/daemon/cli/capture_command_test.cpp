#include "daemon/cli/drift/capture_command.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "daemon/cli/drift/drift_command.hpp"
#include "gpu/capture/capture.hpp"
#include "tests/gpu/partial_pair.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu::test;
using nlohmann::json;

namespace {

constexpr std::size_t kVocabulary = 50, kListed = 10, kSequences = 60, kTokens = 8;

/// What SGLang would answer to the same prompts by one of two kernels.
std::string sglang_answers(bool inf) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  json answers = json::array();
  for (std::size_t s = 0; s < kSequences; ++s) {
    json tokens = json::array({json::array({nullptr, 1, nullptr})}), tops = json::array({nullptr});
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::vector<double> z, y;
      for (std::size_t v = 0; v < kVocabulary; ++v) {
        z.push_back(3 * normal(random));
        y.push_back(z.back() + 0.02 * normal(random));
      }
      const std::vector<double> x = softmax_of(inf ? y : z);
      const std::size_t token = random() % kVocabulary;
      tokens.push_back({std::log(x[token]), token, nullptr});
      json top = json::array();
      for (const auto& listed : top_list(x, kListed, Rounding::none, -1)) {
        top.push_back({listed.logprob, listed.id, nullptr});
      }
      tops.push_back(std::move(top));
    }
    answers.push_back({{"meta_info", {{"input_token_logprobs", tokens}, {"input_top_logprobs", tops}}}});
  }
  return answers.dump();
}

cli::CaptureImportArgs import_of(const std::string& file, const std::string& out) {
  cli::CaptureImportArgs args;
  args.files = {file};
  args.format = "sglang";
  args.out = out;
  args.kernel = "k";
  args.vocabulary = kVocabulary;
  return args;
}

std::string contract(double tv_max, const char* more = "") {
  return R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: t, description: d, owners: [a@example.org]}
kernels: {train: {ref: k}, inf: {ref: k}}
numerical:
  - {id: tv, metric: tv, aggregate: sequence_mean, max: )" +
         std::to_string(tv_max) + "}\n" + more;
}

}  // namespace

TEST_CASE("answers of two engines become captures whose drift is known by bounds") {
  TemporaryFolder folder;
  for (const bool inf : {false, true}) {
    const std::string name = inf ? "inf" : "train";
    write_bytes(folder / (name + ".json"), sglang_answers(inf));
    REQUIRE(cli::capture_import(import_of((folder / (name + ".json")).string(),
                                          (folder / (name + ".safetensors")).string())) == 0);
  }
  const auto drift = [&](const std::string& text) {
    write_bytes(folder / "c.yaml", text);
    cli::DriftArgs args;
    args.train = (folder / "train.safetensors").string();
    args.inf = (folder / "inf.safetensors").string();
    args.contract = (folder / "c.yaml").string();
    args.json = (folder / "o.json").string();
    const int code = cli::drift_command(args);
    std::ifstream file(folder / "o.json");
    return std::pair(code, json::parse(file));
  };
  const auto [passed, report] = drift(contract(0.9));
  CHECK(passed == 0);
  CHECK(report["partial"]["mode"] == "topk");
  CHECK(report["partial"]["listed"] == kListed);
  CHECK(report["partial"]["findings"].empty());
  const json& tv = report["metrics"]["tv"];
  CHECK(tv["n"] == kSequences * kTokens);
  CHECK(tv["mean_lower"].get<double>() > 0);
  CHECK(tv["mean_upper"].get<double>() > tv["mean_lower"].get<double>());
  CHECK(report["metrics"]["kl_inf_train"]["mean_upper"] == "Infinity");
  CHECK(report["worst_rows"][0]["upper"]["tv"].get<double>() > 0);
  const auto [undecided, between] = drift(contract(tv["mean_lower"].get<double>() + 1e-3));
  CHECK(undecided == 3);
  CHECK(between["verdicts"][0]["message"].get<std::string>().find("with k = 10 and") != std::string::npos);
  CHECK(drift(contract(1e-5)).first == 1);
}

TEST_CASE("a temperature that no capture may state is refused before anything is read or written") {
  TemporaryFolder folder;
  write_bytes(folder / "a.json", sglang_answers(false));
  cli::CaptureImportArgs args = import_of((folder / "a.json").string(), (folder / "o.safetensors").string());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double temperature : {std::nan(""), kInfinity, -kInfinity, 0.0, -1.0, 1e-30}) {
    CAPTURE(temperature);
    args.temperature = temperature;
    CHECK(cli::capture_import(args) == 64);
    CHECK_FALSE(std::filesystem::exists(args.out));
  }
}

TEST_CASE("an option that the shape has no use for, and an output that is an input, are usage errors") {
  TemporaryFolder folder;
  const std::string answers = (folder / "a.json").string(), out = (folder / "o.safetensors").string();
  write_bytes(answers, sglang_answers(false));
  cli::CaptureImportArgs args = import_of(answers, out);
  args.listed = 5;
  CHECK(cli::capture_import(args) == 64);
  args = import_of(answers, out);
  args.token_map = (folder / "map.json").string();
  CHECK(cli::capture_import(args) == 64);
  args = import_of(answers, out);
  args.format = "llamacpp-logits";
  args.matched = true;
  CHECK(cli::capture_import(args) == 64);
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(cli::capture_import(import_of(answers, answers)) == 64);
  CHECK(std::filesystem::file_size(answers) == sglang_answers(false).size());
  CHECK(cli::capture_import(import_of("/dev/null", out)) == 74);
}

TEST_CASE("importing says what is missing and writes nothing") {
  TemporaryFolder folder;
  const std::string out = (folder / "o.safetensors").string();
  CHECK(cli::capture_import(import_of((folder / "absent.json").string(), out)) == 74);
  write_bytes(folder / "a.json", "{}");
  CHECK(cli::capture_import(import_of((folder / "a.json").string(), out)) == 4);
  write_bytes(folder / "a.json", "[]");
  CHECK(cli::capture_import(import_of((folder / "a.json").string(), out)) == 4);
  CHECK_FALSE(std::filesystem::exists(out));
}
