#include "daemon/cli/drift/drift_command.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "gpu/capture/safetensors.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/summary.hpp"
#include "schema/sha256.hpp"
#include "tests/gpu/fused/hidden_case.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using driftgate::gpu::test::TemporaryFolder;
using driftgate::gpu::test::write_bytes;

namespace {

const std::string kVectors = "tests/vectors/";

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

cli::DriftArgs tiny(const std::string& inf, const std::filesystem::path& json) {
  cli::DriftArgs args;
  args.train = kVectors + "tiny_f32.safetensors";
  args.inf = inf;
  args.corpus = kVectors + "tiny_corpus.jsonl";
  args.json = json.string();
  return args;
}

std::string contract(double tv_max) {
  return R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: t, description: d, owners: [a@example.org]}
kernels: {train: {ref: tinylm-f32}, inf: {ref: tinylm-int8}}
numerical:
  - {id: tv, metric: tv, aggregate: sequence_mean, max: )" +
         std::to_string(tv_max) + "}\n";
}

}  // namespace

TEST_CASE("the JSON of drift holds the reference's figures in the published shape") {
  TemporaryFolder folder;
  REQUIRE(cli::drift_command(tiny(kVectors + "tiny_int8.safetensors", folder / "o.json")) == 0);
  const auto got = read_json(folder / "o.json");
  const auto wanted = read_json(kVectors + "expected_tiny_int8.json");
  CHECK(got["rows"] == wanted["rows"]);
  CHECK(got["sequences"] == wanted["sequences"]);
  const auto close = [](const nlohmann::json& a, const nlohmann::json& b) {
    return std::abs(a.get<double>() - b.get<double>()) <= 1e-6 * std::abs(b.get<double>());
  };
  CHECK(close(got["metrics"]["kl_inf_train"]["mean"], wanted["kl_inf_train"]["mean"]));
  CHECK(close(got["metrics"]["tv"]["sequence_mean"], wanted["tv"]["sequence_mean"]));
  CHECK(close(got["metrics"]["ess_fraction"]["value"], wanted["ess_fraction"]));
  CHECK(close(got["metrics"]["band_retention"]["tokens"]["1pct"], wanted["band_retention_tokens"]["1pct"]));
  CHECK(got["metrics"]["ratio_mean"]["descriptive"] == true);
  REQUIRE(got["slices"].size() > 0);
  CHECK(got["slices"][0]["role"] == "described");
  CHECK(got["slices"][0]["where"] == wanted["slices"][0]["where"]);
  CHECK(close(got["slices"][0]["metrics"]["tv"]["mean"], wanted["slices"][0]["metrics"]["tv"]["mean"]));
  CHECK(got["bounds"].size() > 0);
  CHECK(got["verdicts"].empty());
  CHECK(got["worst_rows"].size() == 20);
}

TEST_CASE("hidden states are measured with the head that the caller gives") {
  std::mt19937_64 random(3);
  gpu::test::HiddenCase test = gpu::test::random_hidden_case(random);
  while (!test.same_head || test.drift == 0 || test.head_train.vocabulary < 30) {
    test = gpu::test::random_hidden_case(random);
  }
  TemporaryFolder folder;
  const gpu::test::OpenedCase opened = gpu::test::open_case(test, folder);
  const auto wanted = gpu::measure(opened.train, opened.inf, nullptr, {});
  REQUIRE(wanted);
  std::filesystem::create_directory(folder / "checkpoint");
  std::filesystem::rename(folder / "train.head", folder / "checkpoint/model.safetensors");
  cli::DriftArgs args;
  args.train = folder / "train.safetensors";
  args.inf = folder / "inf.safetensors";
  args.json = folder / "o.json";
  CHECK(cli::drift_command(args) == 74);  // the file that the metadata names is gone
  args.lm_head = folder / "checkpoint/model.safetensors";
  REQUIRE(cli::drift_command(args) == 0);
  const auto figures = read_json(args.json);
  CHECK(figures["rows"] == wanted->rows);
  CHECK(figures["metrics"]["tv"]["mean"].get<double>() ==
        gpu::summarise(*wanted).metrics[static_cast<std::size_t>(gpu::Metric::tv)].mean);
}

