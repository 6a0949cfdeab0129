#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/drift/capture_options.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/service/plan_text.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;
using schema::Result;

Result<void> add_captures(json& request, const std::string& stage, const CaptureArgs& args) {
  const bool floor = !args.floor_train.empty() || !args.floor_inf.empty() || !args.floor_inf_adapter.empty();
  const bool any =
      !args.train.empty() || !args.inf.empty() || !args.adapter.empty() || !args.corpus.empty() || floor;
  if (!any) return {};
  // What is left out here may come from the model's recipe.
  if (!args.inf.empty() && !args.adapter.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("the {0} stage takes one of --{0}-inf and --{0}-adapter", stage));
  json captures = json::object();
  if (!args.train.empty()) captures["train"] = args.train;
  if (!args.inf.empty()) captures["inf"] = args.inf;
  if (!args.adapter.empty()) captures["inf"] = json{{"adapter", args.adapter}};
  if (!args.corpus.empty()) captures["corpus"] = args.corpus;
  if (!args.floor_train.empty()) captures["floor"]["train"] = args.floor_train;
  if (!args.floor_inf.empty()) captures["floor"]["inf"] = args.floor_inf;
  if (!args.floor_inf_adapter.empty()) captures["floor"]["inf"] = json{{"adapter", args.floor_inf_adapter}};
  request["captures"][stage] = std::move(captures);
  return {};
}

Result<std::string> request_body(const PromoteArgs& args) {
  if (!args.request_file.empty()) return read_file(args.request_file);
  json request{{"model", args.model}, {"engine", args.engine}};
  if (!args.contract.empty()) request["contract"] = args.contract;
  if (args.no_recipe) request["recipe"] = false;
  if (!args.note.empty()) request["note"] = args.note;
  if (!args.fallback_engine.empty()) request["fallback_engine"] = args.fallback_engine;
  if (args.accept_undecidable) request["accept_undecidable"] = true;
  TRY(add_captures(request, "numeric", args.numeric));
  TRY(add_captures(request, "slice", args.slice));
  return request.dump();
}

/// A change of a promotion by a person, and the promotion after it.
Result<int> change(const ConnectionArgs& connection, Client& client, const std::string& id,
                   const std::string& action, const json& body) {
  return print_answer(connection, client.post(promotion_path(id) + "/" + action, body.dump()),
                      promotion_text);
}

Result<int> start(const ConnectionArgs& connection, Client& client, const PromoteArgs& args,
                  const std::string& body) {
  if (args.dry_run)
    return print_answer(connection, client.post("/v1/promotions?dry_run=true", body), plan_text);
  const auto answer = client.post(
      "/v1/promotions", body, args.idempotency_key.empty() ? fresh_idempotency_key() : args.idempotency_key);
  const auto promotion = TRY(parse_answer(answer));
  if (args.wait || !connection.until.empty()) return watch(connection, text_of(promotion, "id"));
  return print_answer(connection, answer, [](const json& made) {
    return fmt::format("promotion {0} is {1}; follow it: driftgate watch {0}", text_of(made, "id"),
                       text_of(made, "state"));
  });
}

}  // namespace

void add_promote_options(CLI::App& sub, PromoteArgs& into) {
  sub.add_option("model", into.model, "Model");
  sub.add_option("--engine", into.engine, "Registered engine: the candidate");
  sub.add_option(
      "--contract", into.contract,
      "Contract: its digest, or its name for the newest registration (the model's recipe says which)");
  sub.add_flag("--no-recipe", into.no_recipe,
               "Take nothing from the model's recipe, which supplies what is not given");
  sub.add_option("--note", into.note, "Note; kept as evidence");
  sub.add_option("--fallback-engine", into.fallback_engine,
                 "Registered engine of the contract's fallback kernel, if several serve it");
  sub.add_flag("--accept-undecidable", into.accept_undecidable,
               "Start although an engine lacks an ability that a hard clause needs");
  auto* request = sub.add_option("--request", into.request_file, "The request as a JSON file");
  sub.add_option("--idempotency-key", into.idempotency_key,
                 "Requests with the same key and content start only one promotion");
  auto* wait = sub.add_flag("--wait", into.wait, "Follow it as 'watch' does and exit with its outcome");
  sub.add_flag("--dry-run", into.dry_run, "Print the plan and change nothing")->excludes(wait);
  add_stage_capture_options(sub, "numeric", into.numeric);
  add_stage_capture_options(sub, "slice", into.slice);
  // The file contains the whole request: what these options say would be ignored.
  for (CLI::Option* option : sub.get_options()) {
    const std::string name = option->get_name();
    const bool in_file = name == "model" || name == "--engine" || name == "--contract" || name == "--note" ||
                         name == "--fallback-engine" || name == "--no-recipe" ||
                         name == "--accept-undecidable" || name.starts_with("--numeric-") ||
                         name.starts_with("--slice-");
    if (in_file) request->excludes(option);
  }
}

