#include "daemon/cli/contract/contract_tools.hpp"

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "daemon/cli/contract/contract_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output_files.hpp"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract_diff.hpp"
#include "stages/suggest.hpp"

namespace driftgate::cli {
namespace {

using schema::Result;

Result<std::string> suggestion(const SuggestArgs& args) {
  std::optional<gpu::Corpus> corpus;
  if (!args.corpus.empty()) {
    auto read = TRY(gpu::read_corpus(args.corpus));
    corpus = std::move(read);
  }
  const gpu::Corpus* slices = corpus ? &*corpus : nullptr;
  const auto train = TRY(gpu::Capture::open(args.train));
  const auto inf = TRY(gpu::Capture::open(args.inf));
  const auto table = TRY(gpu::measure(train, inf, slices, {}));
  const auto floors = measure_floors(args.floors, train, inf, slices, nullptr);
  if (!floors) return std::unexpected(floors.error());
  stages::SuggestInputs inputs;
  inputs.table = &table;
  inputs.floor_train = floors->train ? &*floors->train : nullptr;
  inputs.floor_inf = floors->inf ? &*floors->inf : nullptr;
  inputs.name = args.name;
  inputs.headroom = args.headroom;
  inputs.sources = args.train + " against " + args.inf;
  return stages::suggest_contract(inputs);
}

}  // namespace

int contract_diff_command(const std::string& before, const std::string& after, bool json) {
  const auto old_contract = read_contract_file(before);
  if (!old_contract) return report(old_contract.error());
  const auto new_contract = read_contract_file(after);
  if (!new_contract) return report(new_contract.error());
  const auto changes = schema::contract_diff(*old_contract, *new_contract);
  fmt::print("{}", json ? schema::to_json(changes) + "\n" : schema::to_text(changes));
  return changes.empty() ? kExitOk : kExitViolated;
}

int contract_suggest(const SuggestArgs& args) {
  std::vector<std::string> inputs{args.train, args.inf, args.corpus};
  inputs.insert(inputs.end(), args.floors.train.begin(), args.floors.train.end());
  inputs.insert(inputs.end(), args.floors.inf.begin(), args.floors.inf.end());
  auto writable = check_outputs({{"--out", args.out == "-" ? "" : args.out}}, inputs);
  if (!writable) return report_offline(writable.error());
  const auto text = suggestion(args);
  if (!text) return report_offline(text.error());
  if (args.out.empty() || args.out == "-") {
    fmt::print("{}", *text);
    return kExitOk;
  }
  std::ofstream file(args.out, std::ios::binary | std::ios::trunc);
  file << *text;
  file.close();
  if (!file) return report({schema::ErrorCode::io, "cannot write the suggestion", args.out, nullptr});
  fmt::print("{}: review it, then run `driftgate contract lint {}`\n", args.out, args.out);
  return kExitOk;
}

}  // namespace driftgate::cli
