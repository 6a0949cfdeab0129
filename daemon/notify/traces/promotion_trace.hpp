#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schema/error.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::notify {

/// A value of an OTLP attribute.
using AttributeValue = std::variant<std::string, std::int64_t, double>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// A span that has ended. Ids are lower-case hexadecimal; "" as parent is the root of its trace.
struct Span {
  std::int64_t seq = 0;  ///< of the entry that ended it
  std::string trace{}, id{}, parent{};
  std::string name{};
  std::int64_t start_us = 0, end_us = 0;
  Attributes attributes{};
  std::optional<std::string> error{};  ///< its status is an error, for this reason
};

/// A log record with an event's name, within a span.
struct SpanEvent {
  std::int64_t seq = 0;  ///< of its entry
  std::string trace{}, span{};
  std::string name{};
  std::int64_t time_us = 0;
  Attributes attributes{};
};

/// What the entries of one promotion come to: a span for the promotion and one for each attempt at a stage,
/// both only once they have ended, and an event for each verdict of a clause.
struct PromotionTrace {
  std::vector<Span> spans{};
  std::vector<SpanEvent> events{};
  bool ended = false;  ///< the promotion has
};

inline constexpr std::string_view kEvaluationEvent = "gen_ai.evaluation.result";

/// Ids follow from the promotion's id alone: whoever makes the trace again, after a restart or from a bundle,
/// makes the same one.
[[nodiscard]] std::string trace_id(std::string_view promotion);
[[nodiscard]] std::string span_id(std::string_view promotion, std::string_view stage, std::int64_t attempt);

/// Of the promotion's entries in the order of the log. Entries of other promotions are passed over.
[[nodiscard]] PromotionTrace trace_of(std::string_view promotion, const std::vector<schema::Entry>& entries);

}  // namespace driftgate::notify
