#include "schema/contract/contract_diff.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace driftgate::schema {
namespace {

std::string shipped(const std::string& name) {
  std::ifstream file("configs/contracts/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

Contract parse(const std::string& text) {
  const ContractReport report = parse_contract(text, "contract.yaml");
  REQUIRE_MESSAGE(report.contract.has_value(), format_faults(report.faults, "contract.yaml"));
  return *report.contract;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

/// The only change between the profile and an edited copy.
ContractChange only_change(const std::string& from, const std::string& to) {
  const std::string text = shipped("bf16-dense.yaml");
  const auto changes = contract_diff(parse(text), parse(replaced(text, from, to)));
  REQUIRE_MESSAGE(changes.size() == 1, to_text(changes));
  return changes[0];
}

TEST_CASE("a contract does not differ from itself, whatever it is called") {
  const std::string text = shipped("bf16-dense.yaml");
  CHECK(contract_diff(parse(text), parse(text)).empty());
  CHECK(contract_diff(parse(text), parse(replaced(text, "name: bf16-dense", "name: other"))).empty());
  CHECK(to_text(std::vector<ContractChange>{}) == "No difference in what is demanded.\n");
}

TEST_CASE("a smaller max is stricter and a larger one looser") {
  const auto stricter = only_change("max: 1e-3", "max: 5e-4");
  CHECK(stricter.kind == ChangeKind::stricter);
  CHECK(stricter.where == "numerical.kl max");
  CHECK(stricter.before == "0.001");
  CHECK(stricter.after == "0.0005");
  CHECK(only_change("max: 1e-3", "max: 2e-3").kind == ChangeKind::looser);
}

TEST_CASE("what a larger value means depends on the setting") {
  CHECK(only_change("min_sequences: 120", "min_sequences: 100").kind == ChangeKind::looser);
  CHECK(only_change("bake: 5m", "bake: 10m").kind == ChangeKind::stricter);
  CHECK(only_change("revert_after: 2m", "revert_after: 3m").kind == ChangeKind::looser);
  CHECK(only_change("alpha_advance: 0.05", "alpha_advance: 0.01").kind == ChangeKind::stricter);
  CHECK(only_change("alpha: 0.05", "alpha: 0.01").kind == ChangeKind::changed);
  CHECK(only_change("{ref: inf-kernel}", "{ref: other-kernel}").kind == ChangeKind::changed);
}

TEST_CASE(
    "a clause with a least size of slices of its own is only changed, since the general one may be either") {
  const std::string clause = "max: 0.04, slices: [monitored]";
  CHECK(only_change(clause, clause + ", min_sequences: 90").kind == ChangeKind::changed);
  const std::string text = replaced(shipped("bf16-dense.yaml"), clause, clause + ", min_sequences: 90");
  const auto changes =
      contract_diff(parse(text), parse(replaced(text, "min_sequences: 90", "min_sequences: 60")));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].kind == ChangeKind::looser);
  CHECK(changes[0].where == "statistical.slice-top1 min_sequences");
}

TEST_CASE("swings that are shared leave a candidate no allowance") {
  const auto change = only_change("\nassumptions:\n", "\nassumptions:\n  swings: shared\n");
  CHECK(change.kind == ChangeKind::stricter);
  CHECK(change.where == "assumptions.swings");
  CHECK(change.before == "own");
  CHECK(change.after == "shared");
}

TEST_CASE("an approval that is asked for no more is named") {
  const auto change = only_change("{share: 0.25, approval: true}", "{share: 0.25}");
  CHECK(change.kind == ChangeKind::removed);
  CHECK(change.where == "stages.canary.approvals at 0.25");
}

TEST_CASE("fewer people who approve, and approvals that count for longer, are looser") {
  const std::string step = "{share: 0.25, approval: true}";
  const auto more = only_change(step, "{share: 0.25, approval: true, approvals: 2}");
  CHECK(more.kind == ChangeKind::stricter);
  CHECK(more.where == "stages.canary.approvals at 0.25");
  CHECK(more.before == "1");
  CHECK(more.after == "2");
  const auto longer = only_change("bake: 5m", "bake: 5m\n    approval_valid_for: 48h");
  CHECK(longer.kind == ChangeKind::looser);
  CHECK(longer.where == "stages.canary.approval_valid_for");
}

/// Adds a copy of `whole` for each number, duration and switch in `at`, with that one changed.
void change_leaves(const nlohmann::json& at, const nlohmann::json::json_pointer& where,
                   const nlohmann::json& whole,
                   std::vector<std::pair<std::string, nlohmann::json>>& changed) {
  const auto change = [&](nlohmann::json value) {
    auto copy = whole;
    copy[where] = std::move(value);
    changed.emplace_back(where.to_string(), std::move(copy));
  };
  if (at.is_object()) {
    for (const auto& [name, member] : at.items()) change_leaves(member, where / name, whole, changed);
  } else if (at.is_array()) {
    for (std::size_t i = 0; i < at.size(); ++i) change_leaves(at[i], where / i, whole, changed);
  } else if (at.is_number_integer()) {
    change(at.get<int>() + 1);
  } else if (at.is_number()) {
    change(at.get<double>() * 0.9);
  } else if (at.is_boolean()) {
    change(!at.get<bool>());
  } else if (at.is_string()) {
    const auto text = at.get<std::string>();  // a duration such as 30s
    if (text.size() > 1 && text.find_first_not_of("0123456789") == text.size() - 1) change("9" + text);
  }
}

TEST_CASE("no number, duration or switch of a contract can be changed without a difference") {
  std::ifstream file("tests/vectors/contract_example.yaml");
  auto contract = parse({std::istreambuf_iterator<char>(file), {}});
  const auto document = nlohmann::json::parse(contract.canonical_json);
  std::vector<std::pair<std::string, nlohmann::json>> changed;
  change_leaves(document, nlohmann::json::json_pointer(), document, changed);
  int valid = 0;
  for (const auto& [where, copy] : changed) {
    CAPTURE(where);
    const auto report = parse_contract(copy.dump(), "changed.yaml");
    if (!report.contract) continue;  // such as a share above 1
    ++valid;
    CHECK_FALSE(contract_diff(contract, *report.contract).empty());
  }
  CHECK(valid >= 40);
}

TEST_CASE("a clause that is new or gone is one change with its demand") {
  const std::string line = "  - {id: greedy,       metric: top1_flip, aggregate: sequence_mean, max: 0.02}\n";
  const auto gone = only_change(line, "");
  CHECK(gone.kind == ChangeKind::removed);
  CHECK(gone.where == "numerical.greedy");
  CHECK(gone.before == "sequence_mean of top1_flip at most 0.02");
  const std::string text = shipped("bf16-dense.yaml");
  const auto fresh = contract_diff(parse(replaced(text, line, "")), parse(text));
  REQUIRE(fresh.size() == 1);
  CHECK(fresh[0].kind == ChangeKind::added);
}

TEST_CASE("a clause that becomes soft is looser, and another subject is only changed") {
  CHECK(only_change("max: 1e-3}", "max: 1e-3, severity: soft}").kind == ChangeKind::looser);
  const auto subject = only_change("metric: kl_inf_train,", "metric: kl_train_inf,");
  CHECK(subject.kind == ChangeKind::changed);
  CHECK(subject.where == "numerical.kl subject");
}

TEST_CASE("asking for exact means, or for a larger cap, is stricter") {
  const std::string capped = "metric: tv, aggregate: sequence_mean, clip: 0.1, max: 0.01}";
  const auto without = only_change(capped, "metric: tv, aggregate: sequence_mean, max: 0.01}");
  CHECK(without.kind == ChangeKind::stricter);
  CHECK(without.where == "numerical.tv clip");
  CHECK(only_change(capped, "metric: tv, aggregate: sequence_mean, clip: 0.2, max: 0.01}").kind ==
        ChangeKind::stricter);
  const auto approximate = only_change(", means: exact}", ", means: approximate}");
  CHECK(approximate.kind == ChangeKind::looser);
  CHECK(approximate.where == "confidence.means");
}

TEST_CASE("the text groups changes by what they do") {
  const std::string text = shipped("bf16-dense.yaml");
  const auto changes = contract_diff(
      parse(text), parse(replaced(replaced(text, "max: 1e-3", "max: 5e-4"), "bake: 5m", "bake: 1m")));
  CHECK(to_text(changes) ==
        "stricter\n  numerical.kl max: 0.001 → 0.0005\nlooser\n  stages.canary.bake: 5m → 1m\n");
}

}  // namespace
}  // namespace driftgate::schema
