#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::schema {

/// The type of a member of an entry's body. `measured` is an object {"dec", "hex"}. `structure` is an object,
/// or a list of objects {"name", "value"} where names of its members are not valid keys of entries.
enum class EntryFieldType : std::uint8_t { text, integer, boolean, measured, structure, list, any };

/// One member of the body of a kind of entry.
struct EntryField {
  std::string_view name;
  EntryFieldType type = EntryFieldType::text;
  bool required = true;
  std::string_view meaning;
};

/// A kind of entry: one sentence on when it is written, and the members of its body. Later versions may add
/// optional members and change nothing else.
struct EntryKindSpec {
  EvidenceKind kind = EvidenceKind::state_changed;
  std::string_view meaning;
  std::span<const EntryField> fields;
};
/// The description of a kind. Every kind has one.
[[nodiscard]] const EntryKindSpec& entry_kind_spec(EvidenceKind kind);

/// Checks that the body has all required members of its kind and that each member of the kind has its type;
/// further members are accepted. Error: `invalid_document`, with a pointer to the first fault in `where`.
[[nodiscard]] Result<void> check_entry_kind(const EntryDraft& entry);

/// The JSON Schema (2020-12) of entries of this kind, including the envelope.
[[nodiscard]] std::string entry_json_schema(EvidenceKind kind);

}  // namespace driftgate::schema
