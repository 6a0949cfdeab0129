#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

inline constexpr std::size_t kMaxMetadataEntries = 64;

/// What the router reads of a completion request.
struct BodyFacts {
  std::string model;
  std::string user;  ///< empty when absent
  bool stream = false;
  std::map<std::string, std::string> metadata;  ///< its string values
  std::uint64_t max_tokens = 0;                 ///< 0 when absent; max_completion_tokens counts too
  std::uint64_t choices = 1;                    ///< `n`
  std::uint32_t prompt_chars = 0;               ///< code points of `prompt`, or of all message contents
  bool operator==(const BodyFacts&) const = default;
};

/// Scans a request body without building a tree. Refuses what is not one JSON object with a string
/// `model`, what has a byte-order mark or a NUL byte, what is nested deeper than kMaxJsonDepth, and members
/// that are read here and given twice: router and engine must not understand different things.
[[nodiscard]] schema::Result<BodyFacts> scan_request_body(std::string_view body);

/// What the router reads of a whole answer.
struct AnswerFacts {
  bool has_list = false;  ///< the top object has the array that was asked for
  std::string status;     ///< its member of that name; empty when it has none that is a string
};

/// Scans an answer's body, whose top object should have the array `list`. Nothing for what is not one JSON
/// object. A byte-order mark before it and what stands behind a NUL byte are ignored.
[[nodiscard]] std::optional<AnswerFacts> scan_answer_body(std::string_view body, std::string_view list);

/// True when the text is one JSON object with an array `choices`, as a completion's answer must be.
[[nodiscard]] bool is_completion(std::string_view body);

}  // namespace driftgate::route
