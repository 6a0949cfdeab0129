#include "schema/evidence/canonical_entry.hpp"
#include "schema/evidence/evidence_entry.hpp"
#include "tests/fuzz/unit.hpp"

/// Evidence entries, whose bytes must be their only form.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto value = schema::parse_canonical(bytes);
  if (value) {
    const auto written = schema::write_canonical(*value);
    require(written.has_value() && *written == bytes, "what is accepted is written back byte for byte");
  }
  const auto entry = schema::decode_entry(bytes);
  if (!entry) return;
  require(value.has_value(), "an entry is in canonical form");
  const auto encoded = schema::encode_entry(entry->seq, entry->draft);
  require(encoded.has_value() && *encoded == bytes, "an entry is encoded back byte for byte");
}