TEST_CASE("a contract decides the exit status") {
  TemporaryFolder folder;
  auto args = tiny(kVectors + "tiny_int8.safetensors", folder / "o.json");
  args.contract = folder / "c.yaml";
  write_bytes(args.contract, contract(0.5));
  CHECK(cli::drift_command(args) == 0);
  write_bytes(args.contract, contract(0.001));
  CHECK(cli::drift_command(args) == 1);
  CHECK(read_json(folder / "o.json")["verdicts"][0]["verdict"] == "violated");
  write_bytes(args.contract, contract(0.046));
  CHECK(cli::drift_command(args) == 3);
  write_bytes(args.contract, "kind: [");
  CHECK(cli::drift_command(args) == 4);
}

TEST_CASE("a slice that only the search finds is in the ranking, the slices and the verdicts") {
  TemporaryFolder folder;
  auto args = tiny(kVectors + "tiny_bf16_one_bad_slice.safetensors", folder / "o.json");
  args.contract = folder / "c.yaml";
  write_bytes(args.contract, R"(apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: t}
kernels: {train: {ref: tinylm-f32}, inf: {ref: tinylm-bf16-bad}}
slices:
  dimensions: [domain, prompt_length]
  min_sequences: 4
  discover: {depth: 2}
statistical:
  - {id: tv, metric: tv, aggregate: sequence_mean, max: 0.15}
)");
  // The mean of the corpus is 0.034; that of short licenses, 13 of 48 sequences, is 0.24.
  CHECK(cli::drift_command(args) == 0);
  const auto got = read_json(folder / "o.json");
  const nlohmann::json where{{"domain", "license"}, {"prompt_length", "short"}};
  REQUIRE(got["ranking"].size() == 1);
  const auto& place = got["ranking"][0];
  CHECK(place["where"] == where);
  CHECK(place["role"] == "discovered");
  CHECK(place["hidden_by_mean"] == true);
  CHECK(place["lower"].get<double>() < place["estimate"].get<double>());
  CHECK(place["estimate"].get<double>() > place["limit"].get<double>());
  CHECK(place["corpus_estimate"].get<double>() < place["limit"].get<double>());
  const auto slice = std::find_if(got["slices"].begin(), got["slices"].end(),
                                  [&](const nlohmann::json& item) { return item["where"] == where; });
  REQUIRE(slice != got["slices"].end());
  CHECK((*slice)["role"] == "discovered");
  CHECK((*slice)["sequences"] == 13);
  CHECK((*slice)["test"][0]["role"] == "discovered");
}

