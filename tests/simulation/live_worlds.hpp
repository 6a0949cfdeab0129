#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Simulated users and engines against which the live comparison (canary and guard) is tested. They were
/// written from the claim alone, without knowledge of how it is implemented.
namespace driftgate::simulation {

/// Which engine serves a request. A user always stays on one arm.
enum class Arm : std::uint8_t { incumbent, candidate };

/// How much worse the candidate is than a twin of the incumbent: its failures (where they are its own, not a
/// stall's, an outage's or a poisoned prompt's) and its latencies, as multiples.
struct Harm {
  double failures = 1;
  double latency = 1;
};

struct LiveRequest {
  double at_s = 0;
  std::uint64_t user = 0;
};

/// A stream of requests and what becomes of them. The state of each engine goes on in time whether or not
/// requests come, and is independent between the arms unless the world says that they share a cause.
class LiveWorld {
 public:
  /// Latency is the time to the first token in ms (also for failures, where it is ignored).
  struct Answer {
    bool failed = false;
    double first_token_ms = 0;
  };

  virtual ~LiveWorld() = default;

  /// The next request of anybody; times never decrease. Time begins at the negative start given to make()
  /// (the history) and goes on without end.
  virtual LiveRequest next() = 0;

  /// What becomes of the request just returned by next() if this arm serves it. Called exactly once for each
  /// request, with the arm that serves it.
  virtual Answer serve(const LiveRequest& request, Arm arm) = 0;
};

struct LiveWorldKind {
  std::string name;         ///< Short, lower case, such as "retry storms".
  std::string description;  ///< One sentence: what the users and engines are like.
  /// With Harm{} both arms follow the same law; false where the candidate differs in a way that is arguably
  /// no harm (the description says which).
  bool equal = true;
  std::function<std::unique_ptr<LiveWorld>(std::uint64_t seed, double start_s, const Harm& harm)> make;
};

const std::vector<LiveWorldKind>& live_worlds();

}  // namespace driftgate::simulation
