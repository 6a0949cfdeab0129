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

// clang-format off
constexpr std::array kNotEvaluated{
    NotEvaluated{Feature::action, "notify", "use log; the verdict is in the evidence and the events"},
    NotEvaluated{Feature::action, "sample", "use log or freeze"},
    NotEvaluated{Feature::action, "route_slice", "use step_back or rollback"},
    NotEvaluated{Feature::action, "fallback", "use rollback"},
    NotEvaluated{Feature::action, "block", "use rollback, which also holds the model"},
};
// clang-format on

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
