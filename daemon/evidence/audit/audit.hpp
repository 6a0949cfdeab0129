#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/evidence/log/query.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

// Questions of auditors. Each is answered from the entries alone, as a JSON object.

/// What served a model at a time, and why: the newest applied route by then, and for each version in it since
/// when it had a share, whether it had leave (ServingLeave), and what brought it there: its promotion, contract,
/// approvals, waivers, verdicts by seq, or the bootstrap. `not_found` when no route was applied before.
Result<std::string> served_at(store::Reader& reader, const std::string& model, std::int64_t time_us);

/// The part of the log whose entries lie in a time: [from_size, to_size) holds them all, and, only where the
/// clock was set back, others too.
struct TimeSpan {
  std::uint64_t from_size = 0;  ///< entries before the first one at or after from_us
  std::uint64_t to_size = 0;    ///< entries up to the last one before to_us
};
Result<TimeSpan> span_of(store::Reader& reader, std::int64_t from_us, std::int64_t to_us);

/// What began to serve in a time range: promotions that succeeded, first versions, and what served without
/// leave.
struct PopulationRequest {
  std::int64_t from_us = 0;  ///< inclusive
  std::int64_t to_us = 0;    ///< exclusive
  std::optional<std::string> model{};
  std::optional<std::int64_t> cursor{};
  std::int64_t limit = 100;  ///< 1 … kMaxPage
};
struct Population {
  std::uint64_t tree_size = 0;
  TimeSpan span{};
  std::string items{};  ///< a JSON array
  std::optional<std::int64_t> next{};
};
Result<Population> population(store::Reader& reader, const PopulationRequest& request);

/// Entries that a sample is drawn from: those of the filter among the first `size`.
inline constexpr std::size_t kMaxSampled = 1'000;
inline constexpr std::size_t kMaxSamplePopulation = 250'000;
struct SampleRequest {
  std::string seed{};
  std::size_t count = 25;               ///< 1 … kMaxSampled
  std::optional<std::uint64_t> size{};  ///< nothing: all that there are
  EntryFilter filter{};                 ///< its page members are not looked at
};
/// The `count` entries with the smallest SHA-256(seed ‖ ":" ‖ seq in decimal), in that order: whoever has the
/// log draws the same ones. `limit_exceeded` when the filter leaves more than kMaxSamplePopulation entries.
Result<std::string> sample(store::Reader& reader, const SampleRequest& request);

/// Where people deviated from the usual procedure: waivers, refused decisions on one's own request, first
/// versions, ends and rollbacks by hand, lifted holds and blocks, redactions, applied routes without leave
/// (ServingLeave).
struct ExceptionsRequest {
  std::optional<std::string> model{};
  std::optional<std::string> promotion{};
  std::optional<std::int64_t> from_us{};
  std::optional<std::int64_t> to_us{};
  std::optional<std::int64_t> cursor{};  ///< seq of the last entry before; exclusive
  std::int64_t limit = 100;
};
Result<EntryPage> exceptions(store::Reader& reader, const ExceptionsRequest& request);

}  // namespace driftgate::evidence
