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
#include "daemon/cli/service/schedule_command.hpp"

namespace driftgate::cli {
namespace {

using Action = std::function<int()>;

/// Of counts and seconds: what JSON carries whole. Without a least one "-1" would be read as 2^64 - 1.
constexpr std::int64_t kMostOfAny = (std::int64_t{1} << 53) - 1;

/// The words of every command; values live here until the chosen action runs.
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
    add_schedules();
    add_evidence();
    audit_ = &group("audit", "Ask the log what served, on what evidence, and whether the record is complete");
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
  CLI::App* command(CLI::App& parent, const std::string& name, const std::string& text, Action action) {
    CLI::App* sub = parent.add_subcommand(name, text);
    sub->callback([this, chosen = std::move(action)] { action_ = chosen; });
    return sub;
  }

  /// A command that talks to the daemon.
  CLI::App* client(CLI::App& parent, const std::string& name, const std::string& text, Action action) {
    CLI::App* sub = command(parent, name, text, std::move(action));
    sub->add_option("--url", connection_.url, "The daemon's URL (DRIFTGATE_URL, else http://127.0.0.1:7433)");
    sub->add_option("--token-file", connection_.token_file,
                    "File with the token (DRIFTGATE_TOKEN, else ~/.config/driftgate/token)");
    sub->add_flag("--json", connection_.json, "Print JSON");
    sub->add_option("--ca", connection_.tls.ca, "CA file that the daemon's certificate is checked with (DRIFTGATE_CA)");
    sub->add_option("--cert", connection_.tls.certificate, "Client certificate, when the daemon asks for one");
    sub->add_option("--key", connection_.tls.key, "Key of the client certificate");
    return sub;
  }

  CLI::App& group(const std::string& name, const std::string& text) {
    CLI::App* sub = app_.add_subcommand(name, text);
    sub->require_subcommand(1);
    return *sub;
  }

  void reason_option(CLI::App* sub) {
    sub->add_option("--reason", reason_, "Why; kept as evidence")->required();
  }

