#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "daemon/evidence/verify/derivation.hpp"

namespace driftgate::evidence {

using schema::ClauseVerdict;
using schema::EntryValue;

namespace {

constexpr std::size_t kMeasuredMembers = 2;  ///< "dec" and "hex"
constexpr std::size_t kHexDigits = 16;

/// How numbers were written before records stated a version of the rules: a double that is whole as an
/// integer, from 2^53 on as the 16 hexadecimal digits of its decimal digits' value, one that is not finite as
/// text.
std::optional<double> unstated_number(const EntryValue& value) {
  if (const std::int64_t* integer = value.integer()) return static_cast<double>(*integer);
  const std::string* text = value.text();
  if (text == nullptr) return std::nullopt;
  if (*text == "NaN") return std::nan("");
  if (*text == "Infinity") return HUGE_VAL;
  if (*text == "-Infinity") return -HUGE_VAL;
  if (text->size() != kHexDigits || text->find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  std::uint64_t whole = 0;
  std::from_chars(text->data(), text->data() + text->size(), whole, 16);
  if (whole <= static_cast<std::uint64_t>(schema::kMaxEntryInteger)) return std::nullopt;
  return static_cast<double>(whole);
}

/// Reads the members of a verdict's body and keeps the first fault.
class Body {
 public:
  explicit Body(const EntryValue::Object& members) : members_(members), stated_(members.contains("rules")) {}

  [[nodiscard]] const std::string& fault() const { return fault_; }

  std::string text(const char* name) {
    const EntryValue* value = find(name, true);
    if (value != nullptr && value->text() == nullptr) refuse(name, "must be a text");
    return value == nullptr || value->text() == nullptr ? std::string() : *value->text();
  }
  bool flag(const char* name) {
    const EntryValue* value = find(name, true);
    if (value != nullptr && value->boolean() == nullptr) refuse(name, "must be true or false");
    return value != nullptr && value->boolean() != nullptr && *value->boolean();
  }
  std::uint64_t count(const char* name) {
    const EntryValue* value = find(name, true);
    const bool good = value != nullptr && value->integer() != nullptr && *value->integer() >= 0;
    if (!good) return refuse(name, "must be a whole number that is not negative"), 0;
    return static_cast<std::uint64_t>(*value->integer());
  }
  std::optional<double> number(const char* name, bool required = false) {
    const EntryValue* value = find(name, required);
    if (value == nullptr) return std::nullopt;
    const auto number = read(*value);
    if (!number) refuse(name, "must be a measured number");
    return number;
  }
  /// A number of the digits of a seed, which does not fit an integer of an entry.
  std::uint64_t seed(const char* name) {
    const std::string digits = text(name);
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool good = !digits.empty() && end.ec == std::errc() && end.ptr == digits.data() + digits.size();
    if (!good) refuse(name, "must be a whole number written as a text");
    return value;
  }
  std::uint32_t version(const char* name) {
    if (!stated_) return schema::kFirstRules;
    const std::uint64_t value = count(name);
    if (value == 0 || value > UINT32_MAX) return refuse(name, "must be the number of a version"), 0;
    return static_cast<std::uint32_t>(value);
  }
  std::map<std::string, std::string> texts(const char* name, bool required) {
    return named<std::string>(name, required, "must hold texts", [](const EntryValue& value) {
      return value.text() == nullptr ? std::nullopt : std::optional(*value.text());
    });
  }
  std::map<std::string, double> numbers(const char* name) {
    return named<double>(name, true, "must hold measured numbers",
                         [this](const EntryValue& value) { return read(value); });
  }
  void refuse(std::string_view name, std::string_view why) {
    if (fault_.empty()) fault_ = fmt::format("body/{} {}", name, why);
  }

 private:
  const EntryValue* find(const char* name, bool required) {
    const auto found = members_.find(std::string_view(name));
    if (found != members_.end()) return &found->second;
    if (required) refuse(name, "is missing");
    return nullptr;
  }

  [[nodiscard]] std::optional<double> read(const EntryValue& value) const {
    const EntryValue::Object* members = value.object();
    if (members != nullptr && members->size() == kMeasuredMembers) {
      const auto number = value.number();
      return number ? std::optional(*number) : std::nullopt;
    }
    return stated_ ? std::nullopt : unstated_number(value);
  }

  /// An object, or the list of {"name", "value"} that stands for one whose names are no keys of an entry.
  template <typename T, typename Read>
  std::map<std::string, T> named(const char* name, bool required, const char* must, const Read& read_one) {
    std::map<std::string, T> found;
    const EntryValue* value = find(name, required);
    if (value == nullptr) return found;
    const auto put = [&](const std::string& key, const EntryValue& item) {
      const auto one = read_one(item);
      if (!one || !found.emplace(key, *one).second) refuse(name, must);
    };
    if (const EntryValue::Object* members = value->object()) {
      for (const auto& [key, item] : *members) put(key, item);
    } else if (const EntryValue::Array* pairs = value->array()) {
      for (const EntryValue& pair : *pairs) {
        const EntryValue* key = pair.find("name");
        const EntryValue* item = pair.find("value");
        const bool good =
            key != nullptr && key->text() != nullptr && item != nullptr && pair.object()->size() == 2;
        if (!good) return refuse(name, "must be a list of {name, value}"), found;
        put(*key->text(), *item);
      }
    } else {
      refuse(name, "must be an object, or a list of {name, value}");
    }
    return found;
  }

  const EntryValue::Object& members_;
  bool stated_;  ///< the version of the rules is
  std::string fault_;
};

void read_names(Body& body, ClauseVerdict& verdict) {
  const std::string severity = body.text("severity");
  if (severity != "hard" && severity != "soft") body.refuse("severity", "must be hard or soft");
  verdict.severity = severity == "soft" ? schema::Severity::soft : schema::Severity::hard;
  const auto role = schema::slice_role_from_name(body.text("role"));
  if (!role) return body.refuse("role", "is not a role of a slice");
  verdict.role = *role;
  const auto named = schema::verdict_from_name(body.text("verdict"));
  if (!named) return body.refuse("verdict", "must be pass, violated, inconclusive or error");
  verdict.verdict = *named;
  const auto rule = schema::verdict_rule_from_name(body.text("rule"));
  if (!rule) return body.refuse("rule", "is not a rule by which verdicts follow");
  verdict.rule = *rule;
}

}  // namespace

schema::Result<ClauseVerdict> clause_verdict_of(const EntryValue::Object& members) {
  Body body(members);
  ClauseVerdict verdict;
  verdict.clause = body.text("clause");
  verdict.rules = body.version("rules");
  read_names(body, verdict);
  verdict.where = body.texts("where", true);
  verdict.n = body.count("n");
  verdict.clusters = body.count("clusters");
  verdict.limit_kind = body.text("limit_kind");
  verdict.alpha = body.number("alpha", true).value_or(0);
  verdict.method = body.text("method");
  verdict.approximate = body.flag("approximate");
  verdict.no_harm_only = body.flag("no_harm_only");
  verdict.seed = body.seed("seed");
  verdict.details = body.numbers("details");
  verdict.tables = body.texts("tables", false);
  verdict.message = body.text("message");
  verdict.estimate = body.number("estimate");
  verdict.lower = body.number("lower");
  verdict.upper = body.number("upper");
  verdict.e_value = body.number("e_value");
  verdict.p_value = body.number("p_value");
  verdict.threshold = body.number("threshold");
  if (!body.fault().empty()) {
    return schema::fail(schema::ErrorCode::invalid_document, "it records no verdict: " + body.fault());
  }
  return verdict;
}

}  // namespace driftgate::evidence