TEST_CASE("a capture with NaN violates a contract and its mean is the string NaN") {
  TemporaryFolder folder;
  std::ifstream file(kVectors + "tiny_int8.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + 8 + header + 4 * 259, &nan, sizeof(nan));
  write_bytes(folder / "nan.safetensors", bytes);
  auto args = tiny(folder / "nan.safetensors", folder / "o.json");
  args.contract = folder / "c.yaml";
  write_bytes(args.contract, contract(0.5));
  CHECK(cli::drift_command(args) == 1);
  const auto got = read_json(folder / "o.json");
  CHECK(got["metrics"]["tv"]["mean"] == "NaN");
  CHECK(got["nonfinite_rows"] == 1);
  CHECK(got["worst_rows"][0]["row"] == 1);
}

TEST_CASE("what can not be read, compared or written has its own exit status") {
  TemporaryFolder folder;
  CHECK(cli::drift_command({}) == 64);
  CHECK(cli::drift_command(tiny(kVectors + "none.safetensors", folder / "o.json")) == 74);
  CHECK(cli::drift_command(tiny(kVectors + "hard_inf.safetensors", folder / "o.json")) == 4);
  CHECK(cli::drift_command(tiny(kVectors + "tiny_int8.safetensors", folder / "no/o.json")) == 74);
  auto args = tiny(kVectors + "tiny_int8.safetensors", folder / "o.json");
  args.device = "tpu";
  CHECK(cli::drift_command(args) == 64);
  args.device = "cpu";
  args.lm_head = kVectors + "tiny_int8.safetensors";  // of logits there is no head to give
  CHECK(cli::drift_command(args) == 64);
}

TEST_CASE("no output of drift overwrites what it reads") {
  TemporaryFolder folder;
  const std::string inf = folder / "inf.safetensors";
  std::filesystem::copy_file(kVectors + "tiny_int8.safetensors", inf);
  const auto bytes = std::filesystem::file_size(inf);
  auto args = tiny(inf, inf);
  CHECK(cli::drift_command(args) == 64);
  args.json.clear();
  args.certificate = inf;
  CHECK(cli::drift_command(args) == 64);
  args.certificate.clear();
  args.rows_out = inf;
  CHECK(cli::drift_command(args) == 64);
  CHECK(std::filesystem::file_size(inf) == bytes);
  args.rows_out = folder / "same";
  args.json = folder / "same";
  CHECK(cli::drift_command(args) == 64);
}

TEST_CASE("rows-out holds every metric of every row") {
  TemporaryFolder folder;
  auto args = tiny(kVectors + "tiny_int8.safetensors", folder / "o.json");
  args.rows_out = folder / "rows.safetensors";
  REQUIRE(cli::drift_command(args) == 0);
  const auto rows = gpu::SafetensorsFile::open(args.rows_out);
  REQUIRE(rows);
  const auto* tv = rows->find("tv");
  REQUIRE(tv != nullptr);
  std::vector<double> values(2'816);
  REQUIRE(rows->bytes(*tv).size() == values.size() * sizeof(double));
  std::memcpy(values.data(), rows->bytes(*tv).data(), values.size() * sizeof(double));
  double sum = 0;
  for (const double value : values) sum += value;
  CHECK(sum / 2'816 == doctest::Approx(read_json(folder / "o.json")["metrics"]["tv"]["mean"].get<double>()));
  CHECK(rows->find("token_ids") != nullptr);
}

TEST_CASE("the command that makes a certificate again asks for the same metrics") {
  TemporaryFolder folder;
  auto args = tiny(kVectors + "tiny_int8.safetensors", folder / "o.json");
  args.certificate = folder / "c.md";
  args.metrics = "core";
  REQUIRE(cli::drift_command(args) == 0);
  std::ifstream file(args.certificate);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  CHECK(page.find(" --metrics core --certificate ") != std::string::npos);
}

TEST_CASE(
    "a certificate is a page with the digests of what was measured, and the report says what it looks like") {
  TemporaryFolder folder;
  auto args = tiny(kVectors + "tiny_int8.safetensors", folder / "o.json");
  args.certificate = folder / "c.md";
  args.version = "9.9";
  const auto again = folder / "again.safetensors";  // the same rows stand for a second run of the kernel
  std::filesystem::copy_file(args.inf, again);
  args.floors.inf = {again};
  REQUIRE(cli::drift_command(args) == 0);
  std::ifstream file(args.certificate);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  std::ifstream capture(args.inf, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(capture)), {});
  CHECK(page.find("# Drift certificate: ") == 0);
  const std::string digest = schema::sha256_digest(bytes);
  CHECK(page.find("| capture | ") < page.find(digest));
  CHECK(page.find("Its captures: " + digest + " and " + digest + ".\n") != std::string::npos);
  CHECK(page.find("## Slices, the worst first") != std::string::npos);
  CHECK(page.find("driftgate drift " + args.train + " " + args.inf + " --corpus ") != std::string::npos);
  const auto got = read_json(folder / "o.json");
  CHECK(got["diagnosis"]["summary"].get<std::string>().find("No known pattern") == 0);
  CHECK(got["diagnosis"]["profile"]["by_position"].size() == 8);
  CHECK(got["worst_rows"][0].contains("kl_before"));
  CHECK(got["worst_rows"][0]["slices"].contains("domain"));
  std::set<std::string> places;
  for (const auto& link : got["bounds"]) places.insert(link["where"].dump());
  CHECK(places.size() == 1 + got["slices"].size());
  args.certificate = folder / "no/c.md";
  CHECK(cli::drift_command(args) == 74);
}
