#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"
#include "schema/evidence/canonical_entry.hpp"

namespace driftgate::schema {

/// What an entry of the log records (docs/design/evidence.md, "The log"). The meaning of a kind never
/// changes; entry_kinds.hpp has the members of each.
enum class EvidenceKind : std::uint8_t {
  contract_registered,
  kernel_registered,
  engine_registered,
  model_bootstrapped,
  promotion_requested,
  state_changed,
  job_finished,
  verdict_reached,
  route_desired,
  route_applied,
  escalation_decided,
  approval_given,
  waiver_given,
  hold_set,
  hold_lifted,
  schedule_fired,
  schedule_skipped,
  token_granted,
  token_revoked,
  evidence_read,
  evidence_redacted,
  daemon_started,
  clock_stepped,
  block_set,
  block_lifted,
  key_rotated,
  epoch_changed,
  schedule_set,
  schedule_deleted,
  router_replaced,
  breaker_changed,
  guard_armed,
  guard_alarmed,
  guard_decided,
  guard_ended,
  recipe_set,
  recipe_deleted,
};

inline constexpr std::size_t kEvidenceKinds = 37;

[[nodiscard]] std::string_view to_string(EvidenceKind kind);
/// The kind of this name. Error: `invalid_argument` for an unknown name.
[[nodiscard]] Result<EvidenceKind> parse_evidence_kind(std::string_view name);

/// What an entry is about; only members that apply are present. `stage` is a name such as "offline-numeric"
/// (docs/design/pipeline.md, "The four stages"), `checkpoint` and `contract` are digests ("sha256:…"), and
/// `attempt` counts from 1. `prior` is the `seq` of the previous entry about the same promotion. The log sets
/// it, so that a reader of some entries of a promotion notices if one between them is missing.
struct EvidenceSubject {
  std::optional<std::string> model{};
  std::optional<std::string> promotion{};
  std::optional<std::string> stage{};
  std::optional<std::int64_t> attempt{};
  std::optional<std::string> checkpoint{};
  std::optional<std::string> contract{};
  std::optional<std::int64_t> prior{};
  bool operator==(const EvidenceSubject&) const = default;
};

/// An entry before the log has numbered it. `time_us` is the wall clock in microseconds since the epoch.
/// `actor` is the name of the token that was used, or a reserved name (names.hpp), such as "driftgate" for
/// the daemon itself. The members "clause" and "verdict" of `body`, both strings, are those that entries are
/// searched by.
struct EntryDraft {
  std::int64_t time_us = 0;
  EvidenceKind kind = EvidenceKind::state_changed;
  std::string actor{};
  EvidenceSubject subject{};
  EntryValue::Object body{};
};

struct Entry {
  std::int64_t seq = 0;  ///< index of the leaf in the Merkle tree, from 0
  EntryDraft draft{};
};

/// The canonical bytes of `{"actor":…,"body":…,"kind":…,"seq":…,"subject":…,"time_us":…,"v":1}`. Errors:
/// those of write_canonical, and `invalid_argument` for a negative seq or time or an empty actor.
[[nodiscard]] Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft);
/// The same with this `prior` in place of the draft's.
[[nodiscard]] Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft,
                                               const std::optional<std::int64_t>& prior);

/// Decodes an entry and checks that its bytes are canonical and have exactly the members above with their
/// types. The body is not checked against the kind. Errors: those of parse_canonical, and `invalid_document`.
[[nodiscard]] Result<Entry> decode_entry(std::string_view bytes);

}  // namespace driftgate::schema
