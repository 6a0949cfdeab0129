#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/pipeline/context.hpp"
#include "daemon/route/control/telemetry.hpp"

namespace driftgate::pipeline {

/// Follows the breakers that the data plane keeps for engines: each opening and each closing is recorded
/// once, and Context::outages holds the engines that do not answer now.
class BreakerWatch {
 public:
  explicit BreakerWatch(Context& context) : context_(context) {}
  /// Reads what the breakers did. What cannot be recorded now is read again. While the data plane does not
  /// answer nothing is known to be out.
  void look();
  /// Canaries whose candidate has not answered for so long that they are to be decided on that now.
  [[nodiscard]] std::vector<std::string> due() const;

 private:
  schema::Result<void> record(const std::string& router, const route::BreakerEvent& event);
  void note_outages(const route::HealthReport& report);

  Context& context_;
  route::WindowPosition position_;  ///< of the newest event that was recorded
};

}  // namespace driftgate::pipeline
