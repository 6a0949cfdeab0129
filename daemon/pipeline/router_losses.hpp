#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/pipeline/context.hpp"
#include "daemon/route/control/router_loss.hpp"

namespace driftgate::pipeline {

/// Records what went with routers that were replaced. The users' service is back already; the record remains.
class RouterLosses {
 public:
  explicit RouterLosses(Context& context) : context_(context) {}
  /// `recorded` is called once the entry is committed.
  void add(route::RouterLoss loss, std::function<void()> recorded);
  /// In order; what cannot be committed now is tried again later.
  void record_all();

 private:
  struct Waiting {
    route::RouterLoss loss;
    std::function<void()> recorded;
  };
  schema::Result<void> record(const route::RouterLoss& loss);

  Context& context_;
  std::vector<Waiting> waiting_;
  std::int64_t next_us_ = 0;
};

}  // namespace driftgate::pipeline
