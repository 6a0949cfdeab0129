#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/evidence/derivation.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::EntryValue;

namespace {

json json_of(const EntryValue& value) {
  if (const bool* flag = value.boolean()) return *flag;
  if (const std::int64_t* integer = value.integer()) return *integer;
  if (const std::string* text = value.text()) return *text;
  if (const EntryValue::Array* items = value.array()) {
    json list = json::array();
    for (const EntryValue& item : *items) list.push_back(json_of(item));
    return list;
  }
  if (const EntryValue::Object* members = value.object()) {
    if (const auto number = value.number()) return *number;
    json object = json::object();
    for (const auto& [key, member] : *members) object[key] = json_of(member);
    return object;
  }
  return nullptr;
}

/// An object whose keys an entry cannot hold was written as a list of {"name", "value"}.
json object_of(const json& value) {
  if (!value.is_array()) return value;
  json object = json::object();
  for (const json& pair : value) {
    if (!pair.is_object() || !pair.contains("name") || !pair["name"].is_string() || !pair.contains("value"))
      return value;
    object[pair["name"].get<std::string>()] = pair["value"];
  }
  return object;
}

}  // namespace

schema::Result<schema::ClauseVerdict> clause_verdict_of(const EntryValue::Object& body) {
  json object = json::object();
  for (const auto& [key, value] : body) object[key] = json_of(value);
  for (const char* name : {"where", "details"}) {
    if (object.contains(name)) object[name] = object_of(object[name]);
  }
  return schema::clause_verdict_from_json(schema::canonical_json(object));
}

}  // namespace driftgate::evidence
