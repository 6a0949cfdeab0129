#include "tests/simulation/figure.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::simulation {

std::optional<double> Figure::claimed() const {
  return claim == Claim::approximate && ceiling ? ceiling : nominal;
}

double Figure::error() const {
  const auto level = claimed();
  if (runs == 0 || !level || *level <= 0 || *level >= 1) return 0;
  return 3 * std::sqrt(*level * (1 - *level) / static_cast<double>(runs));
}

bool Figure::holds() const {
  const auto level = claimed();
  if (!level || claim == Claim::figure) return true;
  if (claim == Claim::at_least) return value >= *level - error();
  return value <= *level + error();
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
  if (figure.ceiling) out["ceiling"] = *figure.ceiling;
  return out.dump();
}

std::uint64_t Effort::runs(std::uint64_t usual) const {
  return std::max<std::uint64_t>(20, static_cast<std::uint64_t>(scale * static_cast<double>(usual)));
}

}  // namespace driftgate::simulation
