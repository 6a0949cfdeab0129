#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "schema/contract/contract.hpp"
#include "schema/contract/contract_guard.hpp"
#include "schema/contract/contract_parse.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {
namespace detail {
namespace {

void expect_text(Fields& root, std::string_view field, std::string_view value) {
  const auto at = root.need(field);
  if (at && (at->node.kind != DocumentNode::Kind::text || at->node.text != value)) at->refuse_kind(value);
}

void parse_metadata(Fields& root, Contract& contract) {
  const auto at = root.need("metadata");
  if (!at) return;
  Fields fields(*at, "metadata");
  if (const auto name = fields.need("name")) contract.name = read_name(*name).value_or("");
  fields.take("description", contract.description, [](const Cursor& c) { return read_text(c, 4'000); });
  if (const auto owners = fields.find("owners")) {
    read_list(*owners, 64, [&](const Cursor& item) {
      if (auto owner = read_text(item, 200)) contract.owners.push_back(std::move(*owner));
    });
  }
  fields.finish();
}

void parse_kernel(const std::optional<Cursor>& at, std::string& ref) {
  if (!at) return;
  Fields fields(*at, "a kernel");
  if (const auto found = fields.need("ref")) ref = read_name(*found, "._-:/@+").value_or("");
  fields.finish();
}

void parse_kernels(Fields& root, Contract& contract) {
  const auto at = root.need("kernels");
  if (!at) return;
  Fields fields(*at, "kernels");
  parse_kernel(fields.need("train"), contract.train_kernel);
  parse_kernel(fields.need("inf"), contract.inf_kernel);
  parse_kernel(fields.find("fallback"), contract.fallback_kernel);
  fields.finish();
}

void parse_confidence(Fields& root, Contract& contract) {
  const auto at = root.find("confidence");
  if (!at) return;
  Fields fields(*at, "confidence");
  const auto level = [](const Cursor& c) { return read_number(c, {0, 0.5, true, true}); };
  fields.take("alpha", contract.confidence.alpha, level);
  fields.take("alpha_harm", contract.confidence.alpha_harm, level);
  fields.take("alpha_advance", contract.confidence.alpha_advance, level);
  if (const auto means = fields.find("means")) {
    static constexpr std::array<std::string_view, 2> kMeans{"exact", "approximate"};
    contract.confidence.means = static_cast<Means>(read_choice(*means, kMeans).value_or(0));
  }
  fields.finish();
}

}  // namespace

void parse_header(Fields& root, Contract& contract) {
  expect_text(root, "apiVersion", "driftgate/v1");
  expect_text(root, "kind", "KernelContract");
  parse_metadata(root, contract);
  parse_kernels(root, contract);
  parse_confidence(root, contract);
  if (const auto at = root.find("measurement")) {
    Fields fields(*at, "measurement");
    fields.take("top_k", contract.top_k, [](const Cursor& c) { return read_count(c, 1, 1'000); });
    fields.finish();
  }
}

void parse_assumptions(Fields& root, Contract& contract) {
  const auto at = root.find("assumptions");
  if (!at) return;
  Fields fields(*at, "assumptions");
  if (const auto reward = fields.find("reward")) {
    Assumptions::Reward range;
    Fields inner(*reward, "assumptions.reward");
    const auto number = [](const Cursor& c) { return read_number(c, {}); };
    if (const auto low = inner.need("min")) range.min = number(*low).value_or(0);
    if (const auto high = inner.need("max")) range.max = number(*high).value_or(1);
    inner.finish();
    if (range.min >= range.max) {
      reward->refuse("the reward's min must be below its max");
      range = {0, HUGE_VAL};  // so that no bound is a fault because of this one
    }
    contract.assumptions.reward = range;
  }
  if (const auto policy = fields.find("policy")) {
    Assumptions::Policy values;
    Fields inner(*policy, "assumptions.policy");
    const auto positive = [](const Cursor& c) { return read_number(c, {0, HUGE_VAL, true}); };
    if (const auto a = inner.need("advantage_max")) values.advantage_max = positive(*a).value_or(1);
    if (const auto g = inner.need("score_norm_max")) values.score_norm_max = positive(*g).value_or(1);
    inner.take("ppo_clip", values.ppo_clip, [](const Cursor& c) {
      return read_number(c, {0, 1, true, true});
    });
    inner.take("is_clip", values.is_clip, [](const Cursor& c) { return read_number(c, {0, HUGE_VAL}); });
    inner.finish();
    contract.assumptions.policy = values;
  }
  fields.take("max_tokens", contract.assumptions.max_tokens,
              [](const Cursor& c) { return read_count(c, 1, 100'000'000); });
  if (const auto swings = fields.find("swings")) {
    static constexpr std::array<std::string_view, 2> kSwings{"own", "shared"};
    contract.assumptions.swings = static_cast<Swings>(read_choice(*swings, kSwings).value_or(0));
  }
  fields.finish();
}

}  // namespace detail

namespace {

void sort_by_position(std::vector<Fault>& faults) {
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::pair(a.position.line, a.position.column) < std::pair(b.position.line, b.position.column);
  });
}

}  // namespace

namespace {

enum class Purpose { registration, reading };

ContractReport parse(std::string_view text, std::string_view name, Purpose purpose) {
  ContractReport report;
  const auto document = read_document(text, report.faults);
  if (!document) return report;
  Contract contract;
  Fields root({*document, "", report.faults}, fmt::format("the contract {}", name));
  if (document->kind != DocumentNode::Kind::mapping) return report;

  detail::parse_header(root, contract);
  detail::parse_assumptions(root, contract);
  detail::parse_slices(root, contract);
  detail::parse_clauses(root, contract);
  detail::parse_stages(root, contract);
  detail::parse_guard(root, contract);
  detail::parse_escalation(root, contract);
  root.finish();
  if (purpose == Purpose::registration) {
    detail::check_means(contract, report.faults);
    detail::check_duration(contract, report.faults);
  }
  detail::check_joint_limits(contract, report.faults, report.warnings);
  sort_by_position(report.faults);
  if (!report.faults.empty()) {
    report.warnings.clear();
    return report;
  }
  detail::warn(contract, report.warnings);
  sort_by_position(report.warnings);
  contract.canonical_json = canonical_json(to_json(*document));
  contract.digest = document_digest(contract.canonical_json);
  report.contract = std::move(contract);
  return report;
}

}  // namespace

ContractReport parse_contract(std::string_view text, std::string_view name) {
  return parse(text, name, Purpose::registration);
}

ContractReport parse_stored_contract(std::string_view text, std::string_view name) {
  return parse(text, name, Purpose::reading);
}

}  // namespace driftgate::schema
