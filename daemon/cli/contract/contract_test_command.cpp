#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/cli/contract/contract_tools.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/drift.hpp"
#include "gpu/ranks/fault_injection.hpp"
#include "schema/json.hpp"
#include "stages/clauses/exact_test.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"

namespace driftgate::cli {
namespace {

using schema::ErrorCode;
using schema::Result;
using schema::Verdict;

constexpr std::uint64_t kSeed = 1;

/// A new folder that is removed with its contents.
class WorkFolder {
 public:
  static Result<WorkFolder> make(const std::string& below) {
    const auto root = below.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(below);
    std::string pattern = (root / "driftgate-contract-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return schema::fail(ErrorCode::io, fmt::format("cannot make a folder below {} for the faulty captures; "
                                                     "choose another with --work-dir",
                                                     root.string()));
    }
    return WorkFolder(pattern);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit WorkFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// One row of the matrix.
struct Case {
  std::string name;
  bool good = false;  ///< must pass; else it must not
  Verdict verdict = Verdict::error;
  std::vector<schema::ClauseVerdict> clauses;

  [[nodiscard]] bool holds() const {
    return good ? verdict == Verdict::pass : verdict == Verdict::violated || verdict == Verdict::error;
  }
  /// The clauses that make the verdict; none for a pass, which takes all of them.
  [[nodiscard]] std::vector<std::string> deciding() const {
    std::set<std::string> names;
    if (verdict == Verdict::pass) return {};
    for (const auto& clause : clauses) {
      const bool counts = clause.verdict == verdict && clause.severity == schema::Severity::hard;
      const std::string slice = schema::slice_text(clause.where);
      if (counts) names.insert(slice.empty() ? clause.clause : clause.clause + " on " + slice);
    }
    return {names.begin(), names.end()};
  }
};

/// The combined verdict of the two stages that decide on captures, for one capture of K_inf. Clauses that
/// only traffic can decide play no part.
Result<Case> judge(const drift::Inputs& bench, const gpu::Capture& inf, std::string name, bool good) {
  const auto table = TRY(gpu::measure_with_bits(bench.train, inf, bench.slices(), bench.options(),
                                                stages::required_bits(*bench.contract)));
  stages::StageInputs inputs;
  inputs.alpha = bench.contract->confidence.alpha;  // a preview, not a stage: nothing is spent
  inputs.seed = kSeed;
  inputs.floors = bench.floors.view();
  Case out{std::move(name), good, Verdict::pass, {}};
  for (stages::StageReport& report :
       std::array{stages::evaluate_offline_numeric(*bench.contract, table, inputs),
                  stages::evaluate_statistical_slice(*bench.contract, table, inputs)}) {
    std::ranges::move(report.clauses, std::back_inserter(out.clauses));
  }
  out.verdict = schema::combine(out.clauses);
  return out;
}

/// The slice that corrupted-slice corrupts: as asked, else the first critical one, else the smallest value of
/// a declared dimension that reaches min_sequences.
Result<schema::SliceWhere> slice_to_corrupt(const drift::Inputs& bench, const std::string& asked) {
  if (!asked.empty()) {
    auto where = stages::parse_slice(asked);
    if (where.empty()) {
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("--slice '{}' is not DIMENSION=VALUE[;DIMENSION=VALUE]", asked));
    }
    return where;
  }
  if (!bench.contract->slices.critical.empty()) return bench.contract->slices.critical.front();
  std::map<schema::SliceWhere, std::size_t> sizes;
  if (bench.corpus) {
    for (const auto& info : bench.corpus->sequences) {
      for (const std::string& dimension : bench.contract->slices.dimensions) {
        const auto value = info.slices.find(dimension);
        if (value != info.slices.end()) ++sizes[{{dimension, value->second}}];
      }
    }
  }
  std::erase_if(sizes, [&](const auto& item) { return item.second < bench.contract->slices.min_sequences; });
  const auto smallest = std::ranges::min_element(sizes, {}, [](const auto& item) { return item.second; });
  return smallest == sizes.end() ? schema::SliceWhere{} : smallest->first;
}

Result<std::vector<Case>> known_cases(const drift::Inputs& bench, const ContractTestArgs& args) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& path, std::string name, bool good) -> Result<void> {
    const auto capture = TRY(gpu::Capture::open(path));
    auto judged = TRY(judge(bench, capture, std::move(name), good));
    cases.push_back(std::move(judged));
    return {};
  };
  TRY(add(args.inf, "as given", true));
  for (const std::string& path : args.good) TRY(add(path, "good: " + path, true));
  for (const std::string& fault : args.faults) {
    const auto equals = fault.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("--fault '{}' is not NAME=CAPTURE: give the capture of a broken kernel "
                                      "a name, as in --fault \"stale weights=stale.safetensors\"",
                                      fault));
    }
    TRY(add(fault.substr(equals + 1), fault.substr(0, equals), false));
  }
  return cases;
}

