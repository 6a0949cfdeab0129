#include "daemon/jobs/job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

/// Results are written by our own workers, yet a job's folder lies on a disk: the limits hold there too.
constexpr schema::JsonLimits kLimits{.bytes = 8u << 20, .depth = 32, .values = 200'000};

/// Of an error: it goes into evidence entries, and may quote bytes of files and of other programs.
constexpr std::size_t kMaxMessageBytes = 4'096;

std::optional<ErrorCode> code_from_name(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (schema::to_string(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return std::nullopt;
}

schema::Error error_from_json(const json& value) {
  schema::Error error;
  error.code = code_from_name(value.value("code", "internal")).value_or(ErrorCode::internal);
  error.message = value.value("message", "");
  error.where = value.value("where", "");
  return error;
}

std::map<std::string, std::string> texts(const json& value, const char* name) {
  std::map<std::string, std::string> found;
  if (!value.contains(name)) return found;
  for (const auto& [key, text] : value.at(name).items()) found[key] = text.get<std::string>();
  return found;
}

}  // namespace

std::string_view to_string(JobKind kind) {
  switch (kind) {
    case JobKind::drift:
      return "drift";
    case JobKind::capture:
      return "capture";
    case JobKind::rescore:
      return "rescore";
  }
  return "unknown";
}

std::optional<JobKind> kind_from_name(std::string_view name) {
  for (const auto kind : {JobKind::drift, JobKind::capture, JobKind::rescore}) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string to_json(const JobSpec& spec) {
  const json limits{{"address_space_bytes", spec.limits.address_space_bytes},
                    {"cpu_seconds", spec.limits.cpu_seconds},
                    {"wall_ms", spec.limits.wall_ms},
                    {"output_bytes", spec.limits.output_bytes}};
  return schema::canonical_json(json{{"key", spec.key},
                                     {"kind", to_string(spec.kind)},
                                     {"limits", limits},
                                     {"payload", json::parse(spec.payload)}});
}

schema::Result<JobSpec> job_spec_from_json(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, kLimits, "spec.json"));
  try {
    JobSpec spec;
    spec.key = parsed.at("key").get<std::string>();
    const auto name = parsed.at("kind").get<std::string>();
    const auto kind = kind_from_name(name);
    if (!kind)
      return schema::fail(ErrorCode::invalid_document, fmt::format("spec.json: unknown kind '{}'", name),
                          "/kind");
    spec.kind = *kind;
    const auto& limits = parsed.at("limits");
    limits.at("address_space_bytes").get_to(spec.limits.address_space_bytes);
    limits.at("cpu_seconds").get_to(spec.limits.cpu_seconds);
    limits.at("wall_ms").get_to(spec.limits.wall_ms);
    limits.at("output_bytes").get_to(spec.limits.output_bytes);
    spec.payload = parsed.at("payload").dump();
    return spec;
  } catch (const json::exception& fault) {
    return schema::fail(ErrorCode::invalid_document, fmt::format("spec.json: {}", fault.what()));
  }
}

std::string to_json(const JobResult& result) {
  json value{{"ok", result.ok},
             {"summary", json::parse(result.summary.empty() ? "{}" : result.summary)},
             {"files", result.files},
             {"digests", result.digests},
             {"wall_ms", result.wall_ms}};
  if (result.error) {
    // The place is a member of its own: in the message too, it would be told twice.
    auto told = *result.error;
    told.where.clear();
    value["error"] = {{"code", schema::to_string(result.error->code)},
                      {"message", schema::utf8_text(told.describe(), kMaxMessageBytes)},
                      {"where", schema::utf8_text(result.error->where, kMaxMessageBytes)}};
  }
  return schema::canonical_json(value);
}

schema::Result<JobResult> job_result_from_json(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, kLimits, "result.json"));
  try {
    for (const char* name : {"summary", "files", "digests"}) {
      if (parsed.is_object() && parsed.contains(name) && !parsed.at(name).is_object())
        return schema::fail(ErrorCode::invalid_document, fmt::format("result.json: {} is no object", name),
                            fmt::format("/{}", name));
    }
    JobResult result;
    result.ok = parsed.at("ok").get<bool>();
    if (parsed.contains("error")) result.error = error_from_json(parsed.at("error"));
    result.summary = schema::canonical_json(parsed.value("summary", json::object()));
    result.files = texts(parsed, "files");
    result.digests = texts(parsed, "digests");
    result.wall_ms = parsed.value("wall_ms", std::int64_t{0});
    if (!result.ok && !result.error) {
      return schema::fail(ErrorCode::invalid_document, "result.json says that the job failed but not why",
                          "/error");
    }
    return result;
  } catch (const json::exception& fault) {
    return schema::fail(ErrorCode::invalid_document, fmt::format("result.json: {}", fault.what()));
  }
}

}  // namespace driftgate::jobs
