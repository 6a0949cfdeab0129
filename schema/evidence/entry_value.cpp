#include <utility>

#include "schema/evidence/canonical_entry.hpp"
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
  if (object.size() != 2 || object.begin()->first != "dec" || object.rbegin()->first != "hex") return true;
  const std::string* dec = object.begin()->second.text();
  const std::string* hex = object.rbegin()->second.text();
  return dec != nullptr && hex != nullptr && are_one_number(*dec, *hex);
}

}  // namespace driftgate::schema
