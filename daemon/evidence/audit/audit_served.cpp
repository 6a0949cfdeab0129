
#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/evidence/audit/audit.hpp"
#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/audit/served_route.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::EvidenceKind;
using store::Reader;

namespace {

constexpr int kMaxRoutes = 10'000;    ///< applied routes that "since when" looks back over
constexpr int kMaxEntries = 100'000;  ///< entries looked at for the origin of a version, and of its promotion

/// Answers one question.
class Served {
 public:
  Served(Reader& reader, const std::string& model, std::int64_t time_us)
      : reader_(reader), model_(model), end_us_(time_us + 1) {}

  Result<std::string> answer() {
    auto size = TRY(tree_size(reader_));
    const auto applied = TRY(first_json(reader_, of_model(EvidenceKind::route_applied)));
    if (applied.is_null()) {
      return schema::failf(schema::ErrorCode::not_found, "no route of model {} had been applied by that time",
                           model_);
    }
    const auto desired = TRY(first_json(reader_, of_model(EvidenceKind::route_desired)));
    const json route = object_at(object_at(applied, "body"), "route");
    json out{{"model", model_},
             {"time_us", end_us_ - 1},
             {"tree_size", size},
             {"applied", {{"seq", applied["seq"]}, {"time_us", applied["time_us"]}}},
             {"desired", nullptr},
             {"slices", route.value("slices", json::array())},
             {"mirror_bp", route.value("mirror_bp", 0)},
             {"served", json::array()}};
    if (!desired.is_null()) out["desired"] = {{"seq", desired["seq"]}, {"time_us", desired["time_us"]}};
    auto without = TRY(ServingLeave(reader_, model_).without_leave(applied));
    for (const ServedArm& arm : arms_of(route)) {
      if (!serves(route, text_at(arm.version, "version"))) continue;
      auto described = TRY(describe(arm));
      described["allowed"] = std::ranges::find(without, arm.role, &ServedArm::role) == without.end();
      out["served"].push_back(std::move(described));
    }
    return out.dump();
  }

 private:
  [[nodiscard]] EntryFilter of_model(EvidenceKind kind) const {
    return {.model = model_, .kind = kind, .to_us = end_us_, .newest_first = true};
  }

  Result<json> describe(const ServedArm& arm) {
    const std::string version = text_at(arm.version, "version");
    json out = arm.version;
    out["role"] = arm.role;
    out["share_bp"] = arm.share_bp;
    auto since = TRY(since_when(version));
    out["since"] = std::move(since);
    auto origin = TRY(origin_of(version));
    out["origin"] = std::move(origin);
    return out;
  }

  /// The applied route from which on the version has served without a break.
  Result<json> since_when(const std::string& version) {
    json since;
    int looked_at = 0;
    TRY(each_json(reader_, of_model(EvidenceKind::route_applied), [&](const json& entry) {
      const json body = object_at(entry, "body");
      if (!serves(object_at(body, "route"), version)) return false;
      if (++looked_at > kMaxRoutes) {
        since["complete"] = false;
        return false;
      }
      since = {{"seq", entry["seq"]},
               {"time_us", entry["time_us"]},
               {"reason", text_at(body, "reason")},
               {"complete", true}};
      return true;
    }));
    return since;
  }

  /// What brought the version to the model: the newest of its promotions and bootstraps.
  Result<json> origin_of(const std::string& version) {
    EntryFilter filter = of_model(EvidenceKind::promotion_requested);
    filter.kinds = {EvidenceKind::model_bootstrapped};
    json origin;
    int looked_at = 0;
    TRY(each_json(reader_, filter, [&](const json& entry) -> Result<bool> {
      const json body = object_at(entry, "body");
      if (text_at(body, "version") == version) {
        origin = bootstrap(entry);
      } else if (text_at(body, "candidate") == version) {
        auto promoted = TRY(promotion(entry));
        origin = std::move(promoted);
      }
      return origin.is_null() && ++looked_at < kMaxEntries;
    }));
    return origin;
  }

  static json bootstrap(const json& entry) {
    const json body = object_at(entry, "body");
    return {{"how", "bootstrap"},
            {"seq", entry["seq"]},
            {"time_us", entry["time_us"]},
            {"actor", entry["actor"]},
            {"checkpoint", text_at(object_at(entry, "subject"), "checkpoint")},
            {"reason", text_at(body, "reason")},
            {"claim", "none: installed without a promotion"}};
  }

  Result<json> promotion(const json& requested) {
    const json subject = object_at(requested, "subject");
    json out{{"how", "promotion"},
             {"promotion", text_at(subject, "promotion")},
             {"contract", text_at(subject, "contract")},
             {"checkpoint", text_at(subject, "checkpoint")},
             {"requester", requested["actor"]},
             {"requested", {{"seq", requested["seq"]}, {"time_us", requested["time_us"]}}},
             {"state", nullptr},
             {"approvals", json::array()},
             {"waivers", json::array()},
             {"verdicts", json::array()}};
    int looked_at = 0;
    TRY(each_json(reader_, {.promotion = text_at(subject, "promotion"), .to_us = end_us_},
                  [&](const json& entry) {
                    add_to(out, entry);
                    return ++looked_at < kMaxEntries;
                  }));
    return out;
  }

  /// Notes what an entry of a promotion says about why it serves.
  static void add_to(json& out, const json& entry) {
    const std::string kind = text_at(entry, "kind");
    const json body = object_at(entry, "body");
    json item{{"seq", entry["seq"]}, {"time_us", entry["time_us"]}};
    if (kind == "state_changed") {
      item["state"] = text_at(body, "to");
      out["state"] = item;
      return;
    }
    if (kind == "approval_given" || kind == "waiver_given") {
      item["actor"] = entry["actor"];
      for (const char* member : {"decision", "evidence_digest", "clause", "reason"}) {
        if (body.contains(member)) item[member] = body[member];
      }
      out[kind == "waiver_given" ? "waivers" : "approvals"].push_back(std::move(item));
      return;
    }
    if (kind != "verdict_reached") return;
    item["stage"] = text_at(object_at(entry, "subject"), "stage");
    for (const char* member : {"clause", "slice", "verdict", "scope"}) {
      if (body.contains(member)) item[member] = body[member];
    }
    out["verdicts"].push_back(std::move(item));
  }

  Reader& reader_;
  const std::string& model_;
  const std::int64_t end_us_;  ///< exclusive
};

}  // namespace

Result<std::string> served_at(Reader& reader, const std::string& model, std::int64_t time_us) {
  return Served(reader, model, time_us).answer();
}

}  // namespace driftgate::evidence
