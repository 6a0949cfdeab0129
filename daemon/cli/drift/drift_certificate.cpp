#include "daemon/cli/drift/drift_certificate.hpp"

#include <fstream>

#include "daemon/cli/output_files.hpp"
#include "schema/sha256.hpp"
#include "stages/report/certificate.hpp"

namespace driftgate::cli {
namespace {

using schema::ErrorCode;
using schema::Result;

/// An argument of a command line, quoted where a shell would split or expand it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./:=,+") == std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_of(const DriftArgs& args) {
  std::string out = "driftgate drift " + shell_word(args.train) + " " + shell_word(args.inf);
  const auto option = [&out](const char* name, const std::vector<std::string>& words) {
    if (words.empty() || words.front().empty()) return;
    out += std::string(" ") + name;
    for (const std::string& word : words) out += " " + shell_word(word);
  };
  option("--corpus", {args.corpus});
  option("--contract", {args.contract});
  for (const std::string& capture : args.floors.train) option("--floor-train", {capture});
  for (const std::string& capture : args.floors.inf) option("--floor-inf", {capture});
  if (args.device != "cpu") option("--device", {args.device});
  if (args.metrics != "all") option("--metrics", {args.metrics});
  option("--lm-head", {args.lm_head});
  option("--checkpoint", {args.checkpoint});
  if (args.top_k) option("--top-k", {std::to_string(*args.top_k)});
  option("--certificate", {args.certificate});
  return out;
}

Result<std::string> digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  schema::Sha256 hash;
  std::string buffer(std::size_t{1} << 20, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0)
    hash.update(std::string_view(buffer).substr(0, static_cast<std::size_t>(file.gcount())));
  if (!file.eof()) return schema::fail(ErrorCode::io, "cannot read " + path);
  return schema::digest_text(hash.finish());
}

}  // namespace

Result<void> write_certificate(const DriftArgs& args, const drift::DriftReport& report,
                               const gpu::Capture& train, const gpu::Capture& inf) {
  gpu::MeasurementTable table = *report.table;
  TRY(drift::add_digests(table, train, inf));
  stages::CertificateInputs inputs;
  inputs.table = &table;
  inputs.chains = &report.bounds;
  inputs.diagnosis = &report.diagnosis;
  inputs.floors = report.floor_tables;
  inputs.contract_name = report.contract_name;
  inputs.contract_digest = report.contract_digest;
  if (report.has_contract) inputs.verdict = report.verdict;
  inputs.table_digest = schema::sha256_digest(gpu::serialise(*report.table));
  if (!args.corpus.empty()) {
    auto digest = TRY(digest_of_file(args.corpus));
    inputs.corpus_digest = digest;
  }
  inputs.device = report.device;
  inputs.code_version = args.version;
  inputs.alpha = report.alpha;
  inputs.seed = report.seed;
  inputs.commands = {command_of(args)};
  inputs.note = report.bounds_note;
  return write_file(args.certificate, stages::certificate_markdown(inputs));
}

}  // namespace driftgate::cli
