#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;
using cli::test::text_of_file;
using nlohmann::json;

namespace {

const std::string kTrain = "tests/vectors/tiny_f32.safetensors";
const std::string kInf = "tests/vectors/tiny_bf16.safetensors";

std::string contract_text(
    const std::string& numerical = "{id: tv, metric: tv, aggregate: sequence_mean, max: 0.1}") {
  return "apiVersion: driftgate/v1\nkind: KernelContract\nmetadata: {name: t}\n"
         "kernels: {train: {ref: a}, inf: {ref: b}}\nnumerical:\n  - " +
         numerical + "\n";
}

}  // namespace

TEST_CASE("a contract that is right is told with its digest, which its spelling does not change") {
  const std::string yaml = file_with(contract_text());
  const std::string as_json = file_with(
      R"({"kind":"KernelContract","apiVersion":"driftgate/v1","metadata":{"name":"t"},"kernels":{"inf":{"ref":"b"},"train":{"ref":"a"}},"numerical":[{"max":0.1,"id":"tv","aggregate":"sequence_mean","metric":"tv"}]})");
  const Ran ran = run_captured({"contract", "lint", yaml, as_json});
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.starts_with(yaml + ": ok, sha256:"));
  json both = json::parse(run_captured({"contract", "lint", yaml, as_json, "--json"}).out);
  REQUIRE(both.size() == 2);
  CHECK(both[0]["digest"] == both[1]["digest"]);
  CHECK(has(ran.out, both[0]["digest"].get<std::string>()));
  CHECK(both[0]["valid"] == true);
  CHECK(both[0]["name"] == "t");
  CHECK(both[1]["file"] == as_json);
}

TEST_CASE("each fault of a contract is told with file, line and column, all at once, and is exit 1") {
  const std::string file =
      file_with(contract_text("{id: tv, metric: tvv, aggregate: sequence_mean, max: 0.1}") +
                "  - {id: kl, metric: tv, aggregate: mean, max: -1}\nstatistcal: []\n");
  const Ran ran = run_captured({"contract", "lint", file});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 1);
  CHECK(ran.out.empty());
  CHECK(has(ran.err, file + ":6:"));
  CHECK(has(ran.err, file + ":7:"));
  CHECK(has(ran.err, file + ":8:"));
  CHECK(has(ran.err, "tvv"));
  CHECK(has(ran.err, "statistcal"));
  const Ran as_json = run_captured({"contract", "lint", file, "--json"});
  CHECK(as_json.exit_code == 1);
  json report = json::parse(as_json.out)[0];
  CHECK(report["valid"] == false);
  CHECK_FALSE(report.contains("digest"));
  REQUIRE(report["faults"].size() >= 3);
  for (const json& fault : report["faults"]) {
    CHECK(fault["line"].get<int>() >= 6);
    CHECK(fault["column"].get<int>() >= 1);
    CHECK_FALSE(fault["message"].get<std::string>().empty());
  }
}

TEST_CASE("a contract that can not be read is exit 74, and those beside it are looked at all the same") {
  const std::string good = file_with(contract_text());
  const std::string folder = std::filesystem::path(good).parent_path();
  for (const std::string& bad : {folder, folder + "/none", good + "/below"}) {
    CAPTURE(bad);
    const Ran ran = run_captured({"contract", "lint", bad, good});
    CHECK(ran.exit_code == 74);
    CHECK(has(ran.err, "cannot read the contract " + bad));
    CHECK(has(ran.out, good + ": ok"));
    CHECK(run_captured({"contract", "lint", bad, file_with("kind: [")}).exit_code == 74);
    CHECK(run_captured({"contract", "explain", bad}).exit_code == 74);
    CHECK(run_captured({"contract", "diff", bad, good}).exit_code == 74);
  }
}

TEST_CASE("hostile contracts are refused by their limits and never read as something else") {
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c < 'z'; ++c)
    bomb += std::string(1, c) + ": &" + c + " [*" + static_cast<char>(c - 1) + ", *" +
            static_cast<char>(c - 1) + "]\n";
  const std::string texts[] = {
      "",
      "\0\0\0\0",
      "[]",
      "null",
      "kind: [",
      "---\n---\n",
      bomb,
      contract_text() + "numerical: []\n",
      std::string(5u << 20, '#'),
      "kind: " + std::string(200, '[') + std::string(200, ']'),
      "\xFF\xFEk\0i\0n\0d\0",
      contract_text() + "---\n" + contract_text(),
  };
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 60));
    const std::string file = file_with(text);
    const Ran ran = run_captured({"contract", "lint", file});
    CHECK(ran.exit_code == 1);
    CHECK(ran.out.empty());
    CHECK(has(ran.err, file));
    CHECK(run_captured({"contract", "explain", file}).exit_code == 1);
    const Ran drift = run_captured({"drift", kTrain, kInf, "--contract", file});
    CHECK(drift.exit_code == 4);
    CHECK(has(drift.err, "the contract has faults:\n"));
    const Ran diff = run_captured({"contract", "diff", file_with(contract_text()), file});
    CHECK(diff.exit_code == 4);
    CHECK(has(diff.err, file));
  }
}

TEST_CASE("a rate that is none says nothing of how long traffic takes") {
  const std::string file =
      file_with(contract_text() + "runtime:\n  - {id: errors, metric: error_rate, max: 0.02}\n");
  for (const char* rate : {"0", "-5", "nan"}) {
    CAPTURE(rate);
    const Ran ran = run_captured({"contract", "explain", file, "--rate", rate});
    if (ran.exit_code == 64) continue;
    CHECK(ran.exit_code == 0);
    CHECK_FALSE(has(ran.out, "requests a second"));
    for (const json& power : json::parse(
             run_captured({"contract", "explain", file, "--rate", rate, "--json"}).out)["power_at_half"])
      CHECK(power["durations"].empty());
  }
  CHECK(run_captured({"contract", "explain", file, "--rate", "fast"}).exit_code == 64);
}

