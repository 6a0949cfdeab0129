#include "examples/tinylm/src/weight_faults.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <utility>

namespace tinylm {
namespace {

constexpr double kStaleShare = 0.05;
constexpr std::uint64_t kStaleSeed = 1;

void swap_middle_layers(Model& model) {
  const std::size_t low = (model.config.layers - 1) / 2;
  const std::string first = "model.layers." + std::to_string(low) + ".";
  const std::string second = "model.layers." + std::to_string(low + 1) + ".";
  auto& tensors = model.weights.tensors;
  for (auto& [name, tensor] : tensors) {
    if (!name.starts_with(first)) continue;
    const auto other = tensors.find(second + name.substr(first.size()));
    if (other != tensors.end()) std::swap(tensor, other->second);
  }
}

/// Standard normal by Box and Muller, the same on every platform.
double normal(std::mt19937_64& bits) {
  const auto uniform = [&bits] { return static_cast<double>(bits() >> 11U) * 0x1.0p-53; };
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

void make_stale(Model& model) {
  std::mt19937_64 bits(kStaleSeed);
  for (auto& [name, tensor] : model.weights.tensors) {
    if (tensor.shape.size() != 2) continue;  // norms hardly move
    double squares = 0;
    for (const float weight : tensor.floats) squares += static_cast<double>(weight) * weight;
    const double step = kStaleShare * std::sqrt(squares / static_cast<double>(tensor.floats.size()));
    for (float& weight : tensor.floats) weight += static_cast<float>(step * normal(bits));
  }
}

}  // namespace

std::optional<WeightFault> weight_fault_of(std::string_view name) {
  if (name == "swapped-layers") return WeightFault::swapped_layers;
  if (name == "stale-weights") return WeightFault::stale_weights;
  return std::nullopt;
}

void apply_weight_fault(Model& model, WeightFault fault) {
  fault == WeightFault::swapped_layers ? swap_middle_layers(model) : make_stale(model);
}

}  // namespace tinylm
