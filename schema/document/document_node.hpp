#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Limits of a document (docs/design/contract.md, "Limits of the document"): bytes, levels of nesting, and
/// values.
inline constexpr std::size_t kMaxDocumentBytes = 256 * 1024;
inline constexpr std::size_t kMaxDocumentDepth = 32;
inline constexpr std::size_t kMaxDocumentNodes = 10'000;

/// A value of a document that people write, with its position. YAML and JSON give the same tree: plain
/// scalars of YAML are resolved by the core schema of YAML 1.2, quoted ones are text, and numbers are finite
/// doubles.
struct DocumentNode {
  enum class Kind : std::uint8_t { null, boolean, number, text, list, mapping };
  struct Member;

  Kind kind = Kind::null;
  SourcePosition position;
  std::string text;  ///< the text, or a scalar as it was written
  double number = 0;
  bool flag = false;
  std::vector<DocumentNode> items;
  std::vector<Member> members;  ///< in the order of the document; keys are unique
};

struct DocumentNode::Member {
  std::string key;
  SourcePosition position;  ///< of the key
  DocumentNode value;
};

/// Reads a document in YAML, or in JSON if the first character other than white space is `{`. Refuses
/// documents that exceed the limits above, an empty or a second document, anchors, aliases, tags, merge keys,
/// duplicate keys, a byte-order mark, control characters, invalid UTF-8, numbers that are not finite and
/// integers beyond 2^53 − 1 (docs/design/evidence.md, "Limits on what comes in"). If the document is refused,
/// the fault is added to `faults` and std::nullopt is returned.
[[nodiscard]] std::optional<DocumentNode> read_document(std::string_view text, std::vector<Fault>& faults);

/// Converts the tree to JSON, from which the canonical form is made.
[[nodiscard]] nlohmann::json to_json(const DocumentNode& node);

namespace detail {

/// Thrown inside the readers and caught in read_document. The event interface of yaml-cpp has no other way to
/// stop.
struct Refused {
  Fault fault;
};

[[nodiscard]] DocumentNode read_yaml(std::string_view text);
/// Precondition: check_json has accepted `text`.
[[nodiscard]] DocumentNode read_checked_json(std::string_view text);

/// Sets the kind and the value of a plain scalar from its text by the core schema. Throws Refused for a
/// number that is not finite or an integer beyond 2^53 − 1.
void resolve_plain_scalar(DocumentNode& node);

}  // namespace detail
}  // namespace driftgate::schema
