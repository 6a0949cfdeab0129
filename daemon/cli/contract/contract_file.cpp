#include "daemon/cli/contract/contract_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "daemon/cli/exit_codes.hpp"
#include "schema/document/document_node.hpp"
#include "stages/offline_numeric.hpp"

namespace driftgate::cli {

using schema::ErrorCode;

schema::Result<std::string> read_contract_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(schema::kMaxDocumentBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && !stream.eof()) {
    return schema::fail(
        ErrorCode::io,
        fmt::format("cannot read the contract {}; check that the file exists and is readable", path));
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

schema::Result<schema::Contract> read_contract_file(const std::string& path) {
  const auto text = TRY(read_contract_text(path));
  schema::ContractReport report = schema::parse_contract(text, path);
  if (report.contract) return std::move(*report.contract);
  return schema::fail(ErrorCode::invalid_document,
                      "the contract has faults:\n" + schema::format_faults(report.faults, path));
}

int report_offline(const schema::Error& error) {
  const int code = report(error);
  if (error.code == ErrorCode::invalid_argument) return kExitUsage;
  return error.code == ErrorCode::not_found ? kExitIo : code;
}

gpu::MeasureOptions options_for(const schema::Contract& contract,
                                const std::vector<gpu::SequenceInfo>& infos) {
  gpu::MeasureOptions options;
  options.top_k = contract.top_k;
  if (contract.assumptions.policy) {
    options.ppo_clip = contract.assumptions.policy->ppo_clip;
    options.is_clip = contract.assumptions.policy->is_clip;
  }
  options.thresholds = stages::required_thresholds(contract);
  options.slices = stages::wanted_slices(contract, infos);
  return options;
}

}  // namespace driftgate::cli
