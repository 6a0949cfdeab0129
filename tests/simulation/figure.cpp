#include "tests/simulation/figure.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::simulation {

double Figure::error() const {
  if (runs == 0 || !nominal || *nominal <= 0 || *nominal >= 1) return 0;
  return 3 * std::sqrt(*nominal * (1 - *nominal) / static_cast<double>(runs));
}

bool Figure::holds() const {
  if (!nominal) return true;
  if (claim == Claim::exact) return value <= *nominal + error();
  if (claim == Claim::at_least) return value >= *nominal - error();
  return true;
}

std::string to_json(const Figure& figure) {
  constexpr const char* kClaims[] = {"exact", "at_least", "approximate", "figure"};
  nlohmann::json out = {{"experiment", figure.experiment},
                        {"method", figure.method},
                        {"scenario", figure.scenario},
                        {"quantity", figure.quantity},
                        {"value", figure.value},
                        {"runs", figure.runs},
                        {"claim", kClaims[static_cast<std::size_t>(figure.claim)]},
                        {"holds", figure.holds()},
                        {"error", figure.error()},
                        {"reference", figure.reference}};
  if (figure.nominal) out["nominal"] = *figure.nominal;
  return out.dump();
}

std::uint64_t Effort::runs(std::uint64_t usual) const {
  return std::max<std::uint64_t>(20, static_cast<std::uint64_t>(scale * static_cast<double>(usual)));
}

}  // namespace driftgate::simulation
