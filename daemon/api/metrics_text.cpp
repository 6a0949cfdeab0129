#include "daemon/api/metrics_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "schema/utf8.hpp"

namespace driftgate::api {

namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void append_metric(std::string& out, std::string_view name, std::string_view labels, double value) {
  fmt::format_to(std::back_inserter(out), "{}{}{}{} {}\n", name, labels.empty() ? "" : "{", labels,
                 labels.empty() ? "" : "}", number_text(value));
}

std::string label(std::string_view name, std::string_view value) {
  std::string text = fmt::format("{}=\"", name);
  for (const char c : schema::utf8_text(value, kMaxLabelBytes)) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

void append_metric_head(std::string& out, std::string_view name, std::string_view type,
                        std::string_view help) {
  out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

void append_single(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                   double value) {
  append_metric_head(out, name, type, help);
  append_metric(out, name, "", value);
}

std::string service_metrics(const pipeline::ServiceFigures& figures) {
  std::string out;
  append_metric_head(out, "driftgate_promotions", "gauge", "Promotions by state.");
  for (const auto& [state, count] : figures.promotions_by_state)
    append_metric(out, "driftgate_promotions", fmt::format("state=\"{}\"", state),
                  static_cast<double>(count));
  append_single(out, "driftgate_models", "gauge", "Models.", static_cast<double>(figures.models));
  append_single(out, "driftgate_pipeline_queue", "gauge", "Events that wait in the pipeline's queue.",
                static_cast<double>(figures.queue_length));
  append_single(out, "driftgate_jobs_running", "gauge", "Jobs that run now.",
                static_cast<double>(figures.jobs_running));
  append_metric_head(out, "driftgate_jobs", "gauge",
                     "Jobs that have not ended, by runner and where they stand.");
  for (const auto& [at, count] : figures.jobs)
    append_metric(out, "driftgate_jobs", fmt::format("runner=\"{}\",state=\"{}\"", at.first, at.second),
                  static_cast<double>(count));
  append_single(out, "driftgate_transitions_total", "counter", "State changes of promotions.",
                static_cast<double>(figures.transitions));
  append_single(out, "driftgate_windows_total", "counter", "Telemetry windows consumed.",
                static_cast<double>(figures.windows));
  append_single(out, "driftgate_other_requests_total", "counter",
                "Requests in these windows that were passed on without being judged.",
                static_cast<double>(figures.others));
  append_single(out, "driftgate_other_requests_failed_total", "counter",
                "Those of them that no engine answered well.", static_cast<double>(figures.others_failed));
  append_single(out, "driftgate_telemetry_age_seconds", "gauge",
                "Age of the newest telemetry window; -1 when none was seen.",
                figures.telemetry_age_ms < 0 ? -1.0 : static_cast<double>(figures.telemetry_age_ms) / 1000.0);
  append_single(out, "driftgate_route_agrees", "gauge", "1 when every route was read back as desired.",
                figures.route_agrees ? 1 : 0);
  append_single(out, "driftgate_withdrawals_unrecorded", "gauge",
                "Models of which a version was withdrawn, which is not recorded yet.",
                static_cast<double>(figures.unrecorded.size()));
  append_single(out, "driftgate_guards", "gauge", "Guards that watch a promoted version.",
                static_cast<double>(figures.guards));
  append_single(out, "driftgate_guards_alarming", "gauge", "Guards that alarm, or whose order waits.",
                static_cast<double>(figures.guards_alarming));
  append_single(out, "driftgate_guards_unread", "gauge",
                "Guards whose stored state cannot be read: nothing is watched.",
                static_cast<double>(figures.guards_unread));
  append_single(out, "driftgate_guards_rescoring", "gauge",
                "Guards that have live answers scored again by the training kernel's engine.",
                static_cast<double>(figures.guards_rescoring));
  append_single(out, "driftgate_guards_not_rescoring", "gauge",
                "Guards that are to do so and cannot now: GET /v1/models/{name} says why.",
                static_cast<double>(figures.guards_not_rescoring));
  return out;
}

}  // namespace driftgate::api
