#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schema/contract/contract_parse.hpp"
#include "schema/json.hpp"

namespace driftgate::schema::detail {

std::optional<SliceWhere> read_where(const Cursor& at, const std::vector<std::string>& dimensions) {
  if (at.node.kind != DocumentNode::Kind::mapping || at.node.members.empty()) {
    at.refuse_kind("a mapping such as {language: de}");
    return std::nullopt;
  }
  const std::vector<std::string_view> names(dimensions.begin(), dimensions.end());
  SliceWhere where;
  bool valid = true;
  for (const auto& member : at.node.members) {
    const Cursor value{member.value, at.pointer + "/" + pointer_token(member.key), at.faults};
    if (std::find(names.begin(), names.end(), member.key) == names.end()) {
      at.faults.push_back({member.position, value.pointer,
                           names.empty() ? fmt::format("the dimension \"{}\" is not declared; list it under "
                                                       "slices.dimensions",
                                                       member.key)
                                         : fmt::format("the dimension \"{}\" is not declared{}", member.key,
                                                       allowed_names(member.key, names))});
      valid = false;
    }
    const auto text = read_text(value, 200);
    if (text && text->find_first_of(";=") != std::string::npos) {
      value.refuse_kind("text without ';' and '=', which separate slices on the wire");
      valid = false;
    } else if (text) {
      where[member.key] = *text;
    }
    valid = valid && text.has_value();
  }
  if (!valid) return std::nullopt;
  return where;
}

namespace {

void parse_critical(const Cursor& at, Slices& slices) {
  read_list(at, kMaxCriticalSlices, [&](const Cursor& item) {
    auto where = read_where(item, slices.dimensions);
    // A slice with a fault keeps its place: clauses on critical slices are not faults as well.
    if (!where) return slices.critical.emplace_back(), void();
    if (std::find(slices.critical.begin(), slices.critical.end(), *where) != slices.critical.end()) {
      return item.refuse(fmt::format("the critical slice {} appears twice", slice_text(*where)));
    }
    slices.critical.push_back(std::move(*where));
  });
}

void parse_discover(const Cursor& at, Slices& slices) {
  Slices::Discover discover;
  Fields fields(at, "slices.discover");
  fields.take("depth", discover.depth, [](const Cursor& c) { return read_count(c, 1, 3); });
  if (const auto action = fields.find("action")) {
    static constexpr std::array<std::string_view, 2> kActions{"report", "block"};
    discover.block = read_choice(*action, kActions).value_or(0) == 1;
  }
  if (const auto ratio = fields.find("max_ratio")) discover.max_ratio = read_number(*ratio, {1, 1'000});
  fields.finish();
  slices.discover = discover;
  if (slices.dimensions.empty()) {
    at.refuse("there is nothing to combine: list the attributes to search under slices.dimensions");
  }
}

void parse_bounds(const Cursor& at, Slices& slices) {
  read_list(at, 64, [&](const Cursor& item) {
    const auto edge = read_count(item, 1, kMaxCount);
    if (!edge) return;
    if (!slices.prompt_length_bounds.empty() && *edge <= slices.prompt_length_bounds.back()) {
      return item.refuse_kind(
          fmt::format("more than the edge before it, {}", slices.prompt_length_bounds.back()));
    }
    slices.prompt_length_bounds.push_back(static_cast<std::uint32_t>(*edge));
  });
}

}  // namespace

void parse_slices(Fields& root, Contract& contract) {
  const auto at = root.find("slices");
  if (!at) return;
  Slices& slices = contract.slices;
  Fields fields(*at, "slices");
  if (const auto dimensions = fields.find("dimensions")) {
    read_list(*dimensions, kMaxDimensions, [&](const Cursor& item) {
      auto name = read_name(item, "_-.");
      if (!name) return;
      const auto& known = slices.dimensions;
      if (std::find(known.begin(), known.end(), *name) != known.end()) {
        return item.refuse(fmt::format("the dimension \"{}\" appears twice", *name));
      }
      slices.dimensions.push_back(std::move(*name));
    });
  }
  fields.take("min_sequences", slices.min_sequences,
              [](const Cursor& c) { return read_count(c, 1, kMaxMinSequences); });
  if (const auto critical = fields.find("critical")) parse_critical(*critical, slices);
  if (const auto discover = fields.find("discover")) parse_discover(*discover, slices);
  if (const auto bounds = fields.find("prompt_length_bounds")) parse_bounds(*bounds, slices);
  fields.finish();
}

namespace {

void parse_shadow(const Cursor& at, ShadowPlan& plan) {
  Fields fields(at, "stages.shadow-runtime");
  fields.take("mirror_share", plan.mirror_bp, [](const Cursor& c) { return read_share_bp(c, 1); });
  const auto duration = [](const Cursor& c) { return read_duration_ms(c, 1'000); };
  fields.take("min_duration", plan.min_duration_ms, duration);
  fields.take("max_duration", plan.max_duration_ms, duration);
  fields.take("mirror_token_budget", plan.mirror_token_budget,
              [](const Cursor& c) { return read_count(c, 1, 1'000'000'000'000); });
  fields.finish();
  if (plan.min_duration_ms > plan.max_duration_ms) {
    at.refuse("min_duration is longer than max_duration (1h when it is not stated)");
  }
}

void parse_steps(const Cursor& at, CanaryPlan& plan) {
  std::uint32_t last = 0;
  read_list(at, kMaxCanarySteps, [&](const Cursor& item) {
    CanaryStep step;
    Fields fields(item, "a canary step");
    if (const auto share = fields.need("share")) {
      const auto value = read_share_bp(*share, 1);
      if (value && *value <= last) {
        share->refuse_kind(
            fmt::format("a share above the step before it ({}); ramps increase", last / 10'000.0));
      }
      last = step.share_bp = value.value_or(last + 1);
    }
    fields.take("approval", step.approval, read_flag);
    if (const auto people = fields.find("approvals")) {
      step.approvals =
          static_cast<std::uint32_t>(read_count(*people, 1, kMaxApprovals).value_or(step.approvals));
      if (!step.approval) people->refuse("approvals says how many people must approve; add approval: true");
    }
    fields.finish();
    plan.steps.push_back(step);
  });
  if (at.node.kind != DocumentNode::Kind::list) return;
  if (plan.steps.empty() || plan.steps.back().share_bp != 10'000) {
    at.refuse("the steps must end at share 1.0; add {share: 1.0} as the last step");
  }
}

void parse_canary(const Cursor& at, CanaryPlan& plan) {
  Fields fields(at, "stages.canary");
  if (const auto steps = fields.need("steps")) parse_steps(*steps, plan);
  const auto duration = [](const Cursor& c) { return read_duration_ms(c, 1'000); };
  const auto count = [](const Cursor& c) { return read_count(c, 1, kMaxCount); };
  fields.take("soak", plan.soak_ms, [](const Cursor& c) { return read_duration_ms(c); });
  fields.take("bake", plan.bake_ms, [](const Cursor& c) { return read_duration_ms(c); });
  fields.take("burst", plan.burst_ms, duration);
  fields.take("holdback", plan.holdback_bp, [](const Cursor& c) { return read_share_bp(c, 0, 5'000); });
  fields.take("min_keys", plan.min_keys, count);
  fields.take("max_exposure", plan.max_exposure, count);
  fields.take("max_duration", plan.max_duration_ms, duration);
  fields.take("approval_deadline", plan.approval_deadline_ms, duration);
  fields.take("approval_valid_for", plan.approval_valid_ms, duration);
  if (const auto telemetry = fields.find("telemetry")) {
    Fields inner(*telemetry, "stages.canary.telemetry");
    inner.take("freeze_after", plan.freeze_after_ms, duration);
    inner.take("revert_after", plan.revert_after_ms, duration);
    inner.finish();
    if (plan.freeze_after_ms > plan.revert_after_ms) {
      telemetry->refuse("freeze_after is longer than revert_after (2m when it is not stated)");
    }
  }
  fields.finish();
  if (plan.max_exposure && *plan.max_exposure < plan.min_keys) {
    at.refuse(fmt::format("max_exposure ({}) is below min_keys ({}), so no step can ever advance",
                          *plan.max_exposure, plan.min_keys));
  }
  if (plan.max_duration_ms && *plan.max_duration_ms < plan.soak_ms) {
    at.refuse("max_duration is shorter than soak, so no step can ever advance");
  }
}

}  // namespace

void parse_stages(Fields& root, Contract& contract) {
  const auto at = root.find("stages");
  if (!at) return;
  Fields fields(*at, "stages");
  if (const auto shadow = fields.find("shadow-runtime")) parse_shadow(*shadow, contract.shadow);
  if (const auto canary = fields.find("canary")) {
    contract.canary.emplace();
    contract.canary->position = canary->node.position;
    parse_canary(*canary, *contract.canary);
  }
  fields.finish();
}

}  // namespace driftgate::schema::detail
