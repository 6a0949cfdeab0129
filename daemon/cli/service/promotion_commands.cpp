#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/plan_text.hpp"
#include "daemon/net/url.hpp"

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
  if (args.train.empty() || args.inf.empty() == args.adapter.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("the {0} stage needs --{0}-train and one of --{0}-inf and --{0}-adapter", stage));
  json captures{{"train", args.train}};
  captures["inf"] = args.inf.empty() ? json{{"adapter", args.adapter}} : json(args.inf);
  if (!args.corpus.empty()) captures["corpus"] = args.corpus;
  if (!args.floor_train.empty()) captures["floor"]["train"] = args.floor_train;
  if (!args.floor_inf.empty()) captures["floor"]["inf"] = args.floor_inf;
  if (!args.floor_inf_adapter.empty()) captures["floor"]["inf"] = json{{"adapter", args.floor_inf_adapter}};
  request["captures"][stage] = std::move(captures);
  return {};
}

Result<std::string> request_body(const PromoteArgs& args) {
  if (!args.request_file.empty()) return read_file(args.request_file);
  json request{{"model", args.model}, {"engine", args.engine}, {"contract", args.contract}};
  if (!args.note.empty()) request["note"] = args.note;
  if (!args.fallback_engine.empty()) request["fallback_engine"] = args.fallback_engine;
  TRY(add_captures(request, "numeric", args.numeric));
  TRY(add_captures(request, "slice", args.slice));
  return request.dump();
}

std::string promotion_path(const std::string& id) {
  return "/v1/promotions/" + net::percent_encode(id);
}

int print_promotion(const ConnectionArgs& connection, const Result<std::string>& answer) {
  const auto promotion = parse_answer(answer);
  if (!promotion) return report(promotion.error());
  if (connection.json)
    print_line(*answer);
  else
    print(promotion_text(*promotion));
  return kExitOk;
}

}  // namespace

int promote(const ConnectionArgs& connection, const PromoteArgs& args) {
  const auto body = request_body(args);
  if (!body) {
    report(body.error());
    return body.error().code == ErrorCode::invalid_argument ? kExitUsage : exit_code_of(body.error().code);
  }
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  if (args.dry_run) {
    const auto answer = client->post("/v1/promotions?dry_run=true", *body);
    const auto plan = parse_answer(answer);
    if (!plan) return report(plan.error());
    print(connection.json ? *answer + "\n" : plan_text(*plan));
    return kExitOk;
  }
  const auto answer = client->post(
      "/v1/promotions", *body, args.idempotency_key.empty() ? fresh_idempotency_key() : args.idempotency_key);
  const auto promotion = parse_answer(answer);
  if (!promotion) return report(promotion.error());
  const std::string id = text_of(*promotion, "id");
  if (args.wait) return watch(connection, id);
  print_line(connection.json ? *answer
                             : fmt::format("promotion {} is {}; follow it: driftgate watch {}", id,
                                           text_of(*promotion, "state"), id));
  return kExitOk;
}

int approve(const ConnectionArgs& connection, const std::string& promotion,
            const std::string& evidence_digest, const std::string& reason) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  std::string digest = evidence_digest;
  if (digest.empty()) {
    const auto seen = parse_answer(client->get(promotion_path(promotion)));
    if (!seen) return report(seen.error());
    digest = text_of(member_of(*seen, "approval"), "evidence_digest");
    if (digest.empty())
      return report(
          {ErrorCode::conflict,
           fmt::format("promotion {} waits for no approval: it is {}", promotion, progress_line(*seen)),
           {},
           nullptr});
    if (!connection.json) print(promotion_text(*seen));
  }
  const json body{{"evidence_digest", digest}, {"reason", reason}};
  return print_promotion(connection, client->post(promotion_path(promotion) + "/approve", body.dump()));
}

int waive(const ConnectionArgs& connection, const WaiveArgs& args) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto seen = parse_answer(client->get(promotion_path(args.promotion)));
  if (!seen) return report(seen.error());
  const json waiver = member_of(*seen, "waiver");
  const json clauses = member_of(waiver, "clauses");
  std::string clause = args.clause;
  if (clause.empty() && clauses.size() == 1) clause = text_of(clauses.front(), "clause");
  std::string names;
  for (const json& open : clauses) names += (names.empty() ? "" : ", ") + text_of(open, "clause");
  if (clause.empty()) {
    return report({ErrorCode::conflict,
                   names.empty() ? fmt::format("promotion {} has no clause to waive: it is {}",
                                               args.promotion, progress_line(*seen))
                                 : "several clauses are inconclusive, name one by --clause: " + names,
                   {},
                   nullptr});
  }
  const bool as_printed = args.evidence_digest.empty();
  if (as_printed && !connection.json) print(promotion_text(*seen));
  const json body{{"clause", clause},
                  {"evidence_digest", as_printed ? text_of(waiver, "evidence_digest") : args.evidence_digest},
                  {"reason", args.reason}};
  return print_promotion(connection, client->post(promotion_path(args.promotion) + "/waive", body.dump()));
}

int intervene(const ConnectionArgs& connection, const std::string& action, const std::string& promotion,
              const std::string& reason) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  return print_promotion(
      connection, client->post(promotion_path(promotion) + "/" + action, json{{"reason", reason}}.dump()));
}

}  // namespace driftgate::cli
