#include <fmt/format.h>

#include "schema/contract/contract_parse.hpp"
#include "schema/json.hpp"

namespace driftgate::schema::detail {
namespace {

constexpr StageSet kCaptureStages =
    static_cast<StageSet>(stage_bit(Stage::offline_numeric) | stage_bit(Stage::statistical_slice));

}  // namespace

// The sum grows with the rows and the smallest drift says nothing: neither is a figure of one kernel's noise.
bool has_floor(const MetricSubject& subject) {
  return is_distance(subject.metric) && subject.aggregate != Aggregate::sum &&
         subject.aggregate != Aggregate::min;
}

void check_floor(Fields& fields, const Limits& limits) {
  const auto multiple = fields.find("floor_multiple"), cap = fields.find("floor_cap");
  if (multiple && !fields.find("max")) multiple->refuse("floor_multiple stands only beside max; state max");
  if (multiple && !cap)
    multiple->refuse("floor_multiple requires floor_cap, the limit it may never exceed; state it");
  if (cap && !multiple) cap->refuse("floor_cap stands only beside floor_multiple; remove it");
  if (cap && limits.floor_cap && limits.max && *limits.floor_cap < *limits.max) {
    cap->refuse_kind(fmt::format("a cap of at least max, {}", ecmascript_number(*limits.max)));
  }
}

void check_floor_stages(Fields& fields, const Clause& clause) {
  const auto multiple = fields.find("floor_multiple");
  if (!multiple || (clause.stages & ~kCaptureStages) == 0) return;
  // The floor of greedy answers is measured where they are: by the candidate's engine, alone and in a batch.
  const auto* metric = std::get_if<MetricSubject>(&clause.subject);
  if (metric != nullptr && info(metric->metric).group == MetricGroup::greedy) return;
  multiple->refuse(
      "a noise floor is measured on captures, so floor_multiple is decided in offline-numeric and "
      "statistical-slice only; state stages: [offline-numeric], or state max alone");
}

}  // namespace driftgate::schema::detail
