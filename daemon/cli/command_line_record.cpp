#include "daemon/cli/command_parts.hpp"

namespace driftgate::cli {

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
  write->add_option("--from", audit_export_.from, "Of all entries from this time on, UTC")
      ->excludes(promotion);
  write->add_option("--to", audit_export_.to, "And before this time")->excludes(promotion);
  write->add_option("--older-head", audit_export_.older_head,
                    "A head that you kept: adds the proof that the log continues it");
  write->add_option("--out", audit_export_.out, "New file (-: standard output)")->required();
  write
      ->add_flag("--with-tables", audit_export_.with_tables,
                 "Add measurement tables and reports of a promotion")
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
  verify->add_option("--older-head", audit_verify_.older_head,
                     "A head that you kept: the bundle must continue it");
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

}  // namespace driftgate::cli
