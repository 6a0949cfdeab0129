#include <utility>

#include "schema/canonical_entry.hpp"
#include "schema/number_text.hpp"

namespace driftgate::schema {

EntryValue::EntryValue() = default;
EntryValue::~EntryValue() = default;
EntryValue::EntryValue(const EntryValue&) = default;
EntryValue::EntryValue(EntryValue&&) noexcept = default;
EntryValue& EntryValue::operator=(const EntryValue&) = default;
EntryValue& EntryValue::operator=(EntryValue&&) noexcept = default;

bool operator==(const EntryValue& a, const EntryValue& b) {
  return a.value_ == b.value_;
}

EntryValue EntryValue::measured(double value) {
  return EntryValue(Object{{"dec", number_text(value)}, {"hex", number_hex(value)}});
}

Result<double> EntryValue::number() const {
  const EntryValue* dec = find("dec");
  const EntryValue* hex = find("hex");
  if (dec == nullptr || hex == nullptr || hex->text() == nullptr || !measured_is_consistent(*object())) {
    return fail(ErrorCode::invalid_document, "expected a measured number, {\"dec\": …, \"hex\": …}");
  }
  return parse_number_hex(*hex->text());
}

const EntryValue* EntryValue::find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  const auto found = members->find(key);
  return found == members->end() ? nullptr : &found->second;
}

bool measured_is_consistent(const EntryValue::Object& object) {
  if (object.size() != 2 || !object.contains("dec") || !object.contains("hex")) return true;
  const std::string* dec = object.at("dec").text();
  const std::string* hex = object.at("hex").text();
  if (dec == nullptr || hex == nullptr) return false;
  const auto a = parse_number_text(*dec);
  const auto b = parse_number_hex(*hex);
  return a && b && number_hex(*a) == *hex;
}

}  // namespace driftgate::schema
