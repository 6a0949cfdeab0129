#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/app/settings.hpp"
#include "schema/error.hpp"

namespace driftgate::night {

/// The daemon as daemon/app/application.cpp puts it together, on a clock and a data plane of the night: the
/// same store, log, tokens, jobs, webhooks, pipeline, schedules and API.
class NightDaemon {
 public:
  [[nodiscard]] static schema::Result<std::unique_ptr<NightDaemon>> start(const app::Settings& settings,
                                                                          std::int64_t now_us);
  ~NightDaemon();

  /// It is `now_us` from here on. Serves a window of requests, lets the pipeline tick, and returns when no
  /// schedule that is due waits to be decided, no job runs and nothing more is recorded. Returns how many
  /// promotions are open.
  [[nodiscard]] schema::Result<std::size_t> advance(std::int64_t now_us,
                                                    const std::vector<std::string>& failing_models);
  /// It is `now_us` from here on; nobody is told.
  void set_clock(std::int64_t now_us);
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Parts;
  explicit NightDaemon(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace driftgate::night
