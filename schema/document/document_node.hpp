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

inline constexpr std::size_t kMaxDocumentBytes = 256 * 1024;
inline constexpr std::size_t kMaxDocumentDepth = 32;
inline constexpr std::size_t kMaxDocumentNodes = 10'000;

/// A value of a document that a person wrote, with its place. YAML and JSON give the same tree: plain
/// YAML scalars follow the core schema of YAML 1.2, quoted ones stay text, numbers are finite doubles.
struct DocumentNode {
  enum class Kind : std::uint8_t { null, boolean, number, text, list, mapping };
  struct Member;

  Kind kind = Kind::null;
  SourcePosition position;
  std::string text;  ///< the text, or a scalar as it was written
  double number = 0;
  bool flag = false;
  std::vector<DocumentNode> items;
  std::vector<Member> members;  ///< in document order, keys unique
};

struct DocumentNode::Member {
  std::string key;
  SourcePosition position;  ///< of the key
  DocumentNode value;
};

/// Reads YAML, or JSON when the first character is `{`. Size, depth and number of nodes are limited;
/// anchors, aliases, tags, merge keys, duplicate keys, a second document, control characters and
/// invalid UTF-8 are refused with their place before any tree grows (docs/design/evidence.md, "Limits on what
/// comes in"). Nothing is returned when there are faults.
[[nodiscard]] std::optional<DocumentNode> read_document(std::string_view text, std::vector<Fault>& faults);

/// The tree as JSON, for the canonical form.
[[nodiscard]] nlohmann::json to_json(const DocumentNode& node);

namespace detail {

/// Thrown and caught inside the readers: yaml-cpp's event interface has no other way to stop.
struct Refused {
  Fault fault;
};

[[nodiscard]] DocumentNode read_yaml(std::string_view text);
/// Precondition: `text` passed check_json.
[[nodiscard]] DocumentNode read_checked_json(std::string_view text);

/// Resolves a plain scalar by the core schema; throws Refused for numbers that no document may hold.
void resolve_plain_scalar(DocumentNode& node);

}  // namespace detail
}  // namespace driftgate::schema
