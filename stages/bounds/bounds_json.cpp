#include "stages/bounds/bounds_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

using nlohmann::json;

json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

json numbers(const std::map<std::string, double>& values) {
  json out = json::object();
  for (const auto& [name, value] : values) out[name] = number(value);
  return out;
}

json link_json(const BoundLink& link) {
  json out{{"number", link.number},
           {"name", link.name},
           {"horizon", link.horizon == schema::Horizon::token ? "token" : "sequence"},
           {"inputs", numbers(link.inputs)},
           {"alpha", link.alpha},
           {"clusters", link.clusters},
           {"method", link.method},
           {"approximate", link.approximate},
           {"assumption", link.assumption},
           {"status", to_string(link.status)}};
  if (link.bound) out["bound"] = schema::to_string(*link.bound);
  if (link.value) out["value"] = number(*link.value);
  if (link.upper) out["upper"] = number(*link.upper);
  if (!link.from.empty()) out["from"] = link.from;
  if (!link.floors.empty()) out["floor"] = numbers(link.floors);
  return out;
}

}  // namespace

std::string bounds_json(const std::vector<BoundChain>& chains) {
  json list = json::array();
  for (const BoundChain& chain : chains) {
    json links = json::array();
    for (const BoundLink& link : chain.links) links.push_back(link_json(link));
    list.push_back({{"where", chain.where},
                    {"rows", chain.rows},
                    {"sequences", chain.sequences},
                    {"refused", chain.refused},
                    {"links", std::move(links)}});
  }
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace driftgate::stages
