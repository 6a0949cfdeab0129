#include "daemon/cli/contract_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "schema/document_node.hpp"
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
  const auto text = read_contract_text(path);
  if (!text) return std::unexpected(text.error());
  schema::ContractReport report = schema::parse_contract(*text, path);
  if (report.contract) return std::move(*report.contract);
  return schema::fail(ErrorCode::invalid_document,
                      "the contract has faults:\n" + schema::format_faults(report.faults, path));
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

schema::Result<std::optional<gpu::MeasurementTable>> measure_floor(
    const std::vector<std::string>& pair, const char* option, const gpu::Corpus* corpus,
    const std::vector<gpu::Threshold>& thresholds) {
  if (pair.empty()) return std::nullopt;
  if (pair.size() != 2) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("{} takes two captures of the same kernel, not {}", option, pair.size()));
  }
  const auto first = gpu::Capture::open(pair[0]);
  if (!first) return std::unexpected(first.error());
  const auto second = gpu::Capture::open(pair[1]);
  if (!second) return std::unexpected(second.error());
  gpu::MeasureOptions options;
  options.thresholds = thresholds;
  auto table = gpu::measure(*first, *second, corpus, options);
  if (!table) return std::unexpected(table.error());
  return std::optional(std::move(*table));
}

}  // namespace driftgate::cli
