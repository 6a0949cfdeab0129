#include "daemon/store/promotions/promotion_list.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/daemon/store/rows.hpp"

using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

constexpr int kPromotions = 10'000;
constexpr int kModels = 40;

std::string id_of(int i) {
  return fmt::format("pr-{:06}", i);
}

/// One in a hundred is queued; the order of the last changes is not that of the requests.
PromotionRow row_of(int i) {
  auto row = promotion_row(id_of(i));
  row.model = fmt::format("model-{:03}", i % kModels);
  row.contract = fmt::format("sha256:contract-{}", i % 3);
  row.requester = fmt::format("person-{}", i % 7);
  row.created_us = i;
  row.updated_us = (static_cast<std::int64_t>(i) * 7'919) % kPromotions;
  row.state = i % 2 == 0 ? PromotionState::succeeded : PromotionState::rejected;
  row.ended_us = row.updated_us;
  if (i % 100 != 0) return row;
  row.ended_us.reset();
  row.state = PromotionState::queued;
  return row;
}

/// Three models have a promotion that waits for people.
constexpr std::pair<int, PromotionState> kWaiting[] = {
    {1, PromotionState::awaiting_approval}, {2, PromotionState::inconclusive}, {3, PromotionState::paused}};

struct Thousands : StoreFixture {
  std::vector<PromotionRow> all;

  Thousands() {
    insert_world(*store);
    for (int i = 0; i < kPromotions; ++i) all.push_back(row_of(i));
    for (const auto& [i, state] : kWaiting) {
      all[static_cast<std::size_t>(i)].state = state;
      all[static_cast<std::size_t>(i)].ended_us.reset();
    }
    write(*store, [&](Tx& tx) -> Result<void> {
      for (int i = 0; i < 3; ++i)
        must(insert_contract(tx, {.digest = fmt::format("sha256:contract-{}", i),
                                  .name = i == 2 ? "strict" : "loose",
                                  .canonical = "{}",
                                  .registrant = "ada"}));
      for (int i = 0; i < kModels; ++i)
        must(insert_model(tx, {.name = fmt::format("model-{:03}", i), .incumbent = "ve-a"}));
      for (const auto& row : all) must(insert_promotion(tx, row));
      return {};
    });
  }

  /// Ids in the order of the query, by going through its pages.
  std::vector<std::string> ids(PromotionQuery query) {
    std::vector<std::string> found;
    query.limit = 500;
    do {
      const auto list = read(*store, [&](Reader& reader) { return query_promotions(reader, query); });
      CHECK(list.rows.size() <= 500);
      for (const auto& row : list.rows) found.push_back(row.id);
      query.after = list.next;
    } while (!query.after.empty());
    return found;
  }

  std::vector<std::string> expected(PromotionOrder order,
                                    const std::function<bool(const PromotionRow&)>& wanted) {
    std::vector<PromotionRow> rows;
    std::ranges::copy_if(all, std::back_inserter(rows), wanted);
    std::ranges::sort(rows, [order](const auto& a, const auto& b) {
      if (order == PromotionOrder::oldest) return a.id < b.id;
      if (order == PromotionOrder::newest) return a.id > b.id;
      return std::pair(a.updated_us, a.id) > std::pair(b.updated_us, b.id);
    });
    std::vector<std::string> found;
    for (const auto& row : rows) found.push_back(row.id);
    return found;
  }

  /// What SQLite does for a query.
  std::string plan(const PromotionQuery& query) {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open_v2((dir.path() / "driftgate.db").c_str(), &raw, SQLITE_OPEN_READONLY, nullptr) ==
            SQLITE_OK);
    const std::string text = std::string("EXPLAIN QUERY PLAN ") + statement_of(query).text;
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(raw, text.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    std::string lines;
    while (sqlite3_step(statement) == SQLITE_ROW)
      lines += std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, 3))) + "\n";
    sqlite3_finalize(statement);
    sqlite3_close(raw);
    return lines;
  }
};

