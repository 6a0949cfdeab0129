#include "daemon/cli/service/guard_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostWatches = 10;  ///< those that are nearest to an alarm
constexpr double kDayMs = 86'400'000;

double nearness(const json& watch) {
  const double needed = number_of(watch, "needed", 0);
  return needed > 0 ? number_of(watch, "value", 0) / needed : 0;
}

/// "0.0012 of 2.5 needed", where a detector stands.
std::string level_text(const json& detector) {
  return fmt::format("{:.3g} of {:.3g} needed", number_of(detector, "value", 0),
                     number_of(detector, "needed", 0));
}

std::string newest_text(const json& object) {
  const auto newest = base::integer_at(object, "newest_us");
  return newest == 0 ? "nothing yet" : "newest " + format_time(newest);
}

std::string watch_line(const json& watch) {
  const std::string slice = text_of(watch, "slice");
  return fmt::format("    {}{}{}: {}; {} of {} keys, limit {:.3g}%\n",
                     is_true(watch, "alarming") ? "ALARM " : "", text_of(watch, "clause"),
                     slice.empty() ? "" : " on " + slice, level_text(watch), text_of(watch, "events"),
                     text_of(watch, "seen"), 100 * number_of(watch, "limit", 0));
}

/// The watches of a list that are nearest to an alarm, those first.
std::vector<json> nearest(const json& listed) {
  std::vector<json> watches;
  if (listed.is_array()) watches.assign(listed.begin(), listed.end());
  std::stable_sort(watches.begin(), watches.end(),
                   [](const json& one, const json& other) { return nearness(one) > nearness(other); });
  if (watches.size() > kMostWatches) watches.resize(kMostWatches);
  return watches;
}

std::string watches_text(const json& guard) {
  const json listed = member_of(guard, "watches");
  std::string out;
  for (const json& watch : nearest(listed)) out += watch_line(watch);
  if (listed.is_array() && listed.size() > kMostWatches)
    out += fmt::format("    and {} further from an alarm\n", listed.size() - kMostWatches);
  return out;
}

std::string probes_text(const json& guard) {
  const json probes = member_of(guard, "probes");
  if (!probes.is_object()) return {};
  const std::string why = text_of(probes, "why_none");
  if (!why.empty()) return fmt::format("    no golden probes: {}\n", why);
  if (!is_true(probes, "armed"))
    return fmt::format("    golden probes: measuring their floor, {}\n", newest_text(probes));
  return fmt::format("    {}golden probes: {}; {} compared, {}\n",
                     is_true(probes, "alarming") ? "ALARM " : "", level_text(probes),
                     text_of(probes, "compared"), newest_text(probes));
}

std::string drift_line(const json& watch) {
  const std::string slice = text_of(watch, "slice");
  return fmt::format("      {}{}{}: {}; {:.3g} over {} answers, {} {:.3g}\n",
                     is_true(watch, "alarming") ? "ALARM " : "", text_of(watch, "clause"),
                     slice.empty() ? "" : " on " + slice, level_text(watch), number_of(watch, "figure", 0),
                     text_of(watch, "answers"), text_of(watch, "limit_kind"), number_of(watch, "limit", 0));
}

std::string rescoring_text(const json& guard) {
  const json rescoring = member_of(guard, "rescoring");
  if (!rescoring.is_object()) return {};
  const std::string why = text_of(rescoring, "why_none");
  if (!why.empty()) return fmt::format("    no answers are scored again: {}\n", why);
  std::string out = fmt::format("    answers scored again by {}: {}, {}\n", text_of(rescoring, "reference"),
                                text_of(rescoring, "answers"), newest_text(rescoring));
  const std::string away = text_of(rescoring, "unanswered_why");
  if (!away.empty()) out += fmt::format("      an engine did not score the last one: {}\n", away);
  for (const json& watch : nearest(member_of(rescoring, "watches"))) out += drift_line(watch);
  return out;
}

std::string identity_text(const json& guard) {
  const json identity = member_of(guard, "identity");
  const json members = member_of(identity, "members");
  if (!members.is_object()) return fmt::format("    identity: {}\n", newest_text(identity));
  const json changes = member_of(identity, "changes");
  std::string out;
  for (const json& change : changes.is_array() ? changes : json::array()) {
    const std::string now = text_of(change, "now");
    out += fmt::format("    ALARM identity: {} was \"{}\" and is {}\n", text_of(change, "name"),
                       text_of(change, "promoted"), now.empty() ? "no longer told" : "\"" + now + "\"");
  }
  if (out.empty())
    out = fmt::format("    identity: {} members as promoted, {}\n", members.size(), newest_text(identity));
  return out;
}

std::string orders_text(const json& guard, const std::string& model) {
  const json orders = member_of(guard, "orders");
  std::string out;
  const json pending = member_of(orders, "pending");
  if (pending.is_object())
    out += fmt::format("    ordered and not done yet: {} ({})\n", text_of(pending, "action"),
                       text_of(pending, "reason"));
  const json slices = member_of(orders, "slices_on_fallback");
  const bool some = slices.is_array() && !slices.empty();
  if (is_true(orders, "all_on_fallback") || some) {
    out += fmt::format(
        "    {} on the fallback kernel (bring it back: driftgate model lift-hold {} --reason …)\n",
        some ? plain_text(slices) + " is" : std::string("all traffic is"), model);
  }
  return out;
}

}  // namespace

std::string guard_text(const json& model) {
  const json guard = member_of(model, "guard");
  if (!guard.is_object()) return {};
  if (!is_true(guard, "armed")) {
    return fmt::format("  guard       ended {}: {}\n", format_time(base::integer_at(guard, "ended_us")),
                       text_of(guard, "reason"));
  }
  std::string out =
      fmt::format("  guard       since {}, promotion {}, one false alarm in {:.3g} d, {} alarms\n",
                  format_time(base::integer_at(guard, "since_us")), text_of(guard, "promotion"),
                  static_cast<double>(base::integer_at(guard, "mean_time_between_false_alarms_ms")) / kDayMs,
                  text_of(guard, "alarms"));
  return out + watches_text(guard) + probes_text(guard) + rescoring_text(guard) + identity_text(guard) +
         orders_text(guard, text_of(model, "name"));
}

}  // namespace driftgate::cli
