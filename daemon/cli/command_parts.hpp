#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cli/audit/audit_command.hpp"
#include "daemon/cli/audit/audit_query_command.hpp"
#include "daemon/cli/command_line.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/contract/contract_command.hpp"
#include "daemon/cli/contract/contract_tools.hpp"
#include "daemon/cli/drift/capture_command.hpp"
#include "daemon/cli/drift/capture_digest_command.hpp"
#include "daemon/cli/drift/drift_command.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/jobs/jobs_command.hpp"
#include "daemon/cli/service/schedule_command.hpp"
#include "daemon/cli/setup/apply_commands.hpp"
#include "daemon/cli/setup/setup_commands.hpp"

namespace driftgate::cli {

using Action = std::function<int()>;

/// The largest count or number of seconds: the largest integer that JSON keeps exactly. A minimum must be
/// stated beside it, since "-1" would be read as 2^64 - 1.
inline constexpr std::int64_t kMostOfAny = (std::int64_t{1} << 53) - 1;

/// All commands with their options. The values of options are kept here until the chosen action runs.
class CommandLine {
 public:
  explicit CommandLine(const Hooks& hooks);
  int run(int argc, const char* const* argv);

 private:
  /// An option, or a positional argument, that must be given.
  struct Required {
    const char* name;
    std::string& into;
    const char* text;
  };
  using AllRequired = std::initializer_list<Required>;

  CLI::App* command(CLI::App& parent, const std::string& name, const std::string& text, AllRequired required,
                    Action action) {
    CLI::App* sub = parent.add_subcommand(name, text);
    sub->callback([this, chosen = std::move(action)] { action_ = chosen; });
    for (const Required& option : required)
      sub->add_option(option.name, option.into, option.text)->required();
    return sub;
  }

  void add_connection(CLI::App& sub) {
    sub.add_option("--url", connection_.url, "The daemon's URL (DRIFTGATE_URL, else http://127.0.0.1:7433)");
    sub.add_option("--token-file", connection_.token_file,
                   "File with the token (DRIFTGATE_TOKEN, else ~/.config/driftgate/token)");
    sub.add_option("--ca", connection_.tls.ca,
                   "CA file to check the daemon's certificate with (DRIFTGATE_CA)");
    sub.add_option("--cert", connection_.tls.certificate, "Client certificate, if the daemon requires one");
    sub.add_option("--key", connection_.tls.key, "Key of the client certificate");
  }

  /// A command that talks to the daemon.
  CLI::App* client(CLI::App& parent, const std::string& name, const std::string& text, AllRequired required,
                   Action action) {
    CLI::App* sub = command(parent, name, text, required, std::move(action));
    add_connection(*sub);
    sub->add_flag("--json", connection_.json, "Print JSON");
    return sub;
  }

  /// A command on the data folder of a daemon that does not run.
  CLI::App* offline(CLI::App& parent, const std::string& name, const std::string& text, AllRequired required,
                    Action action) {
    CLI::App* sub = command(parent, name, text, required, std::move(action));
    sub->add_option("--config", offline_.config, "The daemon's settings file; the defaults if not given");
    sub->add_option("--data-dir", offline_.data_dir, "Data folder, instead of the configured one");
    sub->add_flag("--json", offline_.json, "Print JSON");
    return sub;
  }

  CLI::App& group(const std::string& name, const std::string& text) {
    CLI::App* sub = app_.add_subcommand(name, text);
    sub->require_subcommand(1);
    return *sub;
  }

  void list(CLI::App& parent, const std::string& collection, const std::string& text) {
    client(parent, "list", text, {}, [this, collection] { return list_resources(connection_, collection); });
  }

  Required reason(std::string& into) { return {"--reason", into, "Why; kept as evidence"}; }
  Required promotion_id() { return {"promotion", subject_, "Promotion (pr-…)"}; }

  void add_daemon_commands();
  void add_offline_commands();
  void add_drift();
  void add_contract_tools();
  void add_capture_tools();
  void add_registry_commands();
  void add_model_commands();
  void add_promote();
  void add_following_commands();
  void add_interventions();
  void add_schedules();
  void add_recipes_and_apply();
  void add_evidence();
  void add_audit_queries();
  void add_audit_bundles();
  CLI::App* audit(const std::string& name, const std::string& text,
                  int (*query)(const ConnectionArgs&, const AuditArgs&), AllRequired required = {});
  void entry_filters(CLI::App* sub);
  void audit_times(CLI::App* sub);
  void add_backups();
  void add_keys();
  void add_tokens();
  void add_setup();
  void add_key_copy();

  const Hooks& hooks_;
  CLI::App app_{"driftgate", "driftgate"};
  Action action_;
  ConnectionArgs connection_;
  ServeArgs serve_;
  DriftArgs drift_;
  CaptureImportArgs import_;
  CaptureDigestArgs capture_digest_;
  bool markdown_ = false;
  bool offline_json_ = false;
  std::vector<std::string> files_;
  ExplainArgs explain_;
  std::string before_;
  SuggestArgs suggest_;
  ContractTestArgs contract_test_;
  RegisterFileArgs file_;
  EngineArgs engine_;
  ModelArgs model_;
  PromoteArgs promote_;
  WaiveArgs waive_;
  ScheduleArgs schedule_;
  RecipeArgs recipe_;
  ApplyArgs apply_;
  TokenArgs token_;
  JobsArgs job_;
  ApproveArgs approve_;
  std::string subject_, reason_, seq_;
  CLI::App* contract_ = nullptr;
  CLI::App* audit_ = nullptr;
  OfflineArgs offline_;
  AuditArgs audit_args_;
  AuditExportArgs audit_export_;
  AuditVerifyArgs audit_verify_;
  InitArgs init_;
  DevArgs dev_;
  DoctorArgs doctor_;
  KeyCopyArgs key_copy_;
};

}  // namespace driftgate::cli
