#include <algorithm>
#include <utility>

#include "daemon/evidence/audit.hpp"
#include "daemon/evidence/audit_json.hpp"

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

Result<std::optional<std::int64_t>> edge(Reader& reader, EntryFilter filter) {
  filter.limit = 1;
  auto page = query_entries(reader, filter);
  if (!page) return std::unexpected(std::move(page.error()));
  if (page->entries.empty()) return std::nullopt;
  return page->entries.front().seq;
}

}  // namespace

Result<TimeSpan> span_of(Reader& reader, std::int64_t from_us, std::int64_t to_us) {
  if (from_us < 0 || to_us < from_us) {
    return schema::fail(schema::ErrorCode::invalid_argument, "the time must begin before it ends");
  }
  auto size = tree_size(reader);
  auto first = edge(reader, {.from_us = from_us});
  auto last = edge(reader, {.to_us = to_us, .newest_first = true});
  if (!size) return std::unexpected(std::move(size.error()));
  if (!first) return std::unexpected(std::move(first.error()));
  if (!last) return std::unexpected(std::move(last.error()));
  const std::uint64_t from = *first ? static_cast<std::uint64_t>(**first) : *size;
  const std::uint64_t to = *last ? static_cast<std::uint64_t>(**last) + 1 : 0;
  return TimeSpan{from, std::max(from, to)};
}

Result<Population> population(Reader& reader, const PopulationRequest& request) {
  if (request.limit < 1 || request.limit > kMaxPage) {
    return schema::fail(schema::ErrorCode::invalid_argument, "a page of a population has 1 to 1,000 items");
  }
  auto span = span_of(reader, request.from_us, request.to_us);
  if (!span) return std::unexpected(std::move(span.error()));
  EntryFilter filter;
  filter.model = request.model;
  filter.kinds = {EvidenceKind::state_changed, EvidenceKind::model_bootstrapped};
  filter.from_us = request.from_us;
  filter.to_us = request.to_us;
  filter.cursor = request.cursor;
  filter.limit = kMaxPage;
  Population found{.span = *span};
  json items = json::array();
  for (int scanned = 0; scanned < kMaxScannedPages; ++scanned) {
    auto page = query_entries(reader, filter);
    if (!page) return std::unexpected(std::move(page.error()));
    found.tree_size = page->tree_size;
    found.next = page->next;
    for (const StoredEntry& stored : page->entries) {
      auto entry = entry_json(stored);
      if (!entry) return std::unexpected(std::move(entry.error()));
      json item = item_of(*entry);
      if (item.is_null()) continue;
      items.push_back(std::move(item));
      if (items.size() < static_cast<std::size_t>(request.limit)) continue;
      if (page->next || stored.seq != page->entries.back().seq) found.next = stored.seq;
      found.items = items.dump();
      return found;
    }
    if (!page->next) break;
    filter.cursor = page->next;
  }
  found.items = items.dump();
  return found;
}

Result<EntryPage> exceptions(Reader& reader, const ExceptionsRequest& request) {
  EntryFilter filter;
  filter.model = request.model;
  filter.promotion = request.promotion;
  filter.from_us = request.from_us;
  filter.to_us = request.to_us;
  filter.cursor = request.cursor;
  filter.limit = request.limit;
  filter.kinds = {EvidenceKind::waiver_given, EvidenceKind::approval_given, EvidenceKind::model_bootstrapped,
                  EvidenceKind::hold_lifted,  EvidenceKind::block_lifted,   EvidenceKind::evidence_redacted};
  auto decided = query_entries(reader, filter);
  if (!decided) return decided;
  filter.kinds = {EvidenceKind::state_changed, EvidenceKind::hold_set};
  filter.by_people = true;
  auto by_hand = query_entries(reader, filter);
  if (!by_hand) return by_hand;

  // Only as far as both have been read.
  std::optional<std::int64_t> read_to = decided->next;
  if (by_hand->next) read_to = std::min(read_to.value_or(*by_hand->next), *by_hand->next);
  EntryPage page{.tree_size = decided->tree_size, .next = read_to};
  for (auto* part : {&*decided, &*by_hand}) {
    for (StoredEntry& stored : part->entries) {
      if (read_to && stored.seq > *read_to) continue;
      auto entry = entry_json(stored);
      if (!entry) return std::unexpected(std::move(entry.error()));
      const json body = object_at(*entry, "body");
      const std::string kind = text_at(*entry, "kind");
      const std::string to = text_at(body, "to");
      const bool usual =
          (kind == "approval_given" && text_at(body, "decision") != "refused_self") ||
          (kind == "state_changed" && to != "rolling_back" && to != "aborted" && to != "rejected");
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
