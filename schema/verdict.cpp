#include "schema/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/verdict_members.hpp"

namespace driftgate::schema {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 4> kVerdicts{"pass", "violated", "inconclusive", "error"};
constexpr std::array<std::string_view, 16> kRules{
    "cannot", "undecided", "test",       "margin",    "limits",         "arm_limits",     "census",
    "bound",  "e_value",   "recovering", "nonfinite", "count_at_least", "share_at_least", "age_at_most",
    "bounded_test", "bounded_census"};
constexpr std::array kRoles{SliceRole::corpus, SliceRole::critical, SliceRole::monitored,
                            SliceRole::discovered, SliceRole::described};

/// Of one verdict's text: far more than one with all details has.
constexpr std::size_t kMaxVerdictBytes = std::size_t{1} << 20;

void put(Json& out, const char* name, const std::optional<double>& value) {
  if (value) out[name] = *value;
}

// Reads the members of one object and keeps the first fault.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  [[nodiscard]] const std::string& fault() const { return fault_; }

  std::string text(const char* name) {
    const Json* value = find(name, true);
    if (value == nullptr) return {};
    if (!value->is_string()) return refuse(name, "must be a string"), std::string();
    return value->get<std::string>();
  }
  bool flag(const char* name) {
    const Json* value = find(name, true);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return refuse(name, "must be true or false"), false;
    return value->get<bool>();
  }
  std::uint64_t count(const char* name) {
    const Json* value = find(name, true);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) return refuse(name, "must be a whole number that is not negative"), 0;
    return value->get<std::uint64_t>();
  }
  /// Of the rules; absent in records that were made before there were versions.
  std::uint32_t version(const char* name) {
    const Json* value = find(name, false);
    if (value == nullptr) return kFirstRules;
    const bool valid = value->is_number_unsigned() && value->get<std::uint64_t>() <= UINT32_MAX;
    if (!valid) return refuse(name, "must be the number of a version"), kFirstRules;
    return value->get<std::uint32_t>();
  }
  std::optional<double> number(const char* name, bool required = false) {
    const Json* value = find(name, required);
    if (value == nullptr) return std::nullopt;
    const auto parsed = number_from_json(*value);
    if (!parsed) refuse(name, "must be a number");
    return parsed;
  }
  /// 64 bits do not fit a JSON number, so a seed is written as text.
  std::uint64_t seed(const char* name) {
    const std::string digits = text(name);
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end.ec != std::errc{} || end.ptr != digits.data() + digits.size()) {
      refuse(name, "must be a whole number written as a string");
    }
    return value;
  }
  std::map<std::string, std::string> texts(const char* name, bool required) {
    std::map<std::string, std::string> found;
    const Json* value = find(name, required);
    if (value == nullptr) return found;
    if (!value->is_object()) return refuse(name, "must be an object"), found;
    for (const auto& item : value->items()) {
      if (!item.value().is_string()) return refuse(name, "must hold strings"), found;
      found[item.key()] = item.value().get<std::string>();
    }
    return found;
  }
  std::map<std::string, double> numbers(const char* name) {
    std::map<std::string, double> found;
    const Json* value = find(name, true);
    if (value == nullptr) return found;
    if (!value->is_object()) return refuse(name, "must be an object"), found;
    for (const auto& item : value->items()) {
      const auto number = number_from_json(item.value());
      if (!number) return refuse(name, "must hold numbers"), found;
      found[item.key()] = *number;
    }
    return found;
  }
  void refuse(std::string_view name, std::string_view why) {
    if (fault_.empty()) fault_ = fmt::format("{} {}", name, why);
  }

 private:
  const Json* find(const char* name, bool required) {
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    if (required) refuse(name, "is missing");
    return nullptr;
  }

  const Json& object_;
  std::string fault_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  return kVerdicts.at(static_cast<std::size_t>(verdict));
}

std::optional<Verdict> verdict_from_name(std::string_view name) {
  const auto found = std::find(kVerdicts.begin(), kVerdicts.end(), name);
  if (found == kVerdicts.end()) return std::nullopt;
  return static_cast<Verdict>(found - kVerdicts.begin());
}

std::string_view to_string(VerdictRule rule) {
  return kRules.at(static_cast<std::size_t>(rule));
}

std::optional<VerdictRule> verdict_rule_from_name(std::string_view name) {
  const auto found = std::find(kRules.begin(), kRules.end(), name);
  if (found == kRules.end()) return std::nullopt;
  return static_cast<VerdictRule>(found - kRules.begin());
}

std::optional<SliceRole> slice_role_from_name(std::string_view name) {
  const auto found =
      std::find_if(kRoles.begin(), kRoles.end(), [&](SliceRole role) { return to_string(role) == name; });
  if (found == kRoles.end()) return std::nullopt;
  return *found;
}

std::string to_json(const ClauseVerdict& verdict) {
  Json out = {{"clause", verdict.clause},
              {"severity", to_string(verdict.severity)},
              {"where", verdict.where},
              {"role", to_string(verdict.role)},
              {"verdict", to_string(verdict.verdict)},
              {"rule", to_string(verdict.rule)},
              {"rules", verdict.rules},
              {"n", verdict.n},
              {"clusters", verdict.clusters},
              {"limit_kind", verdict.limit_kind},
              {"alpha", verdict.alpha},
              {"method", verdict.method},
              {"approximate", verdict.approximate},
              {"no_harm_only", verdict.no_harm_only},
              {"seed", std::to_string(verdict.seed)},
              {"details", verdict.details},
              {"message", verdict.message}};
  put(out, "estimate", verdict.estimate);
  put(out, "lower", verdict.lower);
  put(out, "upper", verdict.upper);
  put(out, "e_value", verdict.e_value);
  put(out, "p_value", verdict.p_value);
  put(out, "threshold", verdict.threshold);
  if (!verdict.tables.empty()) out["tables"] = verdict.tables;
  return canonical_json(out);
}

Result<ClauseVerdict> clause_verdict_from_json(std::string_view json) {
  // Not parse_json, which refuses 18446744073709552000: canonical JSON spells a whole double so.
  const bool readable = json.size() <= kMaxVerdictBytes;
  const Json parsed = readable ? Json::parse(json, nullptr, false) : Json();
  if (!parsed.is_object()) {
    return fail(ErrorCode::invalid_document, "a clause verdict must be a JSON object of at most 1 MiB");
  }
  Members members(parsed);
  ClauseVerdict verdict = read_clause_verdict(members);
  if (!members.fault().empty()) {
    return fail(ErrorCode::invalid_document, "not a clause verdict: " + members.fault());
  }
  return verdict;
}

}  // namespace driftgate::schema
