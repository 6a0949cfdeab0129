#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/explain.hpp"

namespace driftgate::schema {
namespace {

std::vector<std::filesystem::path> shipped() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("configs/contracts"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A contract or faults, never both and never neither.
void check_outcome(const std::string& text) {
  const ContractReport report = parse_contract(text, "c");
  CHECK(report.contract.has_value() == report.faults.empty());
  for (const Fault& fault : report.faults) CHECK_FALSE(fault.message.empty());
}

TEST_CASE("every shipped contract passes lint without a warning") {
  REQUIRE(shipped().size() >= 5);
  for (const auto& path : shipped()) {
    const ContractReport report = parse_contract(text_of(path), path.string());
    CAPTURE(format_faults(report.faults, path.string()));
    CAPTURE(format_faults(report.warnings, path.string()));
    REQUIRE(report.contract.has_value());
    CHECK(report.warnings.empty());
    CHECK(report.contract->name == path.stem().string());
  }
}

TEST_CASE("every truncation of a shipped contract gives faults or a contract") {
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    const std::string text = text_of(path);
    for (std::size_t length = 0; length < text.size(); ++length) {
      CAPTURE(length);
      check_outcome(text.substr(0, length));
    }
  }
}

TEST_CASE("every shipped contract without one of its lines gives faults or a contract") {
  for (const auto& path : shipped()) {
    CAPTURE(path.string());
    const std::string text = text_of(path);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin) + 1;
      CAPTURE(begin);
      check_outcome(text.substr(0, begin) + text.substr(end));
      begin = end;
    }
  }
}

TEST_CASE("every truncation of a contract's JSON form is refused") {
  const ContractReport report = parse_contract(text_of("configs/contracts/tinylm-int8.yaml"), "c");
  REQUIRE(report.contract.has_value());
  const std::string& json = report.contract->canonical_json;
  for (std::size_t length = 0; length < json.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_contract(json.substr(0, length), "c").contract.has_value());
  }
}

TEST_CASE("explain says what each stage demands and what the bound chain makes of it") {
  const ContractReport report = parse_contract(text_of("configs/contracts/tinylm-int8.yaml"), "c");
  REQUIRE(report.contract.has_value());
  const Explanation explanation = explain(*report.contract);
  REQUIRE(explanation.stages.size() == 4);
  REQUIRE(explanation.largest_span.has_value());
  CHECK(*explanation.largest_span == doctest::Approx(4 * 0.05 / 22.627416997969522).epsilon(1e-12));  // √512
  REQUIRE(explanation.clip_room.has_value());
  CHECK(*explanation.clip_room == doctest::Approx(0.1823215567939546).epsilon(1e-12));  // log 1.2
  CHECK(*explanation.clip_room_left < 0);
  const std::string text = to_text(explanation);
  const auto says = [&](const std::string& words) {
    CAPTURE(words);
    CHECK(text.find(words) != std::string::npos);
  };
  says("at most 0.02, on each critical slice, no proven harm on any monitored slice");
  says("needs at least 43 sequences at α = 0.0304 (betting on sequences counted as at most the clip)");
  says("needs at least 116 sequences at α = 0.0304 (betting on the share of sequences beyond the limit)");
  says("with statistical.slice-tv and statistical.slice-tail passed, the mean without the clip is at most 0.0425");
  says("decides slices of at least 116 sequences");
  CHECK(text.find("raises the candidate's share through 1%, 5%, 25% (left only with an approval), 100%") !=
        std::string::npos);
  CHECK(text.find("needs at least 296 sticky keys") != std::string::npos);
}

}  // namespace
}  // namespace driftgate::schema
