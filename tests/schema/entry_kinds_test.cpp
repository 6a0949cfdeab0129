#include "schema/evidence/entry_kinds.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/schema/valijson.hpp"

namespace driftgate::schema {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

bool fits_schema(const EntryDraft& draft) {
  const auto document = nlohmann::json::parse(entry_json_schema(draft.kind));
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(Adapter(document), schema);
  const auto entry = nlohmann::json::parse(encode_entry(7, draft).value());
  valijson::Validator validator;
  return validator.validate(schema, Adapter(entry), nullptr);
}

EntryValue sample_of(EntryFieldType type) {
  switch (type) {
    case EntryFieldType::text:
      return "text";
    case EntryFieldType::integer:
      return 3;
    case EntryFieldType::boolean:
      return true;
    case EntryFieldType::measured:
      return EntryValue::measured(0.25);
    case EntryFieldType::structure:
      return EntryValue::Object{};
    case EntryFieldType::list:
      return EntryValue::Array{};
    case EntryFieldType::any:
      break;
  }
  return nullptr;
}

EntryDraft sample(EvidenceKind kind, bool with_optional) {
  EntryDraft draft{
      .time_us = 5, .kind = kind, .actor = "ada", .subject = {.model = "tiny", .attempt = 1, .prior = 2}};
  for (const EntryField& field : entry_kind_spec(kind).fields) {
    if (field.required || with_optional) draft.body.emplace(field.name, sample_of(field.type));
  }
  return draft;
}

}  // namespace

TEST_CASE("each kind of entry has a schema that takes what the table says, and nothing less") {
  for (std::size_t i = 0; i < kEvidenceKinds; ++i) {
    const auto kind = static_cast<EvidenceKind>(i);
    CAPTURE(to_string(kind));
    for (const bool with_optional : {false, true}) {
      const EntryDraft draft = sample(kind, with_optional);
      CHECK(check_entry_kind(draft));
      CHECK(fits_schema(draft));
    }
    for (const EntryField& field : entry_kind_spec(kind).fields) {
      CAPTURE(field.name);
      EntryDraft draft = sample(kind, true);
      draft.body.erase(draft.body.find(field.name));
      CHECK(check_entry_kind(draft).has_value() == !field.required);
      CHECK(fits_schema(draft) == !field.required);
      if (field.type == EntryFieldType::any) continue;
      draft.body.insert_or_assign(std::string(field.name),
                                  field.type == EntryFieldType::text ? EntryValue(1) : EntryValue("other"));
      CHECK(!check_entry_kind(draft));
      CHECK(!fits_schema(draft));
    }
  }
}

TEST_CASE("a schema takes entries of its own kind alone") {
  EntryDraft draft = sample(EvidenceKind::hold_set, true);
  CHECK(fits_schema(draft));
  const auto document = nlohmann::json::parse(entry_json_schema(EvidenceKind::hold_lifted));
  CHECK(document["properties"]["kind"]["const"] == "hold_lifted");
  CHECK(document["$id"] == "/schemas/entries/hold_lifted.json");
}

}  // namespace driftgate::schema