TEST_CASE("sizes are those of a first run, and of a later one where it is asked for") {
  const std::string file = file_with(contract_text());
  const Ran first = run_captured({"contract", "explain", file});
  CHECK(has(first.out, "Sizes are those of a first run of a checkpoint and kernel under this contract."));
  CHECK(has(first.out, "at α = 0.0304"));
  const Ran second = run_captured({"contract", "explain", file, "--run", "2"});
  CHECK(has(second.out, "Sizes are those of run 2 of one checkpoint and kernel under this contract"));
  CHECK(has(second.out, "at α = 0.007599"));
  CHECK_FALSE(has(second.out, "at α = 0.0304"));
  const auto document = json::parse(run_captured({"contract", "explain", file, "--run", "2", "--json"}).out);
  CHECK(document["run"] == 2);
  for (const json& power : document["power_at_half"]) CHECK(power["alpha"].get<double>() < 0.0077);
  for (const char* run : {"0", "-1", "many"}) {
    CAPTURE(run);
    CHECK(run_captured({"contract", "explain", file, "--run", run}).exit_code == 64);
  }
}

TEST_CASE("a faulty contract is explained by its faults, in JSON too") {
  const std::string file = file_with(contract_text("{id: tv, metric: tv}"));
  const Ran ran = run_captured({"contract", "explain", file, "--json"});
  CHECK(ran.exit_code == 1);
  CHECK(json::parse(ran.out)["valid"] == false);
  CHECK(has(ran.err, file + ":6:"));
}

TEST_CASE("a suggestion never takes the place of what it was made from, nor of what is no file") {
  const std::string folder = std::filesystem::path(file_with("")).parent_path();
  const std::string train = folder + "/suggest_train.safetensors", inf = folder + "/suggest_inf.safetensors";
  std::filesystem::copy_file(kTrain, train, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(kInf, inf, std::filesystem::copy_options::overwrite_existing);
  const auto bytes = std::filesystem::file_size(train);
  const std::string corpus = file_with(text_of_file("tests/vectors/tiny_corpus.jsonl"));
  const auto suggest = [&](const std::string& out) {
    return run_captured(
        {"contract", "suggest", "--train", train, "--inf", inf, "--corpus", corpus, "--out", out});
  };
  for (const std::string& input :
       {train, inf, corpus,
        folder + "/../" + std::filesystem::path(folder).filename().string() + "/suggest_inf.safetensors"}) {
    CAPTURE(input);
    const Ran ran = suggest(input);
    CHECK(ran.exit_code == 64);
    CHECK(has(ran.err, "--out " + input + " is one of the files that are read"));
  }
  CHECK(std::filesystem::file_size(train) == bytes);
  CHECK(text_of_file(corpus) == text_of_file("tests/vectors/tiny_corpus.jsonl"));
  for (const std::string& out : {folder, folder + "/none/c.yaml"}) {
    const Ran ran = suggest(out);
    CHECK(ran.exit_code == 74);
    CHECK(has(ran.err, out));
  }
  const Ran printed = suggest("-");
  CHECK(printed.exit_code == 0);
  CHECK(has(printed.out, "kind: KernelContract"));
  CHECK(run_captured({"contract", "lint", file_with(printed.out)}).exit_code == 0);
}

TEST_CASE("captures that can not be compared are said to be so by each tool that compares") {
  const std::string file = file_with(contract_text());
  const std::string other = "tests/vectors/hard_inf.safetensors", damaged = file_with("no safetensors");
  for (const auto& [inf, code] :
       {std::pair(other, 4), std::pair(damaged, 4), std::pair(std::string("/nowhere/x"), 74)}) {
    CAPTURE(inf);
    const Ran suggested = run_captured({"contract", "suggest", "--train", kTrain, "--inf", inf});
    const Ran tested = run_captured({"contract", "test", file, "--train", kTrain, "--inf", inf});
    CHECK(suggested.exit_code == code);
    CHECK(tested.exit_code == code);
    CHECK(suggested.out.empty());
    CHECK_FALSE(suggested.err.empty());
    CHECK(suggested.err == tested.err);
  }
}

TEST_CASE("the folder for faulty captures is left as it was, and one that cannot be written is named") {
  const std::string file =
      file_with(contract_text("{id: tv, metric: tv, aggregate: sequence_mean, max: 0.4}"));
  const std::string work = file_with("") + ".work";
  std::filesystem::create_directory(work);
  const std::vector<std::string> words{"contract", "test",  file, "--train",
                                       kTrain,     "--inf", kInf, "--work-dir"};
  auto here = words;
  here.push_back(work);
  const Ran ran = run_captured(here);
  CHECK((ran.exit_code == 0 || ran.exit_code == 1));
  CHECK(std::filesystem::is_empty(work));
  CHECK(has(ran.out, "note: corrupted-slice was not injected: the corpus has no slice of min_sequences.\n"));
  auto nowhere = words;
  nowhere.push_back(work + "/none");
  const Ran refused = run_captured(nowhere);
  CHECK(refused.exit_code == 74);
  CHECK(has(refused.err, work + "/none"));
  CHECK(has(refused.err, "--work-dir"));
}
