#include "daemon/cli/audit/audit_command.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "daemon/cli/audit/audit_reevaluate.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/time_text.hpp"
#include "daemon/evidence/bundle/verify_bundle.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;
using schema::Result;

Result<std::string> export_target(const AuditExportArgs& args) {
  std::string target;
  if (!args.promotion.empty()) {
    target = fmt::format("{}/bundle?tables={}", promotion_path(args.promotion), args.with_tables);
  } else {
    const auto from = TRY(parse_time(args.from));
    const auto to = TRY(parse_time(args.to));
    target = fmt::format("/v1/evidence/export?from_us={}&to_us={}", from, to);
  }
  if (args.older_head.empty()) return target;
  const auto note = TRY(read_file(args.older_head, evidence::kMaxNoteBytes));
  const auto head = TRY(evidence::read_checkpoint(note));
  return target + fmt::format("&older={}", head.checkpoint.size);
}

/// Writes the answer into `path`.part, which gets its name when the answer is complete.
Result<void> download(Client& client, const std::string& target, const std::string& path) {
  if (path == "-") {
    return client.download(target, [](std::string_view bytes) {
      std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      return std::cout.good();
    });
  }
  if (std::filesystem::exists(path)) {
    return fail(ErrorCode::already_exists, fmt::format("'{}' already exists: choose another name", path));
  }
  const std::string partial = path + ".part";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  if (!file) return fail(ErrorCode::io, fmt::format("cannot write '{}'", partial));
  auto done = client.download(target, [&](std::string_view bytes) {
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file.good();
  });
  file.close();
  if (done && !file) done = fail(ErrorCode::io, fmt::format("cannot write '{}'", partial));
  std::error_code error;
  if (done) std::filesystem::rename(partial, path, error);
  if (error) done = fail(ErrorCode::io, fmt::format("cannot write '{}': {}", path, error.message()));
  if (!done) std::filesystem::remove(partial, error);
  return done;
}

/// The state of a promotion that has not ended; empty when it has, or when the daemon does not say.
std::string state_while_running(Client& client, const std::string& promotion) {
  const auto view = parse_answer(client.get(promotion_path(promotion)));
  if (!view) return {};
  const auto state = store::parse_state<store::PromotionState>(text_of(*view, "state"));
  return state && !store::is_terminal(*state) ? text_of(*view, "state") : std::string();
}

json report_json(const std::string& path, const evidence::BundleReport& report) {
  json findings = json::array();
  for (const auto& finding : report.findings)
    findings.push_back({{"result", evidence::to_string(finding.result)},
                        {"code", static_cast<int>(finding.result)},
                        {"message", finding.message}});
  return {{"bundle", path},
          {"result", evidence::to_string(report.result)},
          {"code", static_cast<int>(report.result)},
          {"subject", report.subject},
          {"tree_size", report.tree_size},
          {"entries", report.entries},
          {"verdicts", report.verdicts},
          {"attestations", report.attestations},
          {"blobs", report.blobs},
          {"findings", std::move(findings)},
          {"notes", report.notes}};
}

void print_report(const std::string& path, const evidence::BundleReport& report) {
  print_line(fmt::format("{}: {}", path, evidence::to_string(report.result)));
  if (!report.subject.empty()) {
    print_line(fmt::format("  {}, in the log of {} entries: {} entries, {} verdicts, {} attestations",
                           printable(report.subject), report.tree_size, report.entries, report.verdicts,
                           report.attestations));
  }
  for (const auto& finding : report.findings)
    print_line(fmt::format("  {}: {}", evidence::to_string(finding.result), printable(finding.message)));
  for (const std::string& note : report.notes) print_line("  " + printable(note));
}

}  // namespace

int audit_export(const ConnectionArgs& connection, const AuditExportArgs& args) {
  if (args.promotion.empty() && (args.from.empty() || args.to.empty())) {
    fmt::print(stderr, "driftgate: audit export needs --promotion, or --from and --to\n");
    return kExitUsage;
  }
  const auto target = export_target(args);
  if (!target) return report(target.error());
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    TRY(download(client, *target, args.out));
    if (args.out == "-") return kExitOk;
    const std::string running =
        args.promotion.empty() ? std::string() : state_while_running(client, args.promotion);
    if (connection.json) {
      json shown{{"bundle", args.out}};
      if (!running.empty()) shown["running"] = running;
      print_line(shown.dump());
      return kExitOk;
    }
    print_line(fmt::format("{0} written; check it with 'driftgate audit verify {0} --trust FILE{1}'",
                           args.out, running.empty() ? "" : " --running"));
    if (!running.empty()) {
      print_line(
          fmt::format("The promotion has not ended (it is {}): without --running its bundle counts as "
                      "incomplete. Export it again when it has ended.",
                      running));
    }
    return kExitOk;
  });
}

int audit_verify(const AuditVerifyArgs& args) {
  auto text = read_file(args.trust, evidence::kMaxTrustBytes);
  if (!text) return report(text.error());
  auto trust = evidence::parse_trust(*text);
  if (!trust) return report(trust.error());
  evidence::VerifyOptions options{std::move(*trust), std::nullopt, {}, args.running};
  if (!args.recorded_only) options.reevaluate = decide_again;
  if (!args.older_head.empty()) {
    auto note = read_file(args.older_head, evidence::kMaxNoteBytes);
    if (!note) {
      const int failed = report(note.error());
      // No head is that large, so the file was changed; both verifiers treat it like any other damaged head.
      return note.error().code == ErrorCode::limit_exceeded
                 ? static_cast<int>(evidence::BundleResult::tampered)
                 : failed;
    }
    options.older_head = std::move(*note);
  }
  int code = kExitOk;
  json all = json::array();
  for (const std::string& path : args.bundles) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      return report(fail(ErrorCode::io, fmt::format("'{}' is a folder; name the bundle in it", path)).error());
    std::ifstream file(path, std::ios::binary);
    if (!file) return report(fail(ErrorCode::io, fmt::format("cannot read '{}'", path)).error());
    const auto result = evidence::verify_bundle(file, options);
    if (code == kExitOk) code = static_cast<int>(result.result);
    if (args.json) {
      all.push_back(report_json(path, result));
    } else {
      print_report(path, result);
    }
  }
  // A text from a bundle may end within a character.
  const json& shown = all.size() == 1 ? all[0] : all;
  if (args.json) print_line(shown.dump(-1, ' ', false, json::error_handler_t::replace));
  return code;
}

int audit_verify(const AuditVerifyArgs& args, OfflineArgs folder,
                 const std::function<int(const OfflineArgs&)>& verify_folder) {
  const bool of_folder = !folder.data_dir.empty() || !folder.config.empty();
  if (of_folder != args.bundles.empty() || (!of_folder && args.trust.empty())) {
    fmt::print(stderr, "driftgate: audit verify needs bundles and --trust, or --data-dir (or --config) alone\n");
    return kExitUsage;
  }
  if (!of_folder) return audit_verify(args);
  folder.trust = args.trust;
  folder.older_head = args.older_head;
  folder.json = args.json;
  return verify_folder(folder);
}

}  // namespace driftgate::cli
