#include "daemon/base/entry_members.hpp"

namespace driftgate::base {

using schema::EntryValue;

std::string text_at(const EntryValue::Object& body, std::string_view name) {
  const auto found = body.find(name);
  return found == body.end() || found->second.text() == nullptr ? std::string() : *found->second.text();
}

std::int64_t integer_at(const EntryValue::Object& body, std::string_view name, std::int64_t otherwise) {
  const auto found = body.find(name);
  return found == body.end() || found->second.integer() == nullptr ? otherwise : *found->second.integer();
}

}  // namespace driftgate::base
