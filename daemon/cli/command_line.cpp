#include "daemon/cli/command_line.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "daemon/cli/audit/audit_command.hpp"
#include "daemon/cli/audit/audit_query_command.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/contract/contract_command.hpp"
#include "daemon/cli/contract/contract_tools.hpp"
#include "daemon/cli/drift/capture_command.hpp"
#include "daemon/cli/drift/capture_options.hpp"
#include "daemon/cli/drift/drift_command.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/jobs/jobs_command.hpp"
#include "daemon/cli/service/schedule_command.hpp"

namespace driftgate::cli {
namespace {

using Action = std::function<int()>;

/// The largest count or number of seconds: the largest integer that JSON keeps exactly. A minimum must be
/// stated beside it, since "-1" would be read as 2^64 - 1.
constexpr std::int64_t kMostOfAny = (std::int64_t{1} << 53) - 1;

/// All commands with their options. The values of options are kept here until the chosen action runs.
class CommandLine {
 public:
  explicit CommandLine(const Hooks& hooks) : hooks_(hooks) {
    app_.description("May this checkpoint, served by this inference kernel, replace what is served now?");
    app_.require_subcommand(1);
    app_.footer(
        "Exit codes: 0 pass or succeeded, 1 violated or rejected, 3 inconclusive or expired, 4 error,\n"
        "5 aborted or superseded, 64 usage, 69 daemon unreachable, 74 I/O, 77 not permitted.");
    add_daemon_commands();
    add_offline_commands();
    add_registry_commands();
    add_model_commands();
    add_promote();
    add_following_commands();
    add_interventions();
    add_job_commands(
        group("jobs", "Jobs of promotions, here or on a cluster"), job_, connection_,
        [this](auto& jobs, auto name, auto text, Action run) { return client(jobs, name, text, {}, run); });
    add_schedules();
    add_evidence();
    audit_ =
        &group("audit", "Query the log: what served, on what evidence, and whether the record is complete");
    add_audit_queries();
    add_audit_bundles();
    add_backups();
    add_keys();
    add_tokens();
  }

  int run(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& e) {
      return app_.exit(e);
    } catch (const CLI::ParseError& e) {
      fmt::print(stderr, "driftgate: {}; see 'driftgate --help'\n", e.what());
      return kExitUsage;
    }
    return action_ ? action_() : kExitUsage;
  }

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
  void add_schedule_set(CLI::App& schedules, const char* name, const char* text, bool replace);
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

