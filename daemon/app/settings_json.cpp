#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "daemon/app/settings.hpp"

namespace driftgate::app {
namespace {

using nlohmann::json;

template <typename Value>
json value_json(const Value& value) {
  return json(value);
}

json value_json(const std::map<std::string, WebhookSetting>& endpoints) {
  json all = json::object();
  for (const auto& [name, endpoint] : endpoints)
    all[name] = {{"url", endpoint.url}, {"secret_file", endpoint.secret_file}, {"events", endpoint.events}};
  return all;
}

}  // namespace

std::string settings_json(const Settings& settings) {
  static const Settings defaults;
  json items = json::array();
  for (const SettingSpec& spec : setting_specs()) {
    const auto item = [&](auto member) {
      return json{{"name", spec.key},
                  {"value", value_json(settings.*member)},
                  {"default", value_json(defaults.*member)},
                  {"text", spec.text},
                  {"changed", settings.*member != defaults.*member}};
    };
    items.push_back(std::visit(item, spec.target));
  }
  return json{{"items", std::move(items)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace driftgate::app
