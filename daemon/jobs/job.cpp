#include "daemon/jobs/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

constexpr std::array<std::string_view, 3> kKinds{"drift", "capture", "rescore"};  ///< by JobKind

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

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobLimits, address_space_bytes, cpu_seconds, wall_ms, output_bytes)

std::string_view to_string(JobKind kind) {
  return kKinds.at(static_cast<std::size_t>(kind));
}

std::optional<JobKind> kind_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name);
  return found == kKinds.end() ? std::nullopt : std::optional(static_cast<JobKind>(found - kKinds.begin()));
}

std::string to_json(const JobSpec& spec) {
  json value{{"key", spec.key},
             {"kind", to_string(spec.kind)},
             {"limits", spec.limits},
             {"payload", json::parse(spec.payload)}};
  if (spec.ranks != 1) value["ranks"] = spec.ranks;
  return schema::canonical_json(value);
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
    parsed.at("limits").get_to(spec.limits);
    spec.payload = parsed.at("payload").dump();
    const auto ranks = parsed.value("ranks", std::int64_t{1});
    if (ranks < 1 || ranks > kMaxRanks)
      return schema::fail(ErrorCode::limit_exceeded,
                          fmt::format("spec.json: {} ranks; allowed: 1 to {}", ranks, kMaxRanks), "/ranks");
    spec.ranks = static_cast<std::uint32_t>(ranks);
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
    // `where` is a member of its own, so the message must not repeat it.
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
        return schema::fail(ErrorCode::invalid_document,
                            fmt::format("result.json: {} is not an object", name), fmt::format("/{}", name));
    }
    JobResult result;
    result.ok = parsed.at("ok").get<bool>();
    if (parsed.contains("error")) result.error = error_from_json(parsed.at("error"));
    result.summary = schema::canonical_json(parsed.value("summary", json::object()));
    result.files = parsed.value("files", result.files);
    result.digests = parsed.value("digests", result.digests);
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

JobResult failed(schema::Error error) {
  JobResult result;
  result.error = std::move(error);
  return result;
}

JobResult failed(ErrorCode code, std::string message) {
  return failed(schema::Error{code, std::move(message), {}, nullptr});
}

}  // namespace driftgate::jobs
