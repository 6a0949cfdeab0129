#include "daemon/notify/traces/otlp_json.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::notify {
namespace {

using nlohmann::json;

constexpr int kKindInternal = 1;  // Span.SpanKind
constexpr int kStatusError = 2;   // Status.StatusCode
constexpr int kSeverityInfo = 9;  // SeverityNumber
constexpr const char* kScope = "driftgate";

json value_json(const std::string& value) {
  return {{"stringValue", value}};
}
json value_json(std::int64_t value) {
  return {{"intValue", std::to_string(value)}};
}
json value_json(double value) {
  if (std::isnan(value)) return {{"doubleValue", "NaN"}};
  if (std::isinf(value)) return {{"doubleValue", value > 0 ? "Infinity" : "-Infinity"}};
  return {{"doubleValue", value}};
}

json attributes_json(const Attributes& attributes) {
  json list = json::array();
  for (const auto& [key, value] : attributes) {
    auto written = std::visit([](const auto& held) { return value_json(held); }, value);
    list.push_back({{"key", key}, {"value", std::move(written)}});
  }
  return list;
}

std::string nanoseconds(std::int64_t time_us) {
  return std::to_string(time_us * 1'000);
}

json span_json(const Span& span) {
  json value{{"traceId", span.trace},
             {"spanId", span.id},
             {"name", span.name},
             {"kind", kKindInternal},
             {"startTimeUnixNano", nanoseconds(span.start_us)},
             {"endTimeUnixNano", nanoseconds(span.end_us)},
             {"attributes", attributes_json(span.attributes)}};
  if (!span.parent.empty()) value["parentSpanId"] = span.parent;
  if (span.error) value["status"] = {{"code", kStatusError}, {"message", *span.error}};
  return value;
}

json event_json(const SpanEvent& event) {
  return {{"traceId", event.trace},
          {"spanId", event.span},
          {"eventName", event.name},
          {"severityNumber", kSeverityInfo},
          {"timeUnixNano", nanoseconds(event.time_us)},
          {"observedTimeUnixNano", nanoseconds(event.time_us)},
          {"attributes", attributes_json(event.attributes)}};
}

json resource_json(const OtlpResource& resource) {
  return {{"attributes", attributes_json({{"service.name", std::string(kScope)},
                                          {"service.version", resource.version},
                                          {"service.instance.id", resource.instance}})}};
}

/// {"resourceX": [{"resource", "scopeX": [{"scope", ITEMS}]}]}
std::string request_json(const OtlpResource& resource, const char* resources, const char* scopes,
                         const char* items, json list) {
  json scope{{"scope", {{"name", kScope}, {"version", resource.version}}}};
  scope[items] = std::move(list);
  json of_resource{{"resource", resource_json(resource)}};
  of_resource[scopes] = json::array();
  of_resource[scopes].push_back(std::move(scope));
  json request = json::object();
  request[resources] = json::array();
  request[resources].push_back(std::move(of_resource));
  return request.dump();
}

}  // namespace

std::string otlp_traces(const OtlpResource& resource, std::span<const Span> spans) {
  json list = json::array();
  for (const auto& span : spans) list.push_back(span_json(span));
  return request_json(resource, "resourceSpans", "scopeSpans", "spans", std::move(list));
}

std::string otlp_logs(const OtlpResource& resource, std::span<const SpanEvent> events) {
  json list = json::array();
  for (const auto& event : events) list.push_back(event_json(event));
  return request_json(resource, "resourceLogs", "scopeLogs", "logRecords", std::move(list));
}

std::uint64_t otlp_rejected(std::string_view answer) {
  const auto read = json::parse(answer, nullptr, false);
  if (!read.is_object() || !read.contains("partialSuccess")) return 0;
  const auto& partial = read["partialSuccess"];
  for (const char* name : {"rejectedSpans", "rejectedLogRecords"}) {
    if (!partial.is_object() || !partial.contains(name)) continue;
    const auto& count = partial[name];  // an integer of 64 bits: text, which some write as a number
    if (count.is_number_unsigned()) return count.get<std::uint64_t>();
    if (!count.is_string()) continue;
    const auto& text = count.get_ref<const std::string&>();
    std::uint64_t number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec == std::errc{}) return number;
  }
  return 0;
}

}  // namespace driftgate::notify
