#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/route/asio_types.hpp"
#include "daemon/route/health/engine.hpp"
#include "daemon/route/relay/deadlines.hpp"
#include "daemon/route/relay/upstream.hpp"
#include "daemon/route/worker/core.hpp"

namespace driftgate::route {

/// Whether an engine is well by its answer to a probe: any answer says so but one of 5xx, of which 501 says
/// only that it has no such path.
[[nodiscard]] bool is_well(int status);
/// True when the answer to GET /health says that the engine does not have it: GET /v1/models is asked then.
[[nodiscard]] bool lacks_health(int status);

/// Asks each engine of each route for its health now and then, and at once when it has failed: so a breaker
/// opens without traffic, and opens soon when there is little, and a request tries the engine again only when
/// it answers. One thread.
class Prober {
 public:
  static constexpr std::chrono::milliseconds kLook{50};   ///< between two looks at who is due
  static constexpr std::chrono::milliseconds kAgain{50};  ///< to the next probe of an engine that has failed
  static constexpr std::chrono::milliseconds kAgainOpen{250};  ///< the same while its breaker is open
  static constexpr std::uint64_t kPatientAfterMs = 10'000;  ///< open for longer, it is probed as others are
  static constexpr std::size_t kMaxProbes = 64;             ///< at once

  Prober(RouterCore& core, asio::io_context& io, Deadlines& deadlines)
      : core_(core), deadlines_(deadlines), pool_(io, std::chrono::milliseconds(core.options.connect_ms)) {}

  void tick(Deadlines::Time now);
  /// Closes its connections.
  void clear() { pool_.clear(); }

 private:
  struct Probed {
    std::weak_ptr<Engine> engine;
    Deadlines::Time due;
    bool asking = false;
    bool was_troubled = false;  ///< when it was probed last
    bool asks_models = false;   ///< it has no /health
  };
  [[nodiscard]] std::chrono::milliseconds pause(const Engine& engine, bool answered,
                                                Deadlines::Time now) const;
  Task<void> probe(std::shared_ptr<Engine> engine);
  Task<std::string> ask(const Engine& engine, std::string_view path, int& status);

  RouterCore& core_;
  Deadlines& deadlines_;
  UpstreamPool pool_;
  std::map<std::string, Probed> probed_;  ///< by URL
  Deadlines::Time next_look_{};
  std::size_t asking_ = 0;
};

}  // namespace driftgate::route
