#pragma once

#include <cstdint>
#include <memory>

#include "daemon/route/core.hpp"
#include "daemon/route/endpoint.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// One thread of the data plane with its own event loop, listener, engine connections and mirrors.
class Worker {
 public:
  /// `keeps_time`: this worker also closes windows and watches the dead-man time; one of them does.
  static std::unique_ptr<Worker> make(RouterCore& core, std::uint64_t random_seed, bool keeps_time);
  virtual ~Worker() = default;  ///< ends the thread and what is in flight

  /// Binds; the port, which may have been asked for as 0. `share_port`: other workers bind it too.
  virtual schema::Result<std::uint16_t> listen(const Endpoint& at, bool share_port) = 0;
  virtual void start() = 0;
  /// Accepts no more and closes idle connections; returns at once.
  virtual void drain() = 0;
};

}  // namespace driftgate::route