  const Hooks& hooks_;
  CLI::App app_{"driftgate", "driftgate"};
  Action action_;
  ConnectionArgs connection_;
  ServeArgs serve_;
  DriftArgs drift_;
  CaptureImportArgs import_;
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
  TokenArgs token_;
  JobsArgs job_;
  std::string subject_, reason_, evidence_digest_, seq_;
  CLI::App* contract_ = nullptr;
  CLI::App* audit_ = nullptr;
  OfflineArgs offline_;
  AuditArgs audit_args_;
  AuditExportArgs audit_export_;
  AuditVerifyArgs audit_verify_;
};

void CommandLine::add_daemon_commands() {
  CLI::App* serve = command(app_, "serve", "Run the daemon", {}, [this] { return hooks_.serve(serve_); });
  serve->add_option("--config", serve_.config, "Settings file; the defaults if not given");
  serve->add_option("--listen", serve_.listen, "Address and port of the API, instead of the configured one");
  serve->add_option("--data-dir", serve_.data_dir, "Data folder, instead of the configured one");
  command(app_, "router", "Run the embedded router (the daemon starts it)", {}, [] { return kExitUsage; });
  command(app_, "worker", "Run the job in a folder (the daemon starts it)", {}, [] { return kExitUsage; });
  CLI::App* settings = command(app_, "settings", "Print every setting with its default and its documentation",
                               {}, [this] { return hooks_.settings(markdown_); });
  settings->add_flag("--markdown", markdown_, "Print the reference page");
  command(app_, "openapi", "Print the API's OpenAPI document", {}, [this] { return hooks_.openapi(); });
  command(app_, "version", "Print the version", {}, [this] {
    fmt::print("driftgate {}\n", hooks_.version);
    return kExitOk;
  });
}

void CommandLine::add_offline_commands() {
  add_drift();
  contract_ = &group("contract", "Check, explain and register contracts");
  CLI::App* lint = command(*contract_, "lint", "Check contracts without a daemon", {},
                           [this] { return contract_lint(files_, offline_json_); });
  lint->add_option("files", files_, "Contract files")->required();
  lint->add_flag("--json", offline_json_, "Print JSON");
  CLI::App* explain = command(*contract_, "explain", "Explain what a contract requires",
                              {{"file", explain_.file, "Contract file"}},
                              [this] { return contract_explain(explain_, connection_); });
  add_explain_options(*explain, explain_);
  add_connection(*explain);
  add_contract_tools();
  add_capture_tools();
}

void CommandLine::add_contract_tools() {
  CLI::App* diff =
      command(*contract_, "diff", "Show what became stricter or looser, was added or was removed",
              {{"before", before_, "Contract file"}, {"after", file_.file, "Contract file"}},
              [this] { return contract_diff_command(before_, file_.file, offline_json_); });
  diff->add_flag("--json", offline_json_, "Print JSON");

  CLI::App* suggest = command(*contract_, "suggest", "Propose limits from captures, as YAML to review", {},
                              [this] { return contract_suggest(suggest_); });
  add_suggest_options(*suggest, suggest_);

  CLI::App* test = command(*contract_, "test", "Check that good captures pass and injected faults are caught",
                           {}, [this] { return contract_test(contract_test_); });
  add_contract_test_options(*test, contract_test_);
}

void CommandLine::add_drift() {
  CLI::App* sub = command(app_, "drift", "Measure the drift between two captures", {}, [this] {
    drift_.version = hooks_.version;
    return drift_command(drift_);
  });
  auto* train = sub->add_option("train", drift_.train, "Capture of K_train: file or folder");
  auto* inf = sub->add_option("inf", drift_.inf, "Capture of K_inf");
  sub->add_option("--train", drift_.train, "Capture of K_train, by name")->excludes(train);
  sub->add_option("--inf", drift_.inf, "Capture of K_inf, by name")->excludes(inf);
  sub->add_option("--corpus", drift_.corpus, "Sequences with their slices, JSON Lines");
  sub->add_option("--contract", drift_.contract, "Contract with the clauses to decide");
  add_floor_options(*sub, drift_.floors);
  sub->add_option("--json", drift_.json, "Write the report as JSON to this file (-: standard output)");
  sub->add_option(
      "--certificate", drift_.certificate,
      "Write the bounds, their meaning and their assumptions to this file, as a page of Markdown");
  sub->add_option("--rows-out", drift_.rows_out, "Write every per-row metric to this safetensors file");
  sub->add_option("--devices,--device", drift_.device, "cpu, cuda, cuda:all or cuda:0,1");
  sub->add_option("--ranks", drift_.ranks, "Ranks that share the work; a CUDA device is one rank");
  sub->add_option("--shard", drift_.shard, "How ranks share the work: rows (whole sequences), vocab (columns) or auto (default)");
  sub->add_option("--exchange", drift_.exchange,
                  "How ranks communicate: auto (mpi under mpirun, else threads), threads, mpi or nccl");
  sub->add_option("--timeout", drift_.timeout_s, "Seconds that a rank waits for another rank (60)");
  sub->add_option(
      "--lm-head", drift_.lm_head,
      "For captures of hidden states: safetensors file with their head, instead of the one that they name");
  sub->add_option("--checkpoint", drift_.checkpoint,
                  "For captures of hidden states: folder or file of the checkpoint that contains their head");
  sub->add_option("--metrics", drift_.metrics,
                  "all, or core: only log-probabilities, KL, span and top-1, in one pass")
      ->check(CLI::IsMember({"all", "core"}));
  sub->add_option("--threads", drift_.threads, "Threads (0: one for each processor)");
  sub->add_option("--top-rows", drift_.top_rows, "Worst rows to report (20)");
  sub->add_option("--top-k", drift_.top_k, "k of topk_overlap (the contract's, or 10)");
}

void CommandLine::add_capture_tools() {
  CLI::App& captures = group("capture", "Captures of what kernels produced");
  CLI::App* import =
      command(captures, "import", "Write the log-probabilities that an engine returned as a capture", {},
              [this] { return capture_import(import_); });
  describe_capture_import(*import, import_);
}

void CommandLine::add_registry_commands() {
  client(*contract_, "register", "Register a contract", {{"file", file_.file, "Contract file, YAML or JSON"}},
         [this] { return contract_register(connection_, file_); });
  list(*contract_, "contracts", "List contracts");

  CLI::App& kernels = group("kernel", "Register and list kernels");
  client(kernels, "register", "Register a kernel",
         {{"file", file_.file, "JSON file: {\"name\": …, \"engine\": …, \"dtype\": …}"}},
         [this] { return kernel_register(connection_, file_); });
  list(kernels, "kernels", "List kernels");

  CLI::App& engines = group("engine", "Register and list engines");
  CLI::App* engine =
      client(engines, "register", "Register an engine and probe it",
             {{"name", engine_.name, "Its name in driftgate"},
              {"--engine-url", engine_.url, "Base URL of the engine, http[s]://host:port[/path]"},
              {"--kernel", engine_.kernel, "Registered kernel that it runs"}},
             [this] { return engine_register(connection_, engine_); });
  auto* uri = engine->add_option("--checkpoint", engine_.checkpoint_uri,
                                 "Folder of the weights, below a configured root");
  engine
      ->add_option("--checkpoint-digest", engine_.checkpoint_digest,
                   "Digest of the weights, if the daemon cannot read their folder")
      ->excludes(uri);
  engine
      ->add_option("--max-requests-per-second", engine_.max_requests_per_second,
                   "How much it can serve; checked before it gets traffic as a fallback")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  auto* key = engine->add_option("--engine-key-file", engine_.key_file,
                                 "File with the key that it asks for, below the daemon's engines.files_dir");
  engine
      ->add_option("--engine-key-header", engine_.key_header,
                   "Header of the key, such as X-Api-Key; 'Authorization: Bearer KEY' if not given")
      ->needs(key);
  engine->add_option(
      "--ca-file", engine_.ca_file,
      "CAs to trust for its https URL (PEM), below engines.files_dir; the system's if not given");
  list(engines, "engines", "List engines");
}

void CommandLine::add_model_commands() {
  CLI::App& models = group("model", "Install and list models");
  client(models, "create", "Install a model's first version",
         {{"name", model_.name, "The name that clients send"},
          {"--engine", model_.engine, "Registered engine that serves it"},
          reason(model_.reason)},
         [this] { return model_create(connection_, model_); });
  list(models, "models", "List models");
  client(models, "lift-hold", "Lift the hold of a rollback, so that the model can be promoted again",
         {{"name", subject_, "Model"}, reason(reason_)},
         [this] { return model_lift_hold(connection_, subject_, reason_); });

  CLI::App& blocks =
      group("block", "Pairs of checkpoint and kernel that may not be promoted under a contract");
  list(blocks, "blocks", "List blocks");
  client(blocks, "lift", "Lift a block, so that the pair can be promoted again",
         {{"id", subject_, "Block"}, reason(reason_)},
         [this] { return block_lift(connection_, subject_, reason_); });

  CLI::App& webhooks = group("webhook", "Endpoints that receive notifications of events");
  list(webhooks, "webhooks", "List endpoints and the state of their deliveries");
  const std::pair<const char*, const char*> changes[] = {
      {"test", "Send an endpoint a message of type driftgate.test"},
      {"enable", "Resume delivery to an endpoint that was disabled because it answered 410"}};
  for (const auto& [name, text] : changes) {
    client(webhooks, name, text, {{"name", subject_, "Endpoint in the settings"}},
           [this, change = std::string(name)] { return webhook_change(connection_, change, subject_); });
  }
}

void CommandLine::add_promote() {
  CLI::App* sub = client(app_, "promote", "Request a promotion", {}, [this] {
    if (promote_.request_file.empty() &&
        (promote_.model.empty() || promote_.engine.empty() || promote_.contract.empty())) {
      fmt::print(stderr, "driftgate: promote needs MODEL, --engine and --contract, or --request FILE\n");
      return kExitUsage;
    }
    return promote(connection_, promote_);
  });
  add_promote_options(*sub, promote_);
  add_plain_option(*sub, connection_);
}

void CommandLine::add_following_commands() {
  CLI::App* status_sub = client(app_, "status", "Show all models, one model, or one promotion", {},
                                [this] { return status(connection_, subject_); });
  status_sub->add_option("subject", subject_, "Model or promotion (pr-…)");
  add_plain_option(*status_sub, connection_);
  add_plain_option(*client(app_, "watch", "Follow a promotion and exit with its outcome",
                           {{"subject", subject_, "Promotion (pr-…), or model for its newest one"}},
                           [this] { return watch(connection_, subject_); }),
                   connection_);
}

void CommandLine::add_interventions() {
  CLI::App* approval =
      client(app_, "approve", "Approve the step that waits for approval", {promotion_id(), reason(reason_)},
             [this] { return approve(connection_, subject_, evidence_digest_, reason_); });
  approval->add_option(
      "--evidence", evidence_digest_,
      "Digest of the evidence that you read; if not given, the promotion is printed and what "
      "is printed is approved");
  client(app_, "explain", "Explain the state of a promotion and what would change it", {promotion_id()},
         [this] { return explain(connection_, subject_); });
  client(app_, "what-if", "Decide stored evidence again under another contract",
         {{"--promotion", subject_, "Promotion (pr-…)"},
          {"--contract", file_.file, "Contract file, YAML or JSON"}},
         [this] { return what_if(connection_, subject_, file_.file); });
  CLI::App* waiver = client(app_, "waive", "Waive an inconclusive clause; it takes two people",
                            {{"promotion", waive_.promotion, "Promotion (pr-…)"}, reason(waive_.reason)},
                            [this] { return waive(connection_, waive_); });
  waiver->add_option("--clause", waive_.clause, "Clause, family.id; if not given, the only open one");
  waiver->add_option("--evidence", waive_.evidence_digest,
                     "Digest of the evidence that you read; if not given, the promotion is printed and its "
                     "evidence is the one waived");
  const std::pair<const char*, const char*> interventions[] = {
      {"abort", "End a promotion, with the candidate at 0% traffic first"},
      {"rollback", "Restore the previous version and set a hold"},
      {"pause", "Freeze the traffic shares; harm tests continue"},
      {"resume", "Continue after a pause, or repeat a stage that was inconclusive"},
      {"redact", "Destroy the stored data of individual requests of a promotion that has ended"}};
  for (const auto& [name, text] : interventions) {
    client(app_, name, text, {promotion_id(), reason(reason_)},
           [this, action = std::string(name)] { return intervene(connection_, action, subject_, reason_); });
  }
}

void CommandLine::add_schedule_set(CLI::App& schedules, const char* name, const char* text, bool replace) {
  CLI::App* set = client(schedules, name, text,
                         {{"name", schedule_.name, "Its name"},
                          {"--cron", schedule_.cron, "minute hour day-of-month month day-of-week"},
                          {"--request", schedule_.request_file, "The promotion request, a JSON file"}},
                         [this, replace] { return schedule_set(connection_, schedule_, replace); });
  set->add_option("--timezone", schedule_.zone, "IANA name (UTC)");
  set->add_option(
         "--misfire", schedule_.misfire,
         "What to do about a fire time that was missed while the daemon did not run: skip or run_once")
      ->check(CLI::IsMember({"skip", "run_once"}));
  set->add_option("--grace", schedule_.grace_s, "Seconds that run_once may be late")
      ->check(CLI::Range(std::int64_t{0}, kMostOfAny));
  set->add_option("--if-running", schedule_.if_running,
                  "What to do while a promotion of the model is in progress: skip or queue")
      ->check(CLI::IsMember({"skip", "queue"}));
}

void CommandLine::add_schedules() {
  CLI::App& schedules = group("schedule", "Request promotions by a cron expression");
  add_schedule_set(schedules, "create", "Create a schedule", false);
  add_schedule_set(schedules, "change", "Change a schedule; from then on you count as the requester", true);
  client(schedules, "list", "List schedules", {}, [this] { return schedule_list(connection_); });
  const Required name{"name", schedule_.name, "Schedule"};
  client(schedules, "show", "Show one schedule and the outcome of its fire times", {name},
         [this] { return schedule_show(connection_, schedule_.name); });
  client(schedules, "next", "Show its next fire times", {name},
         [this] { return schedule_next(connection_, schedule_.name, schedule_.count); })
      ->add_option("--count", schedule_.count, "How many")
      ->check(CLI::Range(1, 100));
  const std::pair<const char*, const char*> actions[] = {
      {"pause", "Stop it from firing"},
      {"resume", "Let it fire again; missed fire times are not made up for"},
      {"delete", "Delete it"}};
  for (const auto& [action, text] : actions) {
    client(schedules, action, text, {name}, [this, chosen = std::string(action)] {
      return schedule_act(connection_, schedule_.name, chosen);
    });
  }
}

void CommandLine::entry_filters(CLI::App* sub) {
  for (const EntryFilter& filter : kEntryFilters)
    sub->add_option(std::string("--") + filter.name, audit_args_.*filter.member, filter.text);
}

void CommandLine::add_evidence() {
  CLI::App* sub = client(app_, "evidence", "Read the log", {},
                         [this] { return evidence(connection_, seq_, audit_args_); });
  entry_filters(sub);
  sub->add_option("--limit", audit_args_.limit, "At most this many entries")->check(CLI::Range(1, 1'000'000));
  sub->add_flag("--newest", audit_args_.newest, "Newest first");
  auto* seq = sub->add_option("seq", seq_, "Sequence number: print the exact bytes of this entry");
  for (const EntryFilter& filter : kEntryFilters)
    seq->excludes(sub->get_option(std::string("--") + filter.name));
  seq->excludes(sub->get_option("--limit"))->excludes(sub->get_option("--newest"));
}

CLI::App* CommandLine::audit(const std::string& name, const std::string& text,
                             int (*query)(const ConnectionArgs&, const AuditArgs&), AllRequired required) {
  return client(*audit_, name, text, required, [this, query] { return query(connection_, audit_args_); });
}

void CommandLine::audit_times(CLI::App* sub) {
  sub->add_option("--from", audit_args_.from, "From this time on: 2026-01-31 or 2026-01-31T12:00:05, UTC");
  sub->add_option("--to", audit_args_.to, "Before this time");
}

void CommandLine::add_audit_queries() {
  const auto limited = [this](CLI::App* sub) {
    sub->add_option("--limit", audit_args_.limit, "At most this many")->check(CLI::Range(1, 100'000'000));
    return sub;
  };
  CLI::App* query = limited(audit("query", "Entries that match all given filters", audit_query));
  audit_times(query);
  entry_filters(query);
  query->add_flag("--newest", audit_args_.newest, "Newest first");
  audit("at", "What served a model at a time, and why", audit_at,
        {{"model", audit_args_.model, "Model"},
         {"time", audit_args_.at, "Time: now, 2026-01-31 or 2026-01-31T12:00:05, UTC"}});
  CLI::App* population = limited(
      audit("population",
            "Every version that started to serve in a range of time, with the proof that nothing is missing",
            audit_population,
            {{"--from", audit_args_.from, "From this time on, UTC"},
             {"--to", audit_args_.to, "Before this time"}}));
  population->add_option("--model", audit_args_.model, "Of this model only");
  CLI::App* sample =
      audit("sample", "Entries drawn at random by a seed: anyone can draw the same ones", audit_sample,
            {{"--seed", audit_args_.seed, "Any text; choose it before you look"}});
  audit_times(sample);
  entry_filters(sample);
  sample->add_option("--count", audit_args_.count, "Entries")->check(CLI::Range(1, 1'000));
  sample->add_option("--size", audit_args_.size, "Draw from this many entries at the start of the log")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  CLI::App* exceptions =
      limited(audit("exceptions", "Where people bypassed the usual procedure", audit_exceptions));
  audit_times(exceptions);
  exceptions->add_option("--model", audit_args_.model, "About this model");
  exceptions->add_option("--promotion", audit_args_.promotion, "About this promotion");
}

void CommandLine::add_audit_bundles() {
  CLI::App* write = client(*audit_, "export", "Write a bundle that anyone can verify", {},
                           [this] { return audit_export(connection_, audit_export_); });
  auto* promotion = write->add_option("--promotion", audit_export_.promotion, "Of this promotion (pr-…)");
  write->add_option("--from", audit_export_.from, "Of all entries from this time on, UTC")->excludes(promotion);
  write->add_option("--to", audit_export_.to, "And before this time")->excludes(promotion);
  write->add_option("--older-head", audit_export_.older_head,
                    "A head that you kept: adds the proof that the log continues it");
  write->add_option("--out", audit_export_.out, "New file (-: standard output)")->required();
  write->add_flag("--with-tables", audit_export_.with_tables, "Add measurement tables and reports of a promotion")
      ->needs(promotion);
  CLI::App* verify = command(
      *audit_, "verify", "Check bundles, or a stopped daemon's data folder, by the keys that you trust", {},
      [this] { return audit_verify(audit_verify_, offline_, hooks_.verify_folder); });
  verify->add_option("bundles", audit_verify_.bundles, "Bundles");
  verify->add_option("--data-dir", offline_.data_dir, "Check this whole data folder instead of bundles");
  verify->add_option("--config", offline_.config,
                     "The daemon's settings file, if its head or key is not in the data folder");
  verify->add_option("--trust", audit_verify_.trust,
                     "File with the keys that you trust; for a data folder, its own keys if not given");
  verify->add_option("--older-head", audit_verify_.older_head, "A head that you kept: the bundle must continue it");
  verify->add_flag("--running", audit_verify_.running, "Accept a promotion that has not ended in its bundle");
  verify->add_flag("--recorded-only", audit_verify_.recorded_only,
                   "Check only the recorded numbers, without deciding again from measurement tables");
  verify->add_flag("--json", audit_verify_.json, "Print JSON");
  verify->footer(
      "Exit codes: 0 ok, 1 tampered, 2 fork or rollback, 3 untrusted key, 4 incomplete,\n"
      "5 a verdict does not follow from its evidence.");
}

void CommandLine::add_backups() {
  CLI::App* make = client(app_, "backup", "Copy the running daemon's database and signed head", {},
                          [this] { return backup(connection_, subject_); });
  make->add_option("--name", subject_, "Name of the backup's folder; the current time if not given");
  CLI::App* restore = offline(app_, "restore", "Replace a stopped daemon's database by a backup",
                              {{"backup", offline_.backup, "Folder of the backup"}},
                              [this] { return hooks_.restore(offline_); });
  restore->add_flag(
      "--accept-loss", offline_.accept_loss,
      "Restore although the published head is newer than the backup; begins a new epoch of the log");
  restore->add_option("--reason", offline_.reason, "Why a loss is accepted; kept as evidence");
}

void CommandLine::add_keys() {
  CLI::App& keys = group("key", "Generate, rotate and list the daemon's keys");
  const auto key = [&](const char* name, const char* text, AllRequired required = {}) {
    const auto act = [this, action = std::string(name)] {
      offline_.action = action;
      return hooks_.key(offline_);
    };
    offline(keys, name, text, required, act);
  };
  key("generate", "Write a new key into a file",
      {{"--use", offline_.use, "head, attestation or webhook"}, {"--out", offline_.out, "New file (0600)"}});
  key("rotate", "Replace a stopped daemon's key and record it in the log",
      {{"--use", offline_.use, "head or attestation"}, reason(offline_.reason)});
  key("list",
      "List the keys, with the size of the log from which and the time until which each was in force");
  key("trust", "Print the trust file that auditors verify with");
}

void CommandLine::add_tokens() {
  CLI::App& tokens = group("token", "Issue, list and revoke tokens");
  CLI::App* issue = client(tokens, "issue", "Issue a token",
                           {{"--name", token_.name, "Name of its holder; each person uses one name"}},
                           [this] { return token_issue(connection_, token_); });
  issue
      ->add_option("--scope", token_.scopes,
                   "viewer, promoter, approver, operator, auditor, admin; more than one is possible")
      ->required()
      ->delimiter(',');
  issue->add_option("--expires-in", token_.expires_in_s, "Seconds until it expires; if not given, never")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  issue->add_option("--out", token_.out, "Write the bearer into this new file (0600) instead of printing it");
  client(tokens, "list", "List tokens", {}, [this] { return token_list(connection_); });
  client(tokens, "revoke", "Revoke a token", {{"id", subject_, "Token (tok-…)"}},
         [this] { return token_revoke(connection_, subject_); });
  CLI::App* recover =
      offline(tokens, "recover", "Issue an admin token in a stopped daemon's data folder",
              {{"--name", offline_.name, "Who recovers and will hold the token; kept as evidence"},
               reason(offline_.reason)},
              [this] { return hooks_.recover(offline_); });
  recover->add_option("--out", offline_.out,
                      "New file for the bearer (0600); if not given, recovered.token in the data folder");
}

}  // namespace

int run(int argc, const char* const* argv, const Hooks& hooks) {
  return CommandLine(hooks).run(argc, argv);
}

}  // namespace driftgate::cli