Result<void> injected_cases(const drift::Inputs& bench, const ContractTestArgs& args,
                            std::vector<Case>& cases, std::vector<std::string>& notes) {
  const auto where = TRY(slice_to_corrupt(bench, args.slice));
  const auto folder = TRY(WorkFolder::make(args.work_dir));
  const auto path = folder.path() / "faulty.safetensors";
  for (std::size_t i = 0; i < gpu::kFaultCount; ++i) {
    const auto fault = static_cast<gpu::Fault>(i);
    std::string name(gpu::to_string(fault));
    if (fault == gpu::Fault::corrupted_slice) {
      if (where.empty()) {
        notes.emplace_back("corrupted-slice was not injected: the corpus has no slice of min_sequences.");
        continue;
      }
      name += " " + schema::slice_text(where);
    }
    TRY(gpu::write_faulty_capture(bench.inf, bench.slices(), fault, where, kSeed, path));
    const auto capture = TRY(gpu::Capture::open(path));
    auto judged = TRY(judge(bench, capture, std::move(name), false));
    cases.push_back(std::move(judged));
  }
  return {};
}

/// Why a case is not as it should be: the clauses that do not pass, and how many do.
std::string why_not(const Case& item) {
  std::string text = item.good ? "      a capture known to be good does not pass:\n"
                               : "      a broken kernel is not caught:\n";
  std::size_t passing = 0;
  for (const auto& clause : item.clauses) {
    if (clause.verdict == Verdict::pass) {
      ++passing;
      continue;
    }
    text += fmt::format("      {} {}{}: {}\n", clause.clause, schema::to_string(clause.verdict),
                        clause.severity == schema::Severity::soft ? " (soft)" : "", clause.message);
  }
  return text + fmt::format("      {} of {} clauses pass\n", passing, item.clauses.size());
}

std::string matrix_text(const std::vector<Case>& cases) {
  std::size_t width = 0;
  for (const Case& item : cases) width = std::max(width, item.name.size());
  std::string text;
  for (const Case& item : cases) {
    std::string line = fmt::format("{}  {:<{}}  {:<12}  {}", item.holds() ? "ok  " : "FAIL", item.name, width,
                                   schema::to_string(item.verdict), fmt::join(item.deciding(), ", "));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (!item.holds()) text += why_not(item);
  }
  return text;
}

std::string matrix_json(const std::vector<Case>& cases, const std::vector<std::string>& notes) {
  auto rows = nlohmann::json::array();
  for (const Case& item : cases) {
    auto clauses = nlohmann::json::array();
    for (const auto& clause : item.clauses) clauses.push_back(nlohmann::json::parse(schema::to_json(clause)));
    rows.push_back({{"case", item.name},
                    {"expected", item.good ? "pass" : "caught"},
                    {"verdict", schema::to_string(item.verdict)},
                    {"holds", item.holds()},
                    {"deciding", item.deciding()},
                    {"clauses", std::move(clauses)}});
  }
  return schema::canonical_json({{"cases", std::move(rows)}, {"notes", notes}});
}

}  // namespace

int contract_test(const ContractTestArgs& args) {
  const auto bench = drift::open_inputs(args);
  if (!bench) return report_offline(bench.error());
  auto cases = known_cases(*bench, args);
  if (!cases) return report_offline(cases.error());
  std::vector<std::string> notes;
  if (auto ok = injected_cases(*bench, args, *cases, notes); !ok) return report_offline(ok.error());
  const bool all = std::ranges::all_of(*cases, &Case::holds);
  if (args.json) {
    fmt::print("{}\n", matrix_json(*cases, notes));
  } else {
    fmt::print("{}", matrix_text(*cases));
    for (const std::string& note : notes) fmt::print("note: {}\n", note);
    fmt::print("{}\n", all ? "The contract holds." : "The contract fails its test.");
  }
  return all ? kExitOk : kExitViolated;
}

}  // namespace driftgate::cli
