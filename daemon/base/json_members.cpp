#include "daemon/base/json_members.hpp"

#include <nlohmann/json.hpp>

namespace driftgate::base {

using nlohmann::json;

const json* member(const json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> maybe_text_at(const json& object, std::string_view name) {
  const json* found = member(object, name);
  if (found == nullptr || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::string text_at(const json& object, std::string_view name) {
  return maybe_text_at(object, name).value_or(std::string());
}

std::int64_t integer_at(const json& object, std::string_view name, std::int64_t otherwise) {
  const json* found = member(object, name);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

json object_at(const json& object, std::string_view name) {
  const json* found = member(object, name);
  return found != nullptr && found->is_object() ? *found : json::object();
}

}  // namespace driftgate::base
