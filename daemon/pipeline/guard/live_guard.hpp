#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/engines/golden.hpp"
#include "daemon/pipeline/guard/rescoring_state.hpp"
#include "daemon/store/promotions/guards.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/guard/guard.hpp"
#include "stages/guard/identity.hpp"
#include "stages/guard/probe_watch.hpp"

namespace driftgate::pipeline {

/// What an alarm has ordered, until it was carried out.
struct GuardOrder {
  schema::Action action = schema::Action::notify;
  std::string what;                        ///< "traffic", "probes", "identity" or "rescoring"
  std::string clause;                      ///< of traffic and rescoring
  std::vector<schema::SliceWhere> slices;  ///< of route_slice
  std::string rule, reason;
};

/// What the alarms of a guard have led to, as stored in its row.
struct GuardOrders {
  std::optional<GuardOrder> pending;
  bool all_away = false;                 ///< all traffic went to the fallback kernel
  std::vector<schema::SliceWhere> away;  ///< slices that went there

  [[nodiscard]] bool sent_away() const { return all_away || !away.empty(); }
};
[[nodiscard]] std::string to_json(const GuardOrders& orders);
[[nodiscard]] schema::Result<GuardOrders> guard_orders_from_json(const std::string& text);

/// The golden probes of a guard, as stored in its row.
struct GuardProbes {
  std::vector<std::string> prompts;
  std::optional<stages::ProbeWatch> watch;  ///< once prompts were chosen
  std::string why;                          ///< why there are no probes; "" = there are, or will be
  std::int64_t day = 0;                     ///< of `tokens`, since the epoch
  std::uint64_t tokens = 0;                 ///< spent on that day
  std::int64_t newest_us = 0;               ///< when the newest answer came; 0 = none
  std::uint64_t unanswered = 0;             ///< in a row
  bool alarming = false;
};
[[nodiscard]] std::string to_json(const GuardProbes& probes);
[[nodiscard]] schema::Result<GuardProbes> guard_probes_from_json(const std::string& text);

/// The watch over an engine's identity, as stored in its row.
struct GuardIdentity {
  std::optional<stages::Identity> first;  ///< until a second answer tells which members are stable
  std::optional<stages::IdentityWatch> watch;
  std::int64_t newest_us = 0;  ///< when the newest answer came; 0 = none
};
[[nodiscard]] std::string to_json(const GuardIdentity& identity);
[[nodiscard]] schema::Result<GuardIdentity> guard_identity_from_json(const std::string& text);

/// An armed guard, as the loop holds it; everything in it can be rebuilt from the store.
struct LiveGuard {
  store::GuardRow row;
  std::shared_ptr<const schema::Contract> contract;
  store::VersionRow version;
  jobs::GoldenEngine engine;  ///< of the version
  stages::GuardState tests;
  GuardOrders orders;
  GuardProbes probes;
  GuardIdentity identity;
  GuardRescoring rescoring;
  RescoringLoop rescoring_loop{};
  std::int64_t next_probe_us = 0, next_identity_us = 0;
  std::int64_t retry_at_us = 0;  ///< an order is carried out, or the guard read again, not before
  std::uint32_t failures = 0;    ///< of an order, in a row
  bool unsaved = false;          ///< `row` says more than the store: see store_guards
  bool asking = false;           ///< a look at its engine will come back
  bool acting = false;           ///< what an order needs is being looked at beside the loop
};

}  // namespace driftgate::pipeline
