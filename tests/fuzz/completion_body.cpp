#include "daemon/route/http/body_json.hpp"

#include "daemon/route/table/slice.hpp"
#include "tests/daemon/route/body_oracle.hpp"
#include "tests/fuzz/unit.hpp"

/// Bodies of users' requests and of engines' answers.
void driftgate::fuzz::run(std::string_view bytes) {
  require(route::oracle::agree_on_answer(bytes), "two parsers take the same texts for a completion");
  require(route::oracle::agree_on_request(bytes), "two parsers read the same in a request");
  const auto facts = route::scan_request_body(bytes);
  if (!facts) return;
  require(facts->metadata.size() <= route::kMaxMetadataEntries, "metadata is within its limit");
  const auto slice = route::slice_of_metadata(facts->metadata);
  const auto text = route::canonical_slice(slice);
  if (slice.empty()) return;
  const auto again = route::parse_slice_header(text);
  require(again.has_value() && *again == slice, "a slice of metadata can be said in the header");
}
