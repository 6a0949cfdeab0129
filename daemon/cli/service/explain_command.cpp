#include <fmt/format.h>

#include <map>
#include <vector>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/net/url.hpp"
#include "schema/json.hpp"
#include "schema/verdict.hpp"
#include "stages/report/advice.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ClauseVerdict;
using schema::Verdict;

/// The verdicts of a stage's report; none when the stage has no report yet.
std::vector<ClauseVerdict> verdicts_of(Client& client, const std::string& id, const std::string& stage) {
  std::vector<ClauseVerdict> verdicts;
  const auto answer =
      parse_answer(client.get(promotion_path(id) + "/stages/" + net::percent_encode(stage) + "/report"));
  if (!answer) return verdicts;
  for (const json& item : member_of(*answer, "verdicts")) {
    auto verdict = schema::clause_verdict_from_json(item.dump());
    if (verdict) verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

std::string decided_words(const ClauseVerdict& verdict) {
  std::string text = fmt::format("α = {:.4g}", verdict.alpha);
  if (!verdict.method.empty()) text = verdict.method + ", " + text;
  if (verdict.approximate) text += ", approximate";
  if (verdict.no_harm_only) text += ", passes because no harm is shown";
  return text;
}

std::string clause_text(const ClauseVerdict& verdict) {
  const std::string slice = schema::slice_text(verdict.where);
  std::string text = fmt::format("  {} {}{}{}\n", schema::to_string(verdict.verdict), verdict.clause,
                                 slice.empty() ? "" : " on " + slice,
                                 verdict.severity == schema::Severity::soft ? " (soft, does not block)" : "");
  text += fmt::format("      {}\n      decided by {}\n", verdict.message, decided_words(verdict));
  if (const std::string change = stages::advice(verdict); !change.empty())
    text += fmt::format("      to pass: {}\n", change);
  return text;
}

std::string stage_text(const json& run, const std::vector<ClauseVerdict>& verdicts) {
  std::string text = fmt::format("\n{} (attempt {}): {}\n", text_of(run, "stage"),
                                 base::integer_at(run, "attempt", 1), text_of(run, "state"));
  std::map<Verdict, std::size_t> counts;
  for (const ClauseVerdict& verdict : verdicts) ++counts[verdict.verdict];
  for (const Verdict kind : {Verdict::violated, Verdict::error, Verdict::inconclusive}) {
    for (const ClauseVerdict& verdict : verdicts)
      if (verdict.verdict == kind) text += clause_text(verdict);
  }
  if (counts[Verdict::pass] > 0) text += fmt::format("  {} clauses pass\n", counts[Verdict::pass]);
  if (!verdicts.empty()) return text;
  // Without a report the summary of the promotion's view is what there is.
  for (const json& open : member_of(member_of(run, "summary"), "open")) {
    text += fmt::format("  {} {}: {}\n", text_of(open, "verdict"), text_of(open, "clause"),
                        text_of(open, "message"));
  }
  return text;
}

std::string head_text(const json& promotion) {
  const json candidate = member_of(promotion, "candidate");
  std::string text =
      fmt::format("Promotion {} asks whether {} may serve {} under the contract {}.\nIt is {}",
                  text_of(promotion, "id"), text_of(candidate, "engine"), text_of(promotion, "model"),
                  text_of(promotion, "contract_name"), text_of(promotion, "state"));
  const std::string reason = text_of(promotion, "reason");
  text += reason.empty() ? ".\n" : fmt::format(": {}\n", reason);
  const std::string recipe = recipe_line(promotion);
  if (!recipe.empty()) text += fmt::format("From the model's recipe it took {}.\n", recipe);
  const std::string traffic = text_of(promotion, "traffic");
  text += traffic == "never_exposed" ? "No user was served by it.\n"
          : traffic == "reverted"    ? "Users were served by it and are no more.\n"
                                     : "Users are served by it.\n";
  return text + canary_waits_text(promotion);
}

/// The version of the rules by which a stage was decided, or is now.
std::int64_t rules_of(const json& stage, const char* when) {
  return base::integer_at(member_of(stage, "rules"), when, schema::kFirstRules);
}

std::string what_if_text(const json& answer) {
  std::string out;
  for (const json& stage : member_of(answer, "stages")) {
    out +=
        fmt::format("{} (attempt {}): {} → {}\n", text_of(stage, "stage"),
                    base::integer_at(stage, "attempt", 1), text_of(stage, "before"), text_of(stage, "after"));
    for (const json& change : member_of(stage, "changes")) {
      const std::string slice = text_of(change, "slice");
      const std::string before = text_of(change, "before");
      const std::string after = text_of(change, "after");
      out += fmt::format("  {}{}: {} → {}\n      {}\n", text_of(change, "clause"),
                         slice.empty() ? "" : " on " + slice, before.empty() ? "not decided" : before,
                         after.empty() ? "not required" : after, text_of(change, "message"));
    }
    out +=
        fmt::format("  {} verdicts are the same; decided by version {} of the rules, before by version {}\n",
                    base::integer_at(stage, "same"), rules_of(stage, "after"), rules_of(stage, "before"));
  }
  for (const json& stage : member_of(answer, "not_begun"))
    out += fmt::format("{}: required, but the promotion did not reach it\n", plain_text(stage));
  return out + fmt::format("Under this contract: {}. Nothing was run and nothing has changed.\n",
                           text_of(answer, "verdict"));
}

}  // namespace

int explain(const ConnectionArgs& connection, const std::string& subject) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const std::string id = TRY(find_promotion(client, subject));
    const auto promotion = TRY(parse_answer(client.get(promotion_path(id))));
    std::string text = head_text(promotion);
    json stages = json::array();
    for (const json& run : member_of(promotion, "stages")) {
      const auto verdicts = verdicts_of(client, id, text_of(run, "stage"));
      text += stage_text(run, verdicts);
      json clauses = json::array();
      for (const ClauseVerdict& verdict : verdicts) {
        json item = json::parse(schema::to_json(verdict));
        item["to_pass"] = stages::advice(verdict);
        clauses.push_back(std::move(item));
      }
      stages.push_back({{"stage", text_of(run, "stage")},
                        {"state", text_of(run, "state")},
                        {"verdicts", std::move(clauses)}});
    }
    print(connection.json
              ? schema::canonical_json({{"promotion", promotion}, {"stages", std::move(stages)}}) + "\n"
              : text);
    return kExitOk;
  });
}

int what_if(const ConnectionArgs& connection, const std::string& promotion, const std::string& contract) {
  const auto text = read_file(contract);
  if (!text) return report(text.error());
  const std::size_t begin = text->find_first_not_of(" \t\r\n");
  const bool is_json = begin != std::string::npos && (*text)[begin] == '{';
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const auto answer = client.post(promotion_path(promotion) + "/what-if", *text, {},
                                    is_json ? "application/json" : "application/yaml");
    TRY(print_answer(connection, answer, what_if_text));
    const auto value = TRY(parse_answer(answer));
    const auto verdict = schema::verdict_from_name(text_of(value, "verdict"));
    return exit_code_of(verdict.value_or(Verdict::error));
  });
}

}  // namespace driftgate::cli
