#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/notify/sender.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::notify {

/// The webhook endpoints as operators see them. `not_found` for a name that is not in the settings.
class Desk {
 public:
  virtual ~Desk() = default;
  /// {"items": [endpoint], "next": null}; an endpoint is {"name", "url", "events", "disabled": {"since_us",
  /// "reason"} | null, "pending", "delivered", "failed", "dropped", "last_error"}, its counts of what is
  /// kept.
  virtual schema::Result<std::string> list() = 0;
  /// Puts a message of type "driftgate.test" into the outbox; the endpoint.
  virtual schema::Result<std::string> test(const std::string& actor, const std::string& name) = 0;
  /// Sends to the endpoint again after a 410; the endpoint.
  virtual schema::Result<std::string> enable(const std::string& name) = 0;
};

/// `wake` is called after something was put that may be sent.
[[nodiscard]] std::unique_ptr<Desk> stored_desk(store::Store& store, std::vector<EndpointSettings> endpoints,
                                                std::function<std::int64_t()> now_us,
                                                std::function<void()> wake);

}  // namespace driftgate::notify
