#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace driftgate::route {

inline constexpr std::uint32_t kFullShareBp = 10'000;  ///< 100% in basis points

/// One version that can serve a model: (checkpoint, kernel, engine) with the engine's base URL.
struct Arm {
  std::string version;  ///< version id, as stored
  std::string kernel;   ///< kernel name, for telemetry labels
  std::string url;      ///< "http[s]://host:port[/prefix]"
  bool operator==(const Arm&) const = default;
};

/// A weight of its own for the requests whose slice attributes contain all of `where`.
struct SliceWeight {
  std::map<std::string, std::string> where;  ///< e.g. {"language": "de"}
  std::uint32_t candidate_bp = 0;
  bool to_fallback = false;  ///< route_slice: these requests go to `fallback`
  bool operator==(const SliceWeight&) const = default;
};

/// What the data plane is told for one model (docs/design/pipeline.md, "Routes and epochs"). A route is
/// replaced as a whole; the driver refuses an epoch older than the one it holds.
struct ModelRoute {
  std::string model;
  std::uint64_t epoch = 0;     ///< fencing epoch; a newer daemon holds a larger one
  std::uint64_t revision = 0;  ///< increases with every route of an epoch
  std::string stage_key;       ///< "promotion/stage/attempt" or empty; telemetry carries it
  std::uint64_t seed = 0;      ///< of the promotion: bucket = xxh64(sticky key, seed) mod 10,000
  Arm incumbent;
  std::optional<Arm> candidate;
  std::optional<Arm> fallback;
  std::uint32_t candidate_bp = 0;   ///< share of buckets that the candidate serves
  std::vector<SliceWeight> slices;  ///< first match wins over candidate_bp
  bool all_to_fallback = false;
  /// Share of requests copied to the candidate, answers unseen. Without a candidate nobody else is asked: the
  /// request is kept with the incumbent's answer alone.
  std::uint32_t mirror_bp = 0;
  std::uint64_t mirror_token_budget =
      0;  ///< most tokens asked of the mirror in this stage; 0 = none mirrored
  std::map<std::string, std::string> pins;  ///< sticky key → "incumbent" | "candidate"
  bool operator==(const ModelRoute&) const = default;
};

/// What the data plane says that it does now.
struct ObservedRoute {
  ModelRoute route;
  bool reverted = false;  ///< the lease has expired: the candidate's share is 0 until the next apply
};

}  // namespace driftgate::route