int promote(const ConnectionArgs& connection, const PromoteArgs& args) {
  const auto body = request_body(args);
  if (!body) return report_offline(body.error());
  return with_daemon(connection, [&](Client& client) { return start(connection, client, args, *body); });
}

namespace {

/// Prints what waits for an approval and, where nobody has said that this is fine, has it confirmed: asks on
/// a terminal; elsewhere a model's name does not do, since it may stand for another promotion or step by now
/// than what was read. Returns the digest of the evidence.
Result<std::string> read_evidence(const ConnectionArgs& connection, const ApproveArgs& args,
                                  const std::string& id, const json& seen) {
  const std::string digest = text_of(member_of(seen, "approval"), "evidence_digest");
  if (digest.empty())
    return fail(ErrorCode::conflict,
                fmt::format("promotion {} is not waiting for approval: it is {}", id, progress_line(seen)));
  if (!connection.json) print(promotion_text(seen));
  if (args.yes) return digest;
  if (!connection.json && is_conversation()) {
    if (confirmed(fmt::format("Approve this step of promotion {}? [y/N] ", id))) return digest;
    return fail(ErrorCode::conflict, "nothing was approved");
  }
  if (is_promotion_id(args.promotion)) return digest;
  return fail(
      ErrorCode::conflict,
      fmt::format(
          "nothing was approved: say what you read by its digest (of promotion {} it is --evidence {} "
          "now), or approve what is found by --yes",
          id, digest));
}

}  // namespace

int approve(const ConnectionArgs& connection, const ApproveArgs& args) {
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const std::string id = TRY(find_awaiting_promotion(client, args.promotion));
    std::string digest = args.evidence_digest;
    if (digest.empty()) {
      const auto seen = TRY(parse_answer(client.get(promotion_path(id))));
      digest = TRY(read_evidence(connection, args, id, seen));
    }
    return change(connection, client, id, "approve", {{"evidence_digest", digest}, {"reason", args.reason}});
  });
}

int waive(const ConnectionArgs& connection, const WaiveArgs& args) {
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto seen = TRY(parse_answer(client.get(promotion_path(args.promotion))));
    const json waiver = member_of(seen, "waiver");
    const json clauses = member_of(waiver, "clauses");
    std::string names;
    for (const json& open : clauses) names += (names.empty() ? "" : ", ") + text_of(open, "clause");
    if (args.clause.empty() && names.empty()) {
      return fail(ErrorCode::conflict, fmt::format("promotion {} has no clause to waive: it is {}",
                                                   args.promotion, progress_line(seen)));
    }
    if (args.clause.empty() && clauses.size() > 1)
      return fail(ErrorCode::conflict, "several clauses are inconclusive; name one with --clause: " + names);
    const bool as_printed = args.evidence_digest.empty();
    if (as_printed && !connection.json) print(promotion_text(seen));
    return change(
        connection, client, args.promotion, "waive",
        {{"clause", args.clause.empty() ? names : args.clause},
         {"evidence_digest", as_printed ? text_of(waiver, "evidence_digest") : args.evidence_digest},
         {"reason", args.reason}});
  });
}

int intervene(const ConnectionArgs& connection, const std::string& action, const std::string& promotion,
              const std::string& reason) {
  return with_daemon(connection, [&](Client& client) {
    return change(connection, client, promotion, action, {{"reason", reason}});
  });
}

}  // namespace driftgate::cli
