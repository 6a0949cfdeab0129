#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/notify/traces/promotion_trace.hpp"
#include "schema/error.hpp"

// OTLP 1.x as JSON (opentelemetry.io/docs/specs/otlp): names in lowerCamelCase, ids as hexadecimal text,
// integers of 64 bits as decimal text, enums as numbers, doubles that are not finite as "NaN", "Infinity" and
// "-Infinity".
namespace driftgate::notify {

/// Who sends, in the resource of every request.
struct OtlpResource {
  std::string version{};   ///< of the program
  std::string instance{};  ///< the log's name: one data folder has one
};

/// The body of POST /v1/traces.
[[nodiscard]] std::string otlp_traces(const OtlpResource& resource, std::span<const Span> spans);
/// The body of POST /v1/logs.
[[nodiscard]] std::string otlp_logs(const OtlpResource& resource, std::span<const SpanEvent> events);
/// How many of a request's items a collector that answered 200 has refused: `partialSuccess`; 0 for an answer
/// that says nothing of it.
[[nodiscard]] std::uint64_t otlp_rejected(std::string_view answer);

}  // namespace driftgate::notify
