#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::schema {

/// What a member of an entry's body may be. `measured` is {"dec", "hex"}; `structure` an object, or where
/// names of its members are no keys of entries, a list of {"name", "value"}.
enum class EntryFieldType : std::uint8_t { text, integer, boolean, measured, structure, list, any };

/// One member of the body of a kind of entry.
struct EntryField {
  std::string_view name;
  EntryFieldType type = EntryFieldType::text;
  bool required = true;
  std::string_view meaning;
};

/// The members of a kind's body, and a sentence on when it is written. A kind only ever gains optional
/// members.
struct EntryKindSpec {
  EvidenceKind kind = EvidenceKind::state_changed;
  std::string_view meaning;
  std::span<const EntryField> fields;
};
[[nodiscard]] const EntryKindSpec& entry_kind_spec(EvidenceKind kind);

/// That an entry's body has the members of its kind, of their types; `invalid_document` names the first fault.
[[nodiscard]] Result<void> check_entry_kind(const EntryDraft& entry);

/// The JSON Schema (2020-12) of entries of a kind: the envelope as it is, the body as the table says.
[[nodiscard]] std::string entry_json_schema(EvidenceKind kind);

}  // namespace driftgate::schema
