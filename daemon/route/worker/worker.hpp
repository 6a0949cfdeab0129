#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/worker/core.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// One thread of the data plane with its own event loop, listener, engine connections and mirrors.
class Worker {
 public:
  /// Workers are numbered from 0; the first also closes windows, ends leases that have expired and
  /// probes engines.
  static std::unique_ptr<Worker> make(RouterCore& core, std::uint64_t random_seed, std::size_t number);
  virtual ~Worker() = default;  ///< ends the thread and what is in flight

  /// Takes a listening socket over.
  virtual schema::Result<void> listen(base::UniqueFd listener) = 0;
  virtual void start() = 0;
  /// Accepts no more; returns at once. `close_idle`: closes idle connections as well. Otherwise they may send
  /// one more request, so that none is lost which crosses their end.
  virtual void drain(bool close_idle) = 0;
};

}  // namespace driftgate::route