  void add_daemon_commands();
  void add_offline_commands();
  void add_drift();
  void add_contract_tools();
  void add_capture_tools();
  void add_registry_commands();
  void add_model_commands();
  void add_ladder_commands();
  void add_promote();
  void add_following_commands();
  void add_interventions();
  void add_schedules();
  void add_schedule_set(CLI::App& schedules, const char* name, const char* text, bool replace);
  void add_evidence();
  void add_audit_queries();
  void add_audit_bundles();
  CLI::App* audit(const std::string& name, const std::string& text,
                  int (*ask)(const ConnectionArgs&, const AuditArgs&));
  void audit_filters(CLI::App* sub);
  void audit_times(CLI::App* sub);
  void add_backups();
  void add_keys();
  CLI::App* offline(CLI::App& parent, const std::string& name, const std::string& text, Action action);
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
  double request_rate_ = 0;
  std::string before_;
  SuggestArgs suggest_;
  ContractTestArgs contract_test_;
  RegisterFileArgs file_;
  EngineArgs engine_;
  ModelArgs model_;
  PromoteArgs promote_;
  EvidenceArgs evidence_;
  WaiveArgs waive_;
  ScheduleArgs schedule_;
  TokenArgs token_;
  std::string subject_, reason_, evidence_digest_;
  CLI::App* contract_ = nullptr;
  CLI::App* audit_ = nullptr;
  OfflineArgs offline_;
  AuditArgs audit_args_;
  AuditExportArgs audit_export_;
  AuditVerifyArgs audit_verify_;
};

void CommandLine::add_daemon_commands() {
  CLI::App* serve = command(app_, "serve", "Run the daemon", [this] { return hooks_.serve(serve_); });
  serve->add_option("--config", serve_.config, "Settings file; without one the defaults hold");
  serve->add_option("--listen", serve_.listen, "Address and port of the API, instead of the configured one");
  serve->add_option("--data-dir", serve_.data_dir, "Data folder, instead of the configured one");
  command(app_, "router", "Run the embedded router (the daemon starts it)", [] { return kExitUsage; });
  command(app_, "worker", "Do the job of a folder (the daemon starts it)", [] { return kExitUsage; });
  CLI::App* settings = command(app_, "settings", "Print every setting with its default, documented",
                               [this] { return hooks_.settings(markdown_); });
  settings->add_flag("--markdown", markdown_, "As the reference page");
  command(app_, "openapi", "Print the API's OpenAPI document", [this] { return hooks_.openapi(); });
  command(app_, "version", "Print the version", [this] {
    fmt::print("driftgate {}\n", hooks_.version);
    return kExitOk;
  });
}

void CommandLine::add_offline_commands() {
  add_drift();
  contract_ = &group("contract", "Check, explain and register contracts");
  CLI::App* lint = command(*contract_, "lint", "Check contracts without a daemon",
                           [this] { return contract_lint(files_, offline_json_); });
  lint->add_option("files", files_, "Contract files")->required();
  lint->add_flag("--json", offline_json_, "Print JSON");
  CLI::App* explain = command(*contract_, "explain", "Say what a contract demands",
                              [this] { return contract_explain(file_.file, request_rate_, offline_json_); });
  explain->add_option("file", file_.file, "Contract file")->required();
  explain->add_option("--rate", request_rate_, "Requests a second, to say how long traffic takes");
  explain->add_flag("--json", offline_json_, "Print JSON");
  add_contract_tools();
  add_capture_tools();
}

void CommandLine::add_contract_tools() {
  CLI::App* diff = command(*contract_, "diff", "Say what became stricter, looser, new or gone",
                           [this] { return contract_diff_command(before_, file_.file, offline_json_); });
  diff->add_option("before", before_, "Contract file")->required();
  diff->add_option("after", file_.file, "Contract file")->required();
  diff->add_flag("--json", offline_json_, "Print JSON");

  CLI::App* suggest = command(*contract_, "suggest", "Propose limits from captures, as YAML to review",
                              [this] { return contract_suggest(suggest_); });
  add_suggest_options(*suggest, suggest_);

  CLI::App* test = command(*contract_, "test", "Good captures must pass, injected faults must be caught",
                           [this] { return contract_test(contract_test_); });
  add_contract_test_options(*test, contract_test_);
}

void CommandLine::add_drift() {
  CLI::App* sub = command(app_, "drift", "Measure the drift between two captures", [this] {
    if (drift_.train.empty() || drift_.inf.empty()) {
      fmt::print(stderr, "driftgate: drift needs two captures: driftgate drift TRAIN INF\n");
      return kExitUsage;
    }
    drift_.version = hooks_.version;
    return drift_command(drift_);
  });
  auto* train = sub->add_option("train", drift_.train, "Capture of K_train: file or folder");
  auto* inf = sub->add_option("inf", drift_.inf, "Capture of K_inf");
  sub->add_option("--train", drift_.train, "Capture of K_train, by name")->excludes(train);
  sub->add_option("--inf", drift_.inf, "Capture of K_inf, by name")->excludes(inf);
  sub->add_option("--corpus", drift_.corpus, "Sequences with their slices, JSON Lines");
  sub->add_option("--contract", drift_.contract, "Contract whose clauses are decided");
  add_floor_options(*sub, drift_.floors);
  sub->add_option("--json", drift_.json, "Write the report as JSON to this file; -: standard output");
  sub->add_option("--certificate", drift_.certificate,
                  "Write the bounds, what they mean and what they rest on as a page of Markdown to this file");
  sub->add_option("--rows-out", drift_.rows_out, "Write every per-row metric to this safetensors file");
  sub->add_option("--devices,--device", drift_.device, "cpu, cuda, cuda:all or cuda:0,1");
  sub->add_option("--ranks", drift_.ranks, "Ranks that share the work; a CUDA device is one rank");
  sub->add_option("--shard", drift_.shard, "How ranks share the work: rows (whole sequences) or vocab");
  sub->add_option("--exchange", drift_.exchange,
                  "Between ranks: auto (mpi under mpirun, else threads), threads, mpi or nccl");
  sub->add_option("--timeout", drift_.timeout_s, "Seconds that a rank waits for another (60)");
  sub->add_option("--lm-head", drift_.lm_head,
                  "Captures of hidden states: safetensors file with their head, in place of the one they name");
  sub->add_option("--checkpoint", drift_.checkpoint,
                  "Captures of hidden states: folder or file of the checkpoint that holds their head");
  sub->add_option("--metrics", drift_.metrics,
                  "all, or core: log-probabilities, KL, span and top-1 only, in one reading")
      ->check(CLI::IsMember({"all", "core"}));
  sub->add_option("--threads", drift_.threads, "Threads; 0: one for each processor");
  sub->add_option("--top-rows", drift_.top_rows, "Worst rows to report (20)");
  sub->add_option("--top-k", drift_.top_k, "k of topk_overlap; without it the contract's, or 10");
}

void CommandLine::add_capture_tools() {
  CLI::App& captures = group("capture", "Captures of what kernels produced");
  CLI::App* import = command(captures, "import", "Write what an engine said of log-probabilities as a capture",
                             [this] { return capture_import(import_); });
  describe_capture_import(*import, import_);
}

void CommandLine::add_registry_commands() {
  CLI::App* contract = client(*contract_, "register", "Register a contract",
                              [this] { return contract_register(connection_, file_); });
  contract->add_option("file", file_.file, "Contract file, YAML or JSON")->required();
  client(*contract_, "list", "List contracts", [this] { return list_resources(connection_, "contracts"); });

  CLI::App& kernels = group("kernel", "Register and list kernels");
  CLI::App* kernel = client(kernels, "register", "Register a kernel",
                            [this] { return kernel_register(connection_, file_); });
  kernel->add_option("file", file_.file, "JSON file: {\"name\": …, \"engine\": …, \"dtype\": …}")->required();
  client(kernels, "list", "List kernels", [this] { return list_resources(connection_, "kernels"); });

  CLI::App& engines = group("engine", "Register and list engines");
  CLI::App* engine = client(engines, "register", "Register an engine and probe it",
                            [this] { return engine_register(connection_, engine_); });
  engine->add_option("name", engine_.name, "Its name here")->required();
  engine->add_option("--engine-url", engine_.url, "Base URL of the engine, http://host:port")->required();
  engine->add_option("--kernel", engine_.kernel, "Registered kernel that it runs")->required();
  auto* uri = engine->add_option("--checkpoint", engine_.checkpoint_uri,
                                 "Folder of the weights, below a configured root");
  engine
      ->add_option("--checkpoint-digest", engine_.checkpoint_digest,
                   "Digest of the weights, when the folder cannot be read here")
      ->excludes(uri);
  engine->add_option("--max-requests-per-second", engine_.max_requests_per_second,
                     "What it can serve; checked before it gets traffic as a fallback")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  client(engines, "list", "List engines", [this] { return list_resources(connection_, "engines"); });
}

void CommandLine::add_model_commands() {
  CLI::App& models = group("model", "Install and list models");
  CLI::App* create = client(models, "create", "Install a model's first version",
                            [this] { return model_create(connection_, model_); });
  create->add_option("name", model_.name, "The name that clients send")->required();
  create->add_option("--engine", model_.engine, "Registered engine that serves it")->required();
  create->add_option("--reason", model_.reason, "Why; kept as evidence")->required();
  client(models, "list", "List models", [this] { return list_resources(connection_, "models"); });
  CLI::App* lift = client(models, "lift-hold", "Let promotions run again after a rollback",
                          [this] { return model_lift_hold(connection_, subject_, reason_); });
  lift->add_option("name", subject_, "Model")->required();
  reason_option(lift);
  add_ladder_commands();
}

void CommandLine::add_ladder_commands() {
  CLI::App& blocks = group("block", "What may not be promoted again under a contract");
  client(blocks, "list", "List blocks", [this] { return list_resources(connection_, "blocks"); });
  CLI::App* lift = client(blocks, "lift", "Let the pair be promoted again",
                          [this] { return block_lift(connection_, subject_, reason_); });
  lift->add_option("id", subject_, "Block")->required();
  reason_option(lift);

  CLI::App& webhooks = group("webhook", "Endpoints that are told of events");
  client(webhooks, "list", "List endpoints and what became of their messages",
         [this] { return list_resources(connection_, "webhooks"); });
  CLI::App* test = client(webhooks, "test", "Send an endpoint a message of type driftgate.test",
                          [this] { return webhook_change(connection_, "test", subject_); });
  test->add_option("name", subject_, "Endpoint in the settings")->required();
  CLI::App* enable = client(webhooks, "enable", "Send to an endpoint again that answered 410",
                            [this] { return webhook_change(connection_, "enable", subject_); });
  enable->add_option("name", subject_, "Endpoint in the settings")->required();
}

void CommandLine::add_promote() {
  CLI::App* sub = client(app_, "promote", "Ask for a promotion", [this] {
    if (promote_.request_file.empty() &&
        (promote_.model.empty() || promote_.engine.empty() || promote_.contract.empty())) {
      fmt::print(stderr, "driftgate: promote needs MODEL, --engine and --contract, or --request FILE\n");
      return kExitUsage;
    }
    return promote(connection_, promote_);
  });
  sub->add_option("model", promote_.model, "Model");
  sub->add_option("--engine", promote_.engine, "Registered engine: the candidate");
  sub->add_option("--contract", promote_.contract, "Contract's digest, or its name for the newest");
  sub->add_option("--note", promote_.note, "Kept as evidence");
  sub->add_option("--fallback-engine", promote_.fallback_engine,
                  "Registered engine of the contract's fallback kernel, when several serve it");
  auto* request = sub->add_option("--request", promote_.request_file, "The request as a JSON file");
  sub->add_option("--idempotency-key", promote_.idempotency_key,
                  "The same key and request start one promotion");
  auto* wait = sub->add_flag("--wait", promote_.wait, "Follow it and exit with its outcome");
  sub->add_flag("--dry-run", promote_.dry_run, "Print the plan, change nothing")->excludes(wait);
  add_stage_capture_options(*sub, "numeric", promote_.numeric);
  add_stage_capture_options(*sub, "slice", promote_.slice);
  // The file says all of this: what stood beside it would be ignored.
  for (CLI::Option* option : sub->get_options()) {
    const std::string name = option->get_name();
    const bool said_there = name == "model" || name == "--engine" || name == "--contract" || name == "--note" ||
                            name == "--fallback-engine" || name.starts_with("--numeric-") ||
                            name.starts_with("--slice-");
    if (said_there) request->excludes(option);
  }
}

void CommandLine::add_following_commands() {
  CLI::App* status_sub = client(app_, "status", "All models, one model, or one promotion",
                                [this] { return status(connection_, subject_); });
  status_sub->add_option("subject", subject_, "Model or promotion (pr-…)");
  CLI::App* watch_sub = client(app_, "watch", "Follow a promotion and exit with its outcome",
                               [this] { return watch(connection_, subject_); });
  watch_sub->add_option("subject", subject_, "Promotion (pr-…), or model for its newest one")->required();
}

void CommandLine::add_interventions() {
  CLI::App* approval = client(app_, "approve", "Approve the step that waits",
                              [this] { return approve(connection_, subject_, evidence_digest_, reason_); });
  approval->add_option("promotion", subject_, "Promotion (pr-…)")->required();
  approval->add_option(
      "--evidence", evidence_digest_,
      "Digest of the evidence that you read; without it the promotion is printed as it is now and "
      "that is approved");
  reason_option(approval);
  CLI::App* why = client(app_, "explain", "Why a promotion stands where it stands, and what would change it",
                         [this] { return explain(connection_, subject_); });
  why->add_option("promotion", subject_, "Promotion (pr-…)")->required();
  CLI::App* other = client(app_, "what-if", "Decide stored evidence again under another contract",
                           [this] { return what_if(connection_, subject_, file_.file); });
  other->add_option("--promotion", subject_, "Promotion (pr-…)")->required();
  other->add_option("--contract", file_.file, "Contract file, YAML or JSON")->required();
  CLI::App* waiver = client(app_, "waive", "Waive an inconclusive clause; it takes two people",
                            [this] { return waive(connection_, waive_); });
  waiver->add_option("promotion", waive_.promotion, "Promotion (pr-…)")->required();
  waiver->add_option("--clause", waive_.clause, "Clause, family.id; without it the only one that is open");
  waiver->add_option("--evidence", waive_.evidence_digest,
                     "Digest of the evidence that you read; without it what is printed is waived");
  waiver->add_option("--reason", waive_.reason, "Why; kept as evidence")->required();
  const std::pair<const char*, const char*> interventions[] = {
      {"abort", "End a promotion: weight 0 first"},
      {"rollback", "Restore the version before it and set a hold"},
      {"pause", "Freeze weights; harm tests run on"},
      {"resume", "Go on after a pause"},
      {"redact", "Destroy what is kept of single requests of an ended promotion"}};
  for (const auto& [name, text] : interventions) {
    CLI::App* sub = client(app_, name, text, [this, action = std::string(name)] {
      return intervene(connection_, action, subject_, reason_);
    });
    sub->add_option("promotion", subject_, "Promotion (pr-…)")->required();
    reason_option(sub);
  }
}

void CommandLine::add_schedule_set(CLI::App& schedules, const char* name, const char* text, bool replace) {
  CLI::App* set = client(schedules, name, text,
                         [this, replace] { return schedule_set(connection_, schedule_, replace); });
  set->add_option("name", schedule_.name, "Its name")->required();
  set->add_option("--cron", schedule_.cron, "minute hour day-of-month month day-of-week")->required();
  set->add_option("--timezone", schedule_.zone, "IANA name; UTC without");
  set->add_option("--request", schedule_.request_file, "The promotion request, a JSON file")->required();
  set->add_option("--misfire", schedule_.misfire,
                  "What was missed while the daemon was away: skip or run_once")
      ->check(CLI::IsMember({"skip", "run_once"}));
  set->add_option("--grace", schedule_.grace_s, "Seconds that run_once may be late")
      ->check(CLI::Range(std::int64_t{0}, kMostOfAny));
  set->add_option("--if-running", schedule_.if_running,
                  "While a promotion of the model is on its way: skip or queue")
      ->check(CLI::IsMember({"skip", "queue"}));
}

void CommandLine::add_schedules() {
  CLI::App& schedules = group("schedule", "Ask for promotions by a cron expression");
  add_schedule_set(schedules, "create", "Create a schedule", false);
  add_schedule_set(schedules, "change", "Change a schedule; you count as requester from then on", true);
  client(schedules, "list", "List schedules", [this] { return schedule_list(connection_); });
  const auto named = [this, &schedules](const char* name, const char* text, Action action) {
    CLI::App* sub = client(schedules, name, text, std::move(action));
    sub->add_option("name", schedule_.name, "Schedule")->required();
    return sub;
  };
  named("show", "One schedule and what came of its fire times",
        [this] { return schedule_show(connection_, schedule_.name); });
  named("next", "Its next fire times",
        [this] { return schedule_next(connection_, schedule_.name, schedule_.count); })
      ->add_option("--count", schedule_.count, "How many")
      ->check(CLI::Range(1, 100));
  const std::pair<const char*, const char*> actions[] = {
      {"pause", "Stop it from firing"},
      {"resume", "Let it fire again; what it missed is not made up for"},
      {"delete", "Delete it"}};
  for (const auto& [name, text] : actions) {
    named(name, text,
          [this, action = std::string(name)] { return schedule_act(connection_, schedule_.name, action); });
  }
}

void CommandLine::add_evidence() {
  CLI::App* sub =
      client(app_, "evidence", "Read the log", [this] { return evidence(connection_, evidence_); });
  auto* seq = sub->add_option("seq", evidence_.seq, "One entry: its exact bytes");
  sub->add_option("--promotion", evidence_.promotion, "About this promotion");
  sub->add_option("--model", evidence_.model, "About this model");
  sub->add_option("--stage", evidence_.stage, "Of this stage");
  sub->add_option("--kind", evidence_.kind, "Of this kind");
  sub->add_option("--actor", evidence_.actor, "By this actor");
  sub->add_option("--clause", evidence_.clause, "Of this clause, family.id");
  sub->add_option("--verdict", evidence_.verdict, "With this verdict");
  sub->add_option("--limit", evidence_.limit, "At most so many entries")->check(CLI::Range(1, 1'000'000));
  sub->add_flag("--newest", evidence_.newest, "Newest first");
  for (const char* filter :
       {"--promotion", "--model", "--stage", "--kind", "--actor", "--clause", "--verdict", "--limit", "--newest"})
    seq->excludes(sub->get_option(filter));
}

CLI::App* CommandLine::audit(const std::string& name, const std::string& text,
                             int (*ask)(const ConnectionArgs&, const AuditArgs&)) {
  return client(*audit_, name, text, [this, ask] { return ask(connection_, audit_args_); });
}

void CommandLine::audit_times(CLI::App* sub) {
  sub->add_option("--from", audit_args_.from, "From this time on: 2026-01-31 or 2026-01-31T12:00:05, UTC");
  sub->add_option("--to", audit_args_.to, "Before this time");
}

void CommandLine::audit_filters(CLI::App* sub) {
  audit_times(sub);
  sub->add_option("--model", audit_args_.model, "About this model");
  sub->add_option("--promotion", audit_args_.promotion, "About this promotion");
  sub->add_option("--stage", audit_args_.stage, "Of this stage");
  sub->add_option("--checkpoint", audit_args_.checkpoint, "About this checkpoint, sha256:…");
  sub->add_option("--contract", audit_args_.contract, "Under this contract, sha256:…");
  sub->add_option("--kernel", audit_args_.kernel, "About this kernel, name or digest");
  sub->add_option("--kind", audit_args_.kind, "Of this kind");
  sub->add_option("--actor", audit_args_.actor, "By this actor");
  sub->add_option("--clause", audit_args_.clause, "Of this clause, family.id");
  sub->add_option("--verdict", audit_args_.verdict, "With this verdict");
}

void CommandLine::add_audit_queries() {
  const auto limited = [this](CLI::App* sub) {
    sub->add_option("--limit", audit_args_.limit, "At most so many")->check(CLI::Range(1, 100'000'000));
    return sub;
  };
  CLI::App* query = limited(audit("query", "Entries that match all given filters", audit_query));
  audit_filters(query);
  query->add_flag("--newest", audit_args_.newest, "Newest first");
  CLI::App* at = audit("at", "What served a model at a time, and why", audit_at);
  at->add_option("model", audit_args_.model, "Model")->required();
  at->add_option("time", audit_args_.at, "Time: 2026-01-31 or 2026-01-31T12:00:05, UTC")->required();
  CLI::App* population = limited(audit(
      "population", "Everything that came to serve in a time, with the proof that nothing is missing", audit_population));
  population->add_option("--from", audit_args_.from, "From this time on, UTC")->required();
  population->add_option("--to", audit_args_.to, "Before this time")->required();
  population->add_option("--model", audit_args_.model, "Of this model only");
  CLI::App* sample = audit("sample", "Entries drawn by a seed: anyone draws the same", audit_sample);
  audit_filters(sample);
  sample->add_option("--seed", audit_args_.seed, "Any text; choose it before you look")->required();
  sample->add_option("--count", audit_args_.count, "Entries")->check(CLI::Range(1, 1'000));
  sample->add_option("--size", audit_args_.size, "Draw from the first so many entries of the log")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  CLI::App* exceptions = limited(
      audit("exceptions", "Where people went around the usual way", audit_exceptions));
  audit_times(exceptions);
  exceptions->add_option("--model", audit_args_.model, "About this model");
  exceptions->add_option("--promotion", audit_args_.promotion, "About this promotion");
}

void CommandLine::add_audit_bundles() {
  CLI::App* write = client(*audit_, "export", "Write a bundle that anyone can verify",
                           [this] { return audit_export(connection_, audit_export_); });
  auto* promotion = write->add_option("--promotion", audit_export_.promotion, "Of this promotion (pr-…)");
  write->add_option("--from", audit_export_.from, "Of all entries from this time on, UTC")->excludes(promotion);
  write->add_option("--to", audit_export_.to, "And before this time")->excludes(promotion);
  write->add_option("--older-head", audit_export_.older_head, "A head that you kept: adds the proof that it is continued");
  write->add_option("--out", audit_export_.out, "New file; -: standard output")->required();
  write->add_flag("--with-tables", audit_export_.with_tables, "Add measurement tables and reports of a promotion")
      ->needs(promotion);
  CLI::App* verify = command(*audit_, "verify",
                             "Check bundles, or a stopped daemon's data folder, by the keys that you trust",
                             [this] { return audit_verify(audit_verify_, offline_, hooks_.verify_folder); });
  verify->add_option("bundles", audit_verify_.bundles, "Bundles");
  verify->add_option("--data-dir", offline_.data_dir, "Check this data folder as a whole instead of bundles");
  verify->add_option("--config", offline_.config, "The daemon's settings file, where its head or key lie elsewhere");
  verify->add_option("--trust", audit_verify_.trust,
                     "File with the keys that you trust; of a data folder its own without one");
  verify->add_option("--older-head", audit_verify_.older_head, "A head that you kept: the bundle must continue it");
  verify->add_flag("--running", audit_verify_.running, "Accept a promotion that has not ended in its bundle");
  verify->add_flag("--recorded-only", audit_verify_.recorded_only,
                   "Judge by the recorded numbers, without deciding again from measurement tables");
  verify->add_flag("--json", audit_verify_.json, "Print JSON");
  verify->footer(
      "Exit codes: 0 ok, 1 tampered, 2 fork or rollback, 3 untrusted key, 4 incomplete,\n"
      "5 a verdict does not follow from its evidence.");
}

/// A command on the data folder itself.
CLI::App* CommandLine::offline(CLI::App& parent, const std::string& name, const std::string& text, Action action) {
  CLI::App* sub = command(parent, name, text, std::move(action));
  sub->add_option("--config", offline_.config, "The daemon's settings file; without one the defaults hold");
  sub->add_option("--data-dir", offline_.data_dir, "Data folder, instead of the configured one");
  sub->add_flag("--json", offline_.json, "Print JSON");
  return sub;
}

void CommandLine::add_backups() {
  CLI::App* make = client(app_, "backup", "Copy the running daemon's database and signed head",
                          [this] { return backup(connection_, subject_); });
  make->add_option("--name", subject_, "Name of the backup's folder; without one the time");
  CLI::App* restore = offline(app_, "restore", "Put a backup in the place of a stopped daemon's database",
                              [this] { return hooks_.restore(offline_); });
  restore->add_option("backup", offline_.backup, "Folder of the backup")->required();
  restore->add_flag("--accept-loss", offline_.accept_loss,
                    "Although the published head is ahead of the backup; begins a new epoch of the log");
  restore->add_option("--reason", offline_.reason, "Why a loss is accepted; kept as evidence");
}

void CommandLine::add_keys() {
  CLI::App& keys = group("key", "Generate, rotate and list the daemon's keys");
  const auto key = [&](const char* name, const char* text) {
    return offline(keys, name, text, [this, action = std::string(name)] {
      offline_.action = action;
      return hooks_.key(offline_);
    });
  };
  CLI::App* generate = key("generate", "Write a new key into a file");
  generate->add_option("--use", offline_.use, "head, attestation or webhook")->required();
  generate->add_option("--out", offline_.out, "New file (0600)")->required();
  CLI::App* rotate = key("rotate", "Replace a stopped daemon's key; the log records it");
  rotate->add_option("--use", offline_.use, "head or attestation")->required();
  rotate->add_option("--reason", offline_.reason, "Why; kept as evidence")->required();
  key("list", "Keys that were in force, from which size of the log and until when");
  key("trust", "Print the trust file that auditors verify with");
}

void CommandLine::add_tokens() {
  CLI::App& tokens = group("token", "Issue, list and revoke tokens");
  CLI::App* issue =
      client(tokens, "issue", "Issue a token", [this] { return token_issue(connection_, token_); });
  issue->add_option("--name", token_.name, "Whose; one person is one name")->required();
  issue
      ->add_option("--scope", token_.scopes,
                   "viewer, promoter, approver, operator, auditor, admin; several are possible")
      ->required()
      ->delimiter(',');
  issue->add_option("--expires-in", token_.expires_in_s, "Seconds until it ends; without, never")
      ->check(CLI::Range(std::int64_t{1}, kMostOfAny));
  issue->add_option("--out", token_.out, "Write the bearer into this new file (0600) instead of printing it");
  client(tokens, "list", "List tokens", [this] { return token_list(connection_); });
  CLI::App* revoke =
      client(tokens, "revoke", "Revoke a token", [this] { return token_revoke(connection_, subject_); });
  revoke->add_option("id", subject_, "Token (tok-…)")->required();
  CLI::App* recover = offline(tokens, "recover", "Issue an admin token in a stopped daemon's data folder",
                              [this] { return hooks_.recover(offline_); });
  recover->add_option("--name", offline_.name, "Who recovers, and whose the token is; kept as evidence")->required();
  recover->add_option("--reason", offline_.reason, "Why; kept as evidence")->required();
  recover->add_option("--out", offline_.out, "New file for the bearer (0600); without one recovered.token in the "
                                             "data folder");
}

}  // namespace

int run(int argc, const char* const* argv, const Hooks& hooks) {
  return CommandLine(hooks).run(argc, argv);
}

}  // namespace driftgate::cli
