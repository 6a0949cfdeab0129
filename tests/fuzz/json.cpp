#include "schema/json.hpp"

#include <nlohmann/json.hpp>

#include "tests/fuzz/unit.hpp"

/// JSON from outside.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto checked = schema::check_json(bytes);
  const auto parsed = schema::parse_json(bytes);
  require(checked.has_value() == parsed.has_value(), "check_json and parse_json agree");
  if (!parsed) return;
  const auto canonical = schema::canonical_json(*parsed);
  const auto again = schema::parse_json(canonical);
  require(!again || schema::canonical_json(*again) == canonical, "the canonical form is a fixed point");
}
