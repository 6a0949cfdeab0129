#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/app/offline_commands.hpp"
#include "daemon/app/options.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/client.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/verify/verify_folder.hpp"

namespace driftgate::app {
namespace {

using nlohmann::json;
using schema::Result;

/// The keys that heads are checked with: those of the auditor's file, or of the folder's own record.
Result<evidence::TrustFile> trust_of(const cli::OfflineArgs& args, const std::filesystem::path& data_dir) {
  if (args.trust.empty()) return evidence::load_trust(data_dir);
  auto text = TRY(cli::read_file(args.trust, evidence::kMaxTrustBytes));
  return evidence::parse_trust(text);
}

Result<evidence::FolderReport> verify(const cli::OfflineArgs& args) {
  const auto settings = TRY(load_settings(args.config, args.data_dir));
  auto trust = TRY(trust_of(args, data_dir_of(settings)));
  evidence::FolderRequest request{head_options(settings), std::move(trust), std::nullopt};
  if (!args.older_head.empty()) {
    auto note = TRY(cli::read_file(args.older_head, evidence::kMaxNoteBytes));
    request.older_head = std::move(note);
  }
  auto store = TRY(store::Store::open({.data_dir = data_dir_of(settings), .read_only = true}));
  return evidence::verify_folder(*store, request);
}

std::string report_json(const evidence::FolderReport& report) {
  json findings = json::array();
  for (const auto& finding : report.findings) {
    findings.push_back({{"result", evidence::to_string(finding.result)},
                        {"code", static_cast<int>(finding.result)},
                        {"where", finding.difference.where},
                        {"what", finding.difference.what}});
  }
  return json{{"result", evidence::to_string(report.result)},
              {"code", static_cast<int>(report.result)},
              {"entries", report.entries},
              {"findings", std::move(findings)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

int verify_folder_command(const cli::OfflineArgs& args) {
  const auto report = verify(args);
  if (!report) {
    const int code = cli::report(report.error());
    return report.error().code == schema::ErrorCode::corrupt
               ? static_cast<int>(evidence::BundleResult::tampered)
               : code;
  }
  if (args.json) {
    cli::print_line(report_json(*report));
    return static_cast<int>(report->result);
  }
  cli::print_line(fmt::format("{}: {} entries", evidence::to_string(report->result), report->entries));
  for (const auto& finding : report->findings) {
    cli::print_line(fmt::format("  {}: {}", evidence::to_string(finding.result),
                                cli::printable(to_text(finding.difference))));
  }
  if (args.trust.empty()) {
    cli::print_line(
        "  checked with the folder's own record of keys; --trust checks with keys from another source");
  }
  return static_cast<int>(report->result);
}

}  // namespace driftgate::app
