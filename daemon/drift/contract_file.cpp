#include "daemon/drift/contract_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "schema/document/document_node.hpp"

namespace driftgate::drift {

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

schema::Result<schema::Contract> parse_contract_text(std::string_view text, const std::string& name) {
  schema::ContractReport report = schema::parse_contract(text, name);
  if (report.contract) return std::move(*report.contract);
  return schema::fail(ErrorCode::invalid_document,
                      "the contract has faults:\n" + schema::format_faults(report.faults, name));
}

schema::Result<schema::Contract> read_contract_file(const std::string& path) {
  const auto text = TRY(read_contract_text(path));
  return parse_contract_text(text, path);
}

}  // namespace driftgate::drift
