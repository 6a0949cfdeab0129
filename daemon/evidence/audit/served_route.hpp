#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/log/query.hpp"

namespace driftgate::evidence {

/// One version in a route with the share of requests that no slice rule sends elsewhere.
struct ServedArm {
  std::string role{};        ///< incumbent, candidate or fallback
  nlohmann::json version{};  ///< {"version", "kernel", "url"}
  std::int64_t share_bp = 0;
};
/// Of the route in an entry route_desired or route_applied.
[[nodiscard]] std::vector<ServedArm> arms_of(const nlohmann::json& route);
/// Whether a version serves under a route, through its share or a rule of a slice.
[[nodiscard]] bool serves(const nlohmann::json& route, const std::string& version);

/// Which versions of one model had leave to serve, by entries alone. The incumbent is what the model was
/// installed with, or the candidate of the newest promotion that came to its end and was not taken back; a
/// candidate has a share only while the promotion that the route names is under way; a fallback is the one that
/// a promotion was asked for with.
class ServingLeave {
 public:
  ServingLeave(store::Reader& reader, std::string model) : reader_(reader), model_(std::move(model)) {}

  /// The arms with traffic in an entry route_applied of the model that had no leave when it was applied.
  Result<std::vector<ServedArm>> without_leave(const nlohmann::json& applied);

 private:
  struct Incumbent {
    std::int64_t since = 0;  ///< seq of the entry from which on
    std::string version{};
    std::string promotion{};  ///< "" for what was installed, and after a rollback
  };

  Result<void> read_incumbents();
  Result<void> note_change(const nlohmann::json& change);
  [[nodiscard]] const Incumbent* incumbent_at(std::int64_t seq) const;
  /// The entry that asked for a promotion; null when there is none, or it is of another model.
  Result<nlohmann::json> request_of(const std::string& promotion);
  Result<bool> is_under_way(const std::string& promotion, std::int64_t seq);
  Result<bool> has_leave(const ServedArm& arm, const nlohmann::json& route, std::int64_t seq);

  store::Reader& reader_;
  std::string model_;
  bool read_ = false;
  std::vector<Incumbent> incumbents_;
  std::map<std::string, Incumbent> before_;  ///< by promotion: the incumbent that its candidate replaced
};

/// Of any model, each read once.
class ServingLeaves {
 public:
  explicit ServingLeaves(store::Reader& reader) : reader_(reader) {}
  Result<std::vector<ServedArm>> without_leave(const nlohmann::json& applied);

 private:
  store::Reader& reader_;
  std::map<std::string, ServingLeave> models_;
};

}  // namespace driftgate::evidence
