#pragma once

#include <string>
#include <string_view>

#include "daemon/route/control/telemetry.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"
#include "stages/dependence/failure_history.hpp"
#include "stages/dependence/latency_history.hpp"

namespace driftgate::pipeline {

/// The stream state of a shadow stage that holds the history.
inline constexpr std::string_view kIncumbentStream = "incumbent";

/// What the router saw of a model's incumbent, in every window and whatever stage ran: its failures, its
/// stalls and how its latencies wander, for the canaries to come. Times are the router's clock of routing. It
/// is remembered by this process, and by a promotion in shadow with its stage. Another incumbent begins
/// afresh.
class IncumbentHistory {
 public:
  /// A window that was added before is left out, and one during which the fallback kernel served requests.
  void add(const route::Window& window, const route::ModelRoute& route);
  [[nodiscard]] const stages::FailureHistory& failures() const { return failures_; }
  [[nodiscard]] const stages::LatencyHistory& latencies() const { return latencies_; }

  [[nodiscard]] std::string text() const;
  /// Adopts the history in `text` if it is of this incumbent and covers more time than the remembered one.
  schema::Result<void> adopt(std::string_view text, std::string_view incumbent);
  /// What this promotion's stages had kept was adopted: once for each promotion that this process goes on
  /// with.
  [[nodiscard]] bool recalled_for(std::string_view promotion) const { return recalled_for_ == promotion; }
  void mark_recalled(std::string_view promotion) { recalled_for_ = promotion; }

 private:
  std::string incumbent_;  ///< version id
  route::WindowPosition newest_;
  stages::FailureHistory failures_;
  stages::LatencyHistory latencies_;
  std::string recalled_for_;
};

}  // namespace driftgate::pipeline
