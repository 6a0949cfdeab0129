#include "schema/capabilities.hpp"

#include <fmt/format.h>

#include <array>

namespace driftgate::schema {
namespace {

struct NotEvaluated {
  Feature feature;
  std::string_view name;
  std::string_view instead;
};

// Nothing is left: all that a contract may say is evaluated.
constexpr std::array<NotEvaluated, 0> kNotEvaluated{};

std::string_view noun(Feature feature) {
  switch (feature) {
    case Feature::metric:
      return "the metric";
    case Feature::limit:
      return "the limit";
    case Feature::action:
      return "the action";
  }
  return "";
}

}  // namespace

std::optional<std::string> refusal(Feature feature, std::string_view name) {
  for (const NotEvaluated& entry : kNotEvaluated) {
    if (entry.feature == feature && entry.name == name) {
      return fmt::format("{} {} is not evaluated by this version; {}", noun(feature), name, entry.instead);
    }
  }
  return std::nullopt;
}

}  // namespace driftgate::schema
