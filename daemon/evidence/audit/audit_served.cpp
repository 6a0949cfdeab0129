#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/evidence/audit/audit.hpp"
#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/audit/served_route.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::EvidenceKind;
using store::Reader;

namespace {

constexpr std::int64_t kRoutePage = 100;
constexpr int kMaxRoutePages = 100;  ///< how far back "since when" looks

/// Decoded entries of a filter, oldest or newest first.
Result<std::vector<json>> entries_of(Reader& reader, const EntryFilter& filter) {
  auto page = TRY(query_entries(reader, filter));
  std::vector<json> entries;
  for (const StoredEntry& stored : page.entries) {
    auto entry = TRY(entry_json(stored));
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Answers one question.
class Served {
 public:
  Served(Reader& reader, const std::string& model, std::int64_t time_us)
      : reader_(reader), model_(model), end_us_(time_us + 1) {}

  Result<std::string> answer() {
    auto size = TRY(tree_size(reader_));
    auto applied = newest(EvidenceKind::route_applied);
    if (!applied) return std::unexpected(std::move(applied.error()));
    if (applied->is_null()) {
      return schema::fail(schema::ErrorCode::not_found,
                          fmt::format("no route of model {} had been applied by then", model_));
    }
    auto desired = newest(EvidenceKind::route_desired);
    if (!desired) return std::unexpected(std::move(desired.error()));
    const json route = object_at(object_at(*applied, "body"), "route");
    json out{{"model", model_},
             {"time_us", end_us_ - 1},
             {"tree_size", size},
             {"applied", {{"seq", (*applied)["seq"]}, {"time_us", (*applied)["time_us"]}}},
             {"desired", nullptr},
             {"slices", route.value("slices", json::array())},
             {"mirror_bp", route.value("mirror_bp", 0)},
             {"served", json::array()}};
    if (!desired->is_null())
      out["desired"] = {{"seq", (*desired)["seq"]}, {"time_us", (*desired)["time_us"]}};
    auto without = TRY(ServingLeave(reader_, model_).without_leave(*applied));
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
    EntryFilter filter;
    filter.model = model_;
    filter.kind = kind;
    filter.to_us = end_us_;
    filter.newest_first = true;
    return filter;
  }

  /// The newest entry of a kind, or null.
  Result<json> newest(EvidenceKind kind) {
    EntryFilter filter = of_model(kind);
    filter.limit = 1;
    auto found = TRY(entries_of(reader_, filter));
    return found.empty() ? json() : std::move(found.front());
  }

  Result<json> describe(const ServedArm& arm) {
    const std::string version = text_at(arm.version, "version");
    json out = arm.version;
    out["role"] = arm.role;
    out["share_bp"] = arm.share_bp;
    auto since = since_when(version);
    if (!since) return since;
    out["since"] = std::move(*since);
    auto origin = origin_of(version);
    if (!origin) return origin;
    out["origin"] = std::move(*origin);
    return out;
  }

  /// The applied route from which on the version has served without a break.
  Result<json> since_when(const std::string& version) {
    EntryFilter filter = of_model(EvidenceKind::route_applied);
    filter.limit = kRoutePage;
    json since;
    for (int i = 0; i < kMaxRoutePages; ++i) {
      auto page = TRY(query_entries(reader_, filter));
      for (const StoredEntry& stored : page.entries) {
        auto entry = entry_json(stored);
        if (!entry) return entry;
        const json body = object_at(*entry, "body");
        if (!serves(object_at(body, "route"), version)) return since;
        since = {{"seq", (*entry)["seq"]},
                 {"time_us", (*entry)["time_us"]},
                 {"reason", text_at(body, "reason")},
                 {"complete", true}};
      }
      if (!page.next) return since;
      filter.cursor = page.next;
    }
    since["complete"] = false;  // longer than was looked back
    return since;
  }

  /// What brought the version to the model: the newest of its promotions and bootstraps.
  Result<json> origin_of(const std::string& version) {
    EntryFilter filter = of_model(EvidenceKind::promotion_requested);
    filter.kinds = {EvidenceKind::model_bootstrapped};
    filter.limit = kMaxPage;
    for (int i = 0; i < kMaxRoutePages; ++i) {
      auto page = TRY(query_entries(reader_, filter));
      for (const StoredEntry& stored : page.entries) {
        auto entry = entry_json(stored);
        if (!entry) return entry;
        const json body = object_at(*entry, "body");
        if (text_at(body, "version") == version) return bootstrap(*entry);
        if (text_at(body, "candidate") != version) continue;
        return promotion(*entry);
      }
      if (!page.next) break;
      filter.cursor = page.next;
    }
    return json();
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
    EntryFilter filter;
    filter.promotion = text_at(subject, "promotion");
    filter.to_us = end_us_;
    filter.limit = kMaxPage;
    for (int i = 0; i < kMaxRoutePages; ++i) {
      auto page = TRY(query_entries(reader_, filter));
      for (const StoredEntry& stored : page.entries) {
        auto entry = entry_json(stored);
        if (!entry) return entry;
        add_to(out, *entry);
      }
      if (!page.next) break;
      filter.cursor = page.next;
    }
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
