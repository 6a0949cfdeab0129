#include "schema/contract/spending.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftgate::schema {

double spent_alpha(Stage stage, double alpha, std::uint32_t k) {
  if (stage == Stage::canary) return std::ldexp(alpha, -static_cast<int>(std::clamp(k, 1U, 1000U)));
  const double run = std::max(1U, k);
  return 6 * alpha / (std::numbers::pi * std::numbers::pi * run * run);
}

}  // namespace driftgate::schema
