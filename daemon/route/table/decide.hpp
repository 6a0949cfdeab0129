#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/route/table/bucket.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/route/table/slice.hpp"

namespace driftgate::route {

enum class Served : std::uint8_t { incumbent, candidate, fallback };

/// Where one request goes and what telemetry has to know about that.
struct Decision {
  Served served = Served::incumbent;
  const Arm* arm = nullptr;  ///< into the route; never null
  bool pinned = false;
  std::uint32_t candidate_bp = 0;  ///< the share in force for this slice; 0 for requests to the fallback
  bool mirror = false;             ///< a copy goes to the candidate; without one the answer is kept
};

/// Order of precedence: all_to_fallback, pins, the first matching slice, candidate_bp.
/// `route` is an effective route.
[[nodiscard]] Decision decide(const ModelRoute& route, std::string_view key, const SliceAttributes& slice,
                              KeyHash hash = KeyHash::seeded);

/// A request that another data plane has placed on the incumbent and sent here to be mirrored.
[[nodiscard]] Decision decide_placed(const ModelRoute& route);

/// The route that is acted on: `route` itself, or, once reverted, without any candidate exposure
/// (share, slice shares, mirror and candidate pins); what goes to the fallback stays there.
[[nodiscard]] ModelRoute effective_route(ModelRoute route, bool reverted);

/// True when the candidate sees any request: it then needs a lease.
[[nodiscard]] bool exposes_candidate(const ModelRoute& route);

}  // namespace driftgate::route
