#include "daemon/cli/live/needs.hpp"

#include <fmt/core.h>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/text.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;

constexpr std::size_t kMostWaived = 3;  // clauses whose command is shown
const std::string kWhy = "--reason …";

/// The names that a command line needs are in the daemon's alphabet; what is not could be shell text.
std::string word(const std::string& text) {
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == ':' || c == '/' || c == '=';
    if (!plain) return "…";
  }
  return text.empty() ? "…" : text;
}

Need to_type(std::string text, const json& promotion, const std::string& action) {
  const std::vector<std::string> words{"driftgate " + action, word(shown(promotion, "id")), kWhy};
  return {std::move(text), words, words};
}

/// "(1 of 2: ada)" where more than one person is asked for.
std::string given_words(const json& asked, std::int64_t needed) {
  if (needed <= 1) return "";
  std::string names;
  const json given = member_of(asked, "given");
  for (const json& one : given.is_array() ? given : json::array())
    names += (names.empty() ? ": " : ", ") + shown(one, "who");
  return fmt::format(" ({} of {}{})", given.is_array() ? given.size() : 0, needed, names);
}

Need approval_need(const json& promotion, std::string text) {
  const json approval = member_of(promotion, "approval");
  const auto needed = base::integer_at(approval, "needed");
  if (text.empty())
    text = fmt::format("step {} needs an approval{}", base::integer_at(approval, "step") + 1,
                       given_words(approval, needed));
  Need need = to_type(std::move(text), promotion, "approve");
  const std::string digest = shown(approval, "evidence_digest");
  if (!digest.empty()) need.command = {need.brief[0], need.brief[1], "--evidence", word(digest), kWhy};
  return need;
}

void add_waivers(const json& promotion, const std::string& text, std::vector<Need>& needs) {
  const json waiver = member_of(promotion, "waiver");
  const json clauses = member_of(waiver, "clauses");
  if (!clauses.is_array()) return;
  const std::string digest = shown(waiver, "evidence_digest");
  for (std::size_t i = 0; i < clauses.size() && i < kMostWaived; ++i) {
    const std::string clause = shown(clauses[i], "clause");
    const std::string own = clause + " is inconclusive and can be waived" +
                            given_words(clauses[i], base::integer_at(waiver, "needed"));
    // What the daemon says is said once, of all of them.
    Need need = to_type(text.empty() ? own : i == 0 ? text : "", promotion, "waive");
    need.brief = {need.brief[0], need.brief[1], "--clause", word(clause), kWhy};
    need.command = {need.brief[0], need.brief[1], "--clause", word(clause), "--evidence", word(digest), kWhy};
    needs.push_back(std::move(need));
  }
}

std::vector<Need> told_needs(const json& promotion, const json& told) {
  std::vector<Need> needs;
  for (const json& one : told) {
    const std::string action = shown(one, "action");
    const std::string text = shown(one, "text");
    if (action == "approve") {
      needs.push_back(approval_need(promotion, text));
    } else if (action == "waive" && !member_of(promotion, "waiver").is_null()) {
      add_waivers(promotion, text, needs);
    } else if (action == "resume" || action == "rollback" || action == "abort" || action == "pause" ||
               action == "waive") {
      needs.push_back(to_type(text, promotion, action));
    } else if (action == "lift_hold" || action == "lift-hold") {
      const std::vector<std::string> words{"driftgate model lift-hold", word(shown(promotion, "model")),
                                           kWhy};
      needs.push_back({text, words, words});
    } else {
      needs.push_back({text, {}, {}});
    }
  }
  return needs;
}

}  // namespace

std::vector<Need> needs_of(const json& promotion) {
  const json told = member_of(promotion, "needs");
  if (told.is_array()) return told_needs(promotion, told);
  std::vector<Need> needs;
  if (!member_of(promotion, "approval").is_null()) needs.push_back(approval_need(promotion, ""));
  add_waivers(promotion, "", needs);
  const std::string state = shown(promotion, "state");
  if (state == "inconclusive") needs.push_back(to_type("or measure again", promotion, "resume"));
  if (state == "paused") needs.push_back(to_type("it is paused", promotion, "resume"));
  return needs;
}

}  // namespace driftgate::cli::live
