#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"
#include "schema/evidence/canonical_entry.hpp"

namespace driftgate::schema {

/// What an entry of the log records (docs/design/evidence.md, "The log"). A kind is versioned, never changed.
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
};

inline constexpr std::size_t kEvidenceKinds = 30;

[[nodiscard]] std::string_view to_string(EvidenceKind kind);
/// `invalid_argument` with the name for an unknown kind.
[[nodiscard]] Result<EvidenceKind> parse_evidence_kind(std::string_view name);

/// What an entry is about: the parts that are present. `stage` is a name of docs/design/pipeline.md, "The
/// four stages" ("offline-numeric"), `checkpoint` and `contract` are digests ("sha256:…"), `attempt` counts
/// from 1. `prior` is the seq of the newest earlier entry about the same promotion: the log writes it, so
/// that who has some entries of a promotion sees whether one between them is missing.
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

/// An entry before the log has given it a number. `time_us`: wall clock, µs since the epoch. `actor`: who did
/// it: a token's name, or "driftgate" for the daemon itself. In `body`, the members "clause" and "verdict"
/// (strings) are what queries by clause and verdict look at.
struct EntryDraft {
  std::int64_t time_us = 0;
  EvidenceKind kind = EvidenceKind::state_changed;
  std::string actor{};
  EvidenceSubject subject{};
  EntryValue::Object body{};
};

/// A decoded entry.
struct Entry {
  std::int64_t seq = 0;  ///< leaf index from 0
  EntryDraft draft{};
};

/// The exact bytes of `{"actor":…,"body":…,"kind":…,"seq":…,"subject":…,"time_us":…,"v":1}`.
/// Errors of write_canonical, and `invalid_argument` for a negative seq or time, or an empty actor.
[[nodiscard]] Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft);
/// The same with this `prior` in the subject, whatever the draft has.
[[nodiscard]] Result<std::string> encode_entry(std::int64_t seq, const EntryDraft& draft,
                                               const std::optional<std::int64_t>& prior);

/// Decodes and validates the bytes of an entry: canonical form, the seven members, their types and no others.
[[nodiscard]] Result<Entry> decode_entry(std::string_view bytes);

}  // namespace driftgate::schema
