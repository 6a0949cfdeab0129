#include "daemon/cli/contract/contract_tools.hpp"

#include <fmt/format.h>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output_files.hpp"
#include "daemon/drift/contract_file.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract_diff.hpp"
#include "stages/suggest.hpp"

namespace driftgate::cli {

using schema::Result;

Result<std::string> suggested_contract(const SuggestArgs& args) {
  const auto opened = TRY(drift::open_inputs(args));
  const auto table = TRY(gpu::measure(opened.train, opened.inf, opened.slices(), {}));
  stages::SuggestInputs inputs;
  inputs.table = &table;
  inputs.floor_train = opened.floors.train ? &*opened.floors.train : nullptr;
  inputs.floor_inf = opened.floors.inf ? &*opened.floors.inf : nullptr;
  inputs.name = args.name;
  inputs.headroom = args.headroom;
  inputs.sources = args.train + " against " + args.inf;
  return stages::suggest_contract(inputs);
}

int contract_diff_command(const std::string& before, const std::string& after, bool json) {
  const auto old_contract = drift::read_contract_file(before);
  if (!old_contract) return report(old_contract.error());
  const auto new_contract = drift::read_contract_file(after);
  if (!new_contract) return report(new_contract.error());
  const auto changes = schema::contract_diff(*old_contract, *new_contract);
  fmt::print("{}", json ? schema::to_json(changes) + "\n" : schema::to_text(changes));
  return changes.empty() ? kExitOk : kExitViolated;
}

int contract_suggest(const SuggestArgs& args) {
  auto writable = check_outputs({{"--out", args.out == "-" ? "" : args.out}}, drift::paths_of(args));
  if (!writable) return report_offline(writable.error());
  const auto text = suggested_contract(args);
  if (!text) return report_offline(text.error());
  if (args.out.empty() || args.out == "-") {
    fmt::print("{}", *text);
    return kExitOk;
  }
  const auto written = write_file(args.out, *text);
  if (!written) return report(written.error());
  fmt::print("{}: review it, then run `driftgate contract lint {}`\n", args.out, args.out);
  return kExitOk;
}

}  // namespace driftgate::cli
