#include "schema/evidence/evidence_entry.hpp"

#include <doctest/doctest.h>

using namespace driftgate::schema;

namespace {

const EntryDraft kDraft{.time_us = 1'700'000'000'000'000,
                        .kind = EvidenceKind::verdict_reached,
                        .actor = "driftgate",
                        .subject = {.model = "tiny",
                                    .promotion = "pr-1",
                                    .stage = "canary",
                                    .attempt = 2,
                                    .checkpoint = "sha256:c",
                                    .contract = "sha256:k"},
                        .body = {{"clause", "runtime.errors"}, {"e_value", EntryValue::measured(3.5)}}};
const std::string kBytes =
    R"({"actor":"driftgate","body":{"clause":"runtime.errors","e_value":{"dec":"3.5","hex":"400c000000000000"}},)"
    R"("kind":"verdict_reached","seq":7,"subject":{"attempt":2,"checkpoint":"sha256:c","contract":"sha256:k",)"
    R"("model":"tiny","promotion":"pr-1","stage":"canary"},"time_us":1700000000000000,"v":1})";

}  // namespace

TEST_CASE("an entry's bytes are the envelope with sorted members, and decode to what was meant") {
  CHECK(encode_entry(7, kDraft) == kBytes);
  const auto entry = decode_entry(kBytes);
  REQUIRE(entry.has_value());
  CHECK(entry->seq == 7);
  CHECK(entry->draft.kind == kDraft.kind);
  CHECK(entry->draft.subject == kDraft.subject);
  CHECK(entry->draft.body == kDraft.body);
  CHECK(encode_entry(entry->seq, entry->draft) == kBytes);
}

TEST_CASE("absent parts of the subject are absent from the bytes") {
  CHECK(
      encode_entry(
          0, {.time_us = 1, .kind = EvidenceKind::daemon_started, .actor = "a", .subject = {}, .body = {}}) ==
      R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":1})");
}

TEST_CASE("every kind reads back from its name") {
  for (std::size_t i = 0; i < kEvidenceKinds; ++i) {
    const auto kind = static_cast<EvidenceKind>(i);
    CHECK(parse_evidence_kind(to_string(kind)) == kind);
  }
  CHECK(!parse_evidence_kind(""));
  CHECK(!parse_evidence_kind("made_up"));
}

TEST_CASE("entries without number, time or actor are refused") {
  EntryDraft draft = kDraft;
  CHECK(!encode_entry(-1, draft));
  draft.time_us = -1;
  CHECK(!encode_entry(0, draft));
  draft = kDraft;
  draft.actor.clear();
  CHECK(!encode_entry(0, draft));
}

TEST_CASE("canonical documents that are no entries are refused") {
  for (
      const std::string_view bad :
      {R"(1)", R"([])", R"({})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":2})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":-1,"subject":{},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":"0","subject":{},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":-1,"v":1})",
       R"({"actor":"","body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":1})",
       R"({"actor":1,"body":{},"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":1})",
       R"({"actor":"a","body":[],"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"made_up","seq":0,"subject":{},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":[],"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{"slice":"x"},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{"attempt":"1"},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"kind":"daemon_started","seq":0,"subject":{"model":1},"time_us":1,"v":1})",
       R"({"actor":"a","body":{},"extra":1,"kind":"daemon_started","seq":0,"subject":{},"time_us":1,"v":1})"}) {
    CAPTURE(bad);
    const auto refused = decode_entry(bad);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_document);
  }
}

TEST_CASE("an entry cut at any byte is refused") {
  for (std::size_t cut = 0; cut < kBytes.size(); ++cut) CHECK(!decode_entry(kBytes.substr(0, cut)));
}