struct Filter {
  const char* name;
  PromotionQuery query;
  std::function<bool(const PromotionRow&)> wanted;
};

const std::vector<Filter>& filters() {
  static const std::vector<Filter> list{
      {"all", {}, [](const auto&) { return true; }},
      {"model", {.model = "model-004"}, [](const auto& row) { return row.model == "model-004"; }},
      {"state",
       {.state = PromotionState::rejected},
       [](const auto& row) { return row.state == PromotionState::rejected; }},
      {"open", {.open = true}, [](const auto& row) { return !is_terminal(row.state); }},
      {"needing", {.needing = true}, [](const auto& row) { return holds_model(row.state); }},
      {"requester", {.requester = "person-3"}, [](const auto& row) { return row.requester == "person-3"; }},
      {"digest",
       {.contract = "sha256:contract-1"},
       [](const auto& row) { return row.contract == "sha256:contract-1"; }},
      {"contract's name",
       {.contract = "loose"},
       [](const auto& row) { return row.contract != "sha256:contract-2"; }},
      {"text in the contract's name",
       {.text = "tric"},
       [](const auto& row) { return row.contract == "sha256:contract-2"; }},
      {"text in the id", {.text = "r-00777"}, [](const auto& row) { return row.id.starts_with("pr-00777"); }},
      {"several", {.model = "model-000", .requester = "person-2", .open = true}, [](const auto& row) {
         return row.model == "model-000" && row.requester == "person-2" && !is_terminal(row.state);
       }}};
  return list;
}

constexpr PromotionOrder kOrders[] = {PromotionOrder::newest, PromotionOrder::oldest,
                                      PromotionOrder::updated};

}  // namespace

TEST_CASE_FIXTURE(Thousands, "each filter in each order gives exactly its promotions, page by page") {
  for (const auto& filter : filters()) {
    for (const auto order : kOrders) {
      CAPTURE(filter.name);
      CAPTURE(static_cast<int>(order));
      auto query = filter.query;
      query.order = order;
      const auto found = ids(query);
      CHECK_FALSE(found.empty());
      CHECK(found == expected(order, filter.wanted));
    }
  }
}

TEST_CASE_FIXTURE(Thousands, "no page is sorted: each order of each filter is that of an index") {
  std::set<std::string> plans;
  for (const auto& filter : filters()) {
    for (const auto order : kOrders) {
      CAPTURE(filter.name);
      auto query = filter.query;
      query.order = order;
      const auto text = plan(query);
      CAPTURE(text);
      CHECK(text.starts_with("SEARCH promotions USING INDEX "));
      CHECK(text.find("TEMP B-TREE") == std::string::npos);
      CHECK(text.find("SCAN promotions") == std::string::npos);
      plans.insert(text.substr(0, text.find('\n')));
    }
  }
  CHECK(plans.size() == 21);  // seven indexes that lead, in three orders
}

TEST_CASE_FIXTURE(StoreFixture, "a limit, an order or a cursor that makes no sense is refused") {
  insert_world(*store);
  const auto refused = [&](const PromotionQuery& query) {
    const auto list = store->read([&](Reader& reader) { return query_promotions(reader, query); });
    REQUIRE_FALSE(list);
    return list.error().code;
  };
  CHECK(refused({.limit = 0}) == ErrorCode::invalid_argument);
  CHECK(refused({.limit = kMaxListedPromotions + 1}) == ErrorCode::invalid_argument);
  CHECK(refused({.order = PromotionOrder::updated, .after = "pr-1"}) == ErrorCode::invalid_argument);
  CHECK(refused({.order = PromotionOrder::updated, .after = "x.pr-1"}) == ErrorCode::invalid_argument);
  CHECK(refused({.order = PromotionOrder::updated, .after = ".pr-1"}) == ErrorCode::invalid_argument);
  CHECK(parse_promotion_order("updated").value() == PromotionOrder::updated);
  CHECK(parse_promotion_order("largest").error().code == ErrorCode::invalid_argument);
}
