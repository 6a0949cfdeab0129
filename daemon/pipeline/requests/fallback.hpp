#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/store/registry/engines.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "schema/evidence/canonical_entry.hpp"

namespace driftgate::pipeline {

/// True when a rule or a default of Π orders route_slice or fallback.
[[nodiscard]] bool may_use_fallback(const schema::Escalation& policy);

/// The engine that route_slice and fallback send traffic to: it serves the candidate's checkpoint with the
/// contract's fallback kernel, since only then is what it answers the same model at higher precision. `named`
/// is the request's `fallback_engine`; without it the only engine that fits is taken. Nothing when Π orders
/// neither action and none is named. `conflict` when Π may order one and no engine fits, `invalid_argument`
/// when several fit or the named one does not; the message says what to do.
[[nodiscard]] schema::Result<std::optional<store::EngineRow>> resolve_fallback(
    store::Reader& reader, const schema::Contract& contract, const std::string& named,
    const store::EngineRow& candidate);

/// What is known of the fallback engine at the moment at which traffic would move to it.
struct CapacityFacts {
  std::string engine;                        ///< its name; "" = the promotion has none
  std::optional<schema::Error> unhealthy{};  ///< what its health probe found wrong
  double requests_per_second = 0;  ///< of the traffic that would be on it, as seen in the last windows
  std::int64_t max_requests_per_second = 0;  ///< as registered; 0 = not stated
};

/// Whether the engine may get the traffic, and why, for evidence.
struct Capacity {
  bool enough = false;
  std::string text;                 ///< a plain sentence
  schema::EntryValue::Object body;  ///< the facts
};

/// Enough when the engine is healthy now and, where a rate is registered, the traffic is within it. Without
/// a registered rate only the health is known, and the sentence says so.
[[nodiscard]] Capacity judge_capacity(const CapacityFacts& facts);

}  // namespace driftgate::pipeline
