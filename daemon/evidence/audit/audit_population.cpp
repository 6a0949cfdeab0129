#include <algorithm>
#include <utility>

#include "daemon/evidence/audit/audit.hpp"
#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/audit/served_route.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::EvidenceKind;
using store::Reader;

namespace {

constexpr int kMaxScannedPages = 20;  ///< of kMaxPage entries each, in one call

/// What an entry of the population says; null for another state.
json item_of(const json& entry) {
  const json body = object_at(entry, "body");
  const json subject = object_at(entry, "subject");
  const bool bootstrap = text_at(entry, "kind") == "model_bootstrapped";
  if (!bootstrap && text_at(body, "to") != "succeeded") return {};
  json item{
      {"seq", entry["seq"]}, {"time_us", entry["time_us"]}, {"how", bootstrap ? "bootstrap" : "promotion"}};
  for (const char* member : {"model", "promotion", "contract", "checkpoint"}) {
    const std::string value = text_at(subject, member);
    if (!value.empty()) item[member] = value;
  }
  if (bootstrap) item["actor"] = entry["actor"];
  return item;
}

/// What an applied route gave traffic to without leave and the route before it did not: an item each.
Result<std::vector<json>> items_of_route(Reader& reader, ServingLeaves& leaves, const json& applied) {
  std::vector<json> items;
  auto without = TRY(leaves.without_leave(applied));
  if (without.empty()) return items;
  const json subject = object_at(applied, "subject");
  const auto model = text_at(subject, "model");
  const auto entry = TRY(first_json(reader, {.model = model,
                                             .kind = EvidenceKind::route_applied,
                                             .newest_first = true,
                                             .cursor = integer_at(applied, "seq")}));
  const json before = object_at(object_at(entry, "body"), "route");
  for (const ServedArm& arm : without) {
    const auto version = text_at(arm.version, "version");
    if (serves(before, version)) continue;
    items.push_back({{"seq", applied["seq"]},
                     {"time_us", applied["time_us"]},
                     {"how", "route"},
                     {"model", model},
                     {"version", version},
                     {"role", arm.role}});
  }
  return items;
}

/// What an entry says that came to serve.
Result<std::vector<json>> items_of(Reader& reader, ServingLeaves& leaves, const json& entry) {
  if (text_at(entry, "kind") == "route_applied") return items_of_route(reader, leaves, entry);
  json item = item_of(entry);
  return item.is_null() ? std::vector<json>() : std::vector<json>{std::move(item)};
}

}  // namespace

Result<TimeSpan> span_of(Reader& reader, std::int64_t from_us, std::int64_t to_us) {
  if (from_us < 0 || to_us < from_us) {
    return schema::fail(schema::ErrorCode::invalid_argument, "the time range must begin before it ends");
  }
  const auto size = TRY(tree_size(reader));
  const auto first = TRY(first_entry(reader, {.from_us = from_us}));
  const auto last = TRY(first_entry(reader, {.to_us = to_us, .newest_first = true}));
  const std::uint64_t from = first ? static_cast<std::uint64_t>(first->seq) : size;
  const std::uint64_t to = last ? static_cast<std::uint64_t>(last->seq) + 1 : 0;
  return TimeSpan{from, std::max(from, to)};
}

Result<Population> population(Reader& reader, const PopulationRequest& request) {
  if (request.limit < 1 || request.limit > kMaxPage) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        "a page of a population must have 1 to 1,000 items");
  }
  auto span = TRY(span_of(reader, request.from_us, request.to_us));
  EntryFilter filter{
      .model = request.model,
      .kinds = {EvidenceKind::state_changed, EvidenceKind::model_bootstrapped, EvidenceKind::route_applied},
      .from_us = request.from_us,
      .to_us = request.to_us,
      .cursor = request.cursor,
      .limit = kMaxPage};
  Population found{.span = span};
  ServingLeaves leaves(reader);
  json items = json::array();
  for (int scanned = 0; scanned < kMaxScannedPages; ++scanned) {
    auto page = TRY(query_entries(reader, filter));
    found.tree_size = page.tree_size;
    found.next = page.next;
    for (const StoredEntry& stored : page.entries) {
      auto entry = TRY(entry_json(stored));
      auto said = TRY(items_of(reader, leaves, entry));
      for (json& item : said) items.push_back(std::move(item));
      if (items.size() < static_cast<std::size_t>(request.limit)) continue;
      if (page.next || stored.seq != page.entries.back().seq) found.next = stored.seq;
      found.items = items.dump();
      return found;
    }
    if (!page.next) break;
    filter.cursor = page.next;
  }
  found.items = items.dump();
  return found;
}

namespace {

/// Of the kinds that may be exceptions, whether an entry is none.
Result<bool> is_usual(ServingLeaves& leaves, const json& entry) {
  const json body = object_at(entry, "body");
  const std::string kind = text_at(entry, "kind");
  if (kind == "approval_given") return text_at(body, "decision") != "refused_self";
  if (kind == "state_changed") {
    const std::string to = text_at(body, "to");
    return to != "rolling_back" && to != "aborted" && to != "rejected";
  }
  if (kind != "route_applied") return false;
  auto without = TRY(leaves.without_leave(entry));
  return without.empty();
}

}  // namespace

Result<EntryPage> exceptions(Reader& reader, const ExceptionsRequest& request) {
  EntryFilter filter{.model = request.model,
                     .promotion = request.promotion,
                     .from_us = request.from_us,
                     .to_us = request.to_us,
                     .cursor = request.cursor,
                     .limit = request.limit};
  filter.kinds = {EvidenceKind::waiver_given, EvidenceKind::approval_given, EvidenceKind::model_bootstrapped,
                  EvidenceKind::hold_lifted,  EvidenceKind::block_lifted,   EvidenceKind::evidence_redacted};
  auto decided = TRY(query_entries(reader, filter));
  filter.kinds = {EvidenceKind::state_changed, EvidenceKind::hold_set};
  filter.by_people = true;
  auto by_hand = TRY(query_entries(reader, filter));
  filter.kinds = {EvidenceKind::route_applied};
  filter.by_people = false;
  auto applied = TRY(query_entries(reader, filter));

  // Only as far as all have been read.
  std::optional<std::int64_t> read_to = decided.next;
  for (const auto* part : {&by_hand, &applied}) {
    if (part->next) read_to = std::min(read_to.value_or(*part->next), *part->next);
  }
  ServingLeaves leaves(reader);
  EntryPage page{.tree_size = decided.tree_size, .next = read_to};
  for (auto* part : {&decided, &by_hand, &applied}) {
    for (StoredEntry& stored : part->entries) {
      if (read_to && stored.seq > *read_to) continue;
      auto entry = TRY(entry_json(stored));
      auto usual = TRY(is_usual(leaves, entry));
      if (!usual) page.entries.push_back(std::move(stored));
    }
  }
  std::ranges::sort(page.entries, {}, &StoredEntry::seq);
  if (page.entries.size() > static_cast<std::size_t>(request.limit)) {
    page.entries.resize(static_cast<std::size_t>(request.limit));
    page.next = page.entries.back().seq;
  }
  return page;
}

}  // namespace driftgate::evidence
