#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/service/client.hpp"

namespace CLI {
class App;
}

namespace driftgate::cli {

// Each command prints its result to standard output, its failure to standard error, and returns the exit
// code.

struct RegisterFileArgs {
  std::string file;
};
int contract_register(const ConnectionArgs& connection, const RegisterFileArgs& args);
int kernel_register(const ConnectionArgs& connection, const RegisterFileArgs& args);

struct EngineArgs {
  std::string name, url, kernel, checkpoint_uri, checkpoint_digest;
  std::string key_file, key_header, ca_file;  ///< on the daemon's machine
  std::uint64_t max_requests_per_second = 0;  ///< 0: not stated
};
int engine_register(const ConnectionArgs& connection, const EngineArgs& args);

struct ModelArgs {
  std::string name, engine, reason;
};
int model_create(const ConnectionArgs& connection, const ModelArgs& args);
int model_lift_hold(const ConnectionArgs& connection, const std::string& name, const std::string& reason);

int block_lift(const ConnectionArgs& connection, const std::string& id, const std::string& reason);
/// `action` is test or enable.
int webhook_change(const ConnectionArgs& connection, const std::string& action, const std::string& name);

/// Lists "blocks", "webhooks", "contracts", "kernels", "engines" or "models".
int list_resources(const ConnectionArgs& connection, const std::string& collection);

/// Captures of one stage on the command line.
struct CaptureArgs {
  std::string train, inf, adapter, corpus;
  std::string floor_train, floor_inf, floor_inf_adapter;  ///< second captures: noise floors
};
struct PromoteArgs {
  std::string model, engine, contract, note, fallback_engine;
  bool accept_undecidable = false;
  bool no_recipe = false;  ///< nothing is taken from the model's recipe
  CaptureArgs numeric, slice;
  std::string request_file;  ///< the request's JSON instead of the options
  std::string idempotency_key;
  bool wait = false, dry_run = false;
};
void add_promote_options(CLI::App& sub, PromoteArgs& into);
int promote(const ConnectionArgs& connection, const PromoteArgs& args);

/// --until, for commands that follow a promotion.
void add_until_option(CLI::App& sub, ConnectionArgs& into);
/// --plain, for commands that draw a screen where standard output is a terminal.
void add_plain_option(CLI::App& sub, ConnectionArgs& into);

/// Of all models if `subject` is empty, else of a model or a promotion. All models on a terminal: a screen of one
/// line each, those that need people first.
int status(const ConnectionArgs& connection, const std::string& subject);
/// Why a promotion is in its state, clause by clause, and what would have to change.
int explain(const ConnectionArgs& connection, const std::string& subject);
/// The stored evidence of a promotion decided again under the contract of a file. Exits with the verdict.
int what_if(const ConnectionArgs& connection, const std::string& promotion, const std::string& contract);
/// Follows a promotion (or the one that has a model now, else its newest) to its end and exits with its
/// outcome: on a terminal by a screen that is drawn again in place, else by a line for each event.
int watch(const ConnectionArgs& connection, const std::string& subject);

/// Without a digest, prints the promotion and approves what it printed: on a terminal after a question;
/// elsewhere with `yes`, or when `promotion` is no model's name.
struct ApproveArgs {
  std::string promotion, evidence_digest, reason;
  bool yes = false;
};
int approve(const ConnectionArgs& connection, const ApproveArgs& args);
struct WaiveArgs {
  std::string promotion, clause, evidence_digest, reason;
};
/// Without a clause, waives the only open one; without a digest, prints the promotion and waives on what it
/// printed.
int waive(const ConnectionArgs& connection, const WaiveArgs& args);
/// `action` is abort, rollback, pause, resume or redact.
int intervene(const ConnectionArgs& connection, const std::string& action, const std::string& promotion,
              const std::string& reason);

/// Makes a backup of the running daemon; without a name it is named by the time.
int backup(const ConnectionArgs& connection, const std::string& name);

struct TokenArgs {
  std::string name;
  std::vector<std::string> scopes;
  std::uint64_t expires_in_s = 0;  ///< 0: never
  std::string out;                 ///< file for the bearer (0600); empty: standard output
};
int token_issue(const ConnectionArgs& connection, const TokenArgs& args);
int token_list(const ConnectionArgs& connection);
int token_revoke(const ConnectionArgs& connection, const std::string& id);

}  // namespace driftgate::cli
