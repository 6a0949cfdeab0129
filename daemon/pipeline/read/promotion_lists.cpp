#include "daemon/pipeline/read/promotion_lists.hpp"

#include <fmt/format.h>

#include "daemon/pipeline/read/overview.hpp"
#include "daemon/pipeline/read/promotion_json.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/promotions/promotion_list.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using schema::fail;

std::optional<std::string> given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

schema::Result<void> check_limit(const PageRequest& request) {
  if (request.limit >= 1 && request.limit <= kMaxPageItems) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("a page has 1 to {} items", kMaxPageItems));
}

/// A search text as the store compares it, or nothing.
schema::Result<std::optional<std::string>> searched(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text.size() > kMaxSearchBytes)
    return fail(ErrorCode::invalid_argument, fmt::format("'q' has at most {} bytes", kMaxSearchBytes));
  std::string lower = text;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

schema::Result<store::PromotionQuery> query_of(const PromotionFilter& filter, const PageRequest& request) {
  TRY(check_limit(request));
  store::PromotionQuery query;
  if (!filter.state.empty()) {
    const auto state = TRY(store::parse_state<store::PromotionState>(filter.state));
    query.state = state;
  }
  if (!filter.order.empty()) {
    const auto order = TRY(store::parse_promotion_order(filter.order));
    query.order = order;
  }
  auto text = TRY(searched(filter.text));
  query.text = std::move(text);
  query.model = given(filter.model);
  query.requester = given(filter.requester);
  query.contract = given(filter.contract);
  query.open = filter.open;
  query.needing = filter.needs;
  query.after = request.after;
  query.limit = static_cast<std::int64_t>(request.limit);
  return query;
}

}  // namespace

PromotionLists::PromotionLists(jobs::JobRunner& runner, const std::vector<std::string>& blackouts)
    : runner_(runner) {
  for (const auto& text : blackouts) {
    auto parsed = schedule::parse_blackout(text);
    if (parsed) blackouts_.push_back(std::move(*parsed));
  }
}

Sources PromotionLists::sources(std::int64_t now_us) {
  return {.runner = &runner_, .now_us = now_us, .contracts = &contracts_, .blackouts = blackouts_};
}

schema::Result<PromotionFacts> PromotionLists::facts_of(store::Reader& reader, const std::string& id,
                                                        std::int64_t now_us) {
  const auto row = TRY(store::get_promotion(reader, id));
  auto facts = TRY(gather(reader, {&row, 1}, sources(now_us)));
  return std::move(facts.front());
}

schema::Result<View> PromotionLists::promotion(store::Reader& reader, const std::string& id,
                                               std::int64_t now_us) {
  const auto facts = TRY(facts_of(reader, id, now_us));
  shown_.note(facts);
  return view_of_facts(reader, facts);
}

schema::Result<View> PromotionLists::item(store::Reader& reader, const std::string& id, std::int64_t now_us) {
  const auto facts = TRY(facts_of(reader, id, now_us));
  shown_.note(facts);
  return promotion_item(facts);
}

schema::Result<std::vector<View>> PromotionLists::items(store::Reader& reader,
                                                        const std::vector<store::PromotionRow>& rows,
                                                        std::int64_t now_us) {
  const auto all = TRY(gather(reader, rows, sources(now_us)));
  std::vector<View> views;
  views.reserve(all.size());
  for (const auto& facts : all) {
    shown_.note(facts);
    views.push_back(promotion_item(facts));
  }
  return views;
}

schema::Result<Page> PromotionLists::page(store::Reader& reader, const PromotionFilter& filter,
                                          const PageRequest& request, std::int64_t now_us) {
  const auto query = TRY(query_of(filter, request));
  auto list = TRY(store::query_promotions(reader, query));
  auto views = TRY(items(reader, list.rows, now_us));
  return Page{std::move(views), std::move(list.next)};
}

schema::Result<std::vector<View>> PromotionLists::open_items(store::Reader& reader, std::int64_t now_us) {
  const auto rows = TRY(store::open_promotions(reader));
  return items(reader, rows, now_us);
}

schema::Result<Overview> PromotionLists::overview(store::Reader& reader, const std::string& text,
                                                  const PageRequest& request, std::int64_t now_us) {
  TRY(check_limit(request));
  const auto wanted = TRY(searched(text));
  const auto read = TRY(read_overview(reader, request.after, wanted, request.limit));
  const auto promotions = TRY(gather(reader, read.promotions, sources(now_us)));
  for (const auto& facts : promotions) shown_.note(facts);
  return overview_of(read, promotions);
}

schema::Result<void> PromotionLists::check(store::Reader& reader, const std::string& id,
                                           const std::string& shown, std::int64_t now_us) {
  const auto facts = TRY(facts_of(reader, id, now_us));
  return check_shown(facts, shown, shown_);
}

}  // namespace driftgate::pipeline
