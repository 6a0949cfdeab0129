#include "daemon/cli/command_line.hpp"

#include <fmt/core.h>

#include "daemon/cli/command_parts.hpp"
#include "daemon/cli/command_table.hpp"

namespace driftgate::cli {
namespace {

/// The headings of the help, which lists them in the order in which the first command of each was added.
const std::pair<const char*, std::vector<const char*>> kGroups[] = {
    {"Set up", {"init", "dev", "doctor", "apply", "recipe"}},
    {"Promote",
     {"promote", "status", "watch", "approve", "explain", "what-if", "waive", "abort", "rollback", "pause",
      "resume", "redact", "schedule", "jobs"}},
    {"Measure, and write contracts", {"drift", "capture", "contract"}},
    {"What a daemon knows", {"kernel", "engine", "model", "block", "webhook"}},
    {"Record and keys", {"evidence", "audit", "backup", "restore", "key", "token"}},
    {"The daemon and its parts",
     {"serve", "router", "worker", "router-stop", "drain", "haproxy", "settings", "openapi", "commands",
      "version"}},
};

void list_in_groups(CLI::App& app) {
  for (const auto& [title, commands] : kGroups)
    for (const char* const name : commands) app.get_subcommand(name)->group(title);
}

}  // namespace

CommandLine::CommandLine(const Hooks& hooks) : hooks_(hooks) {
  app_.description("May this checkpoint, served by this inference kernel, replace what is served now?");
  app_.require_subcommand(1);
  app_.footer(
      "Exit codes: 0 pass or succeeded, 1 violated or rejected, 3 inconclusive or expired, 4 error,\n"
      "5 aborted or superseded, 64 usage, 69 daemon unreachable, 74 I/O, 77 not permitted.");
  add_setup();
  add_recipes_and_apply();
  add_promote();
  add_following_commands();
  add_interventions();
  add_schedules();
  add_job_commands(
      group("jobs", "Jobs of promotions, here or on a cluster"), job_, connection_,
      [this](auto& jobs, auto name, auto text, Action run) { return client(jobs, name, text, {}, run); });
  add_offline_commands();
  add_registry_commands();
  add_model_commands();
  add_evidence();
  audit_ =
      &group("audit", "Query the log: what served, on what evidence, and whether the record is complete");
  add_audit_queries();
  add_audit_bundles();
  add_backups();
  add_keys();
  add_key_copy();
  add_tokens();
  add_daemon_commands();
  list_in_groups(app_);
}

int CommandLine::run(int argc, const char* const* argv) {
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

void CommandLine::add_daemon_commands() {
  CLI::App* serve = command(app_, "serve", "Run the daemon", {}, [this] { return hooks_.serve(serve_); });
  serve->add_option("--config", serve_.config, "Settings file; the defaults if not given");
  serve->add_option("--listen", serve_.listen, "Address and port of the API, instead of the configured one");
  serve->add_option("--data-dir", serve_.data_dir, "Data folder, instead of the configured one");
  serve->add_flag("--check", serve_.check, "Say whether it could start with these settings; start nothing");
  command(app_, "router", "Run the embedded router (the daemon starts it)", {}, [] { return kExitUsage; });
  command(app_, "worker", "Run the job in a folder (the daemon starts it)", {}, [] { return kExitUsage; });
  CLI::App* settings = command(app_, "settings", "Print every setting with its default and its documentation",
                               {}, [this] { return hooks_.settings(markdown_); });
  settings->add_flag("--markdown", markdown_, "Print the reference page");
  command(app_, "openapi", "Print the API's OpenAPI document", {}, [this] { return hooks_.openapi(); });
  describe_direct_commands(app_);
  command(app_, "commands", "Print every command with its options as JSON", {}, [this] {
    fmt::print("{}\n", command_table(app_));
    return kExitOk;
  });
  command(app_, "version", "Print the version", {}, [this] {
    fmt::print("driftgate {}\n", hooks_.version);
    return kExitOk;
  });
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
    if (promote_.request_file.empty() && (promote_.model.empty() || promote_.engine.empty())) {
      fmt::print(stderr, "driftgate: promote needs MODEL and --engine, or --request FILE\n");
      return kExitUsage;
    }
    return promote(connection_, promote_);
  });
  add_promote_options(*sub, promote_);
  add_plain_option(*sub, connection_);
  add_until_option(*sub, connection_);
}

void CommandLine::add_following_commands() {
  CLI::App* status_sub = client(app_, "status", "Show all models, one model, or one promotion", {},
                                [this] { return status(connection_, subject_); });
  status_sub->add_option("subject", subject_, "Model or promotion (pr-…)");
  add_plain_option(*status_sub, connection_);
  CLI::App* watch_sub = client(app_, "watch", "Follow a promotion and exit with its outcome",
                               {{"subject", subject_, "Promotion (pr-…), or model for its current one"}},
                               [this] { return watch(connection_, subject_); });
  add_plain_option(*watch_sub, connection_);
  add_until_option(*watch_sub, connection_);
}

void CommandLine::add_interventions() {
  CLI::App* approval =
      client(app_, "approve", "Approve the step that waits for approval",
             {{"promotion", approve_.promotion, "Promotion (pr-…), or model for the one that waits"},
              reason(approve_.reason)},
             [this] { return approve(connection_, approve_); });
  auto* evidence = approval->add_option("--evidence", approve_.evidence_digest,
                                        "Digest of the evidence that you read; if not given, the promotion "
                                        "is printed and, on a terminal, you are "
                                        "asked; a model's name needs this option elsewhere");
  approval->add_flag("--yes", approve_.yes, "Approve what is printed without being asked")
      ->excludes(evidence);
  client(app_, "explain", "Explain the state of a promotion and what would change it",
         {{"promotion", subject_, "Promotion (pr-…), or model for its current one"}},
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

void CommandLine::add_schedules() {
  CLI::App& schedules = group("schedule", "Request promotions by a cron expression");
  const auto set = [&](const char* name, const char* text, bool replace) {
    add_schedule_options(*client(schedules, name, text, {{"name", schedule_.name, "Its name"}},
                                 [this, replace] { return schedule_set(connection_, schedule_, replace); }),
                         schedule_, replace);
  };
  set("create", "Create a schedule", false);
  set("change", "Change what is given of a schedule; from then on you count as the requester", true);
  add_report_options(*client(schedules, "report", "Show what came of each fire time of all schedules", {},
                             [this] { return schedule_report(connection_, schedule_); }),
                     schedule_);
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

int run(int argc, const char* const* argv, const Hooks& hooks) {
  return CommandLine(hooks).run(argc, argv);
}

}  // namespace driftgate::cli
