#include "daemon/store/promotions/promotion_list.hpp"

#include <array>
#include <charconv>
#include <limits>

#include "daemon/store/promotions/promotion_columns.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr std::string_view kBehindAllIds = "~";

// ?1: id of the cursor, ?2: its updated_us, ?3: rows, ?4 …: the filters, NULL or 0 when they are not given.
#define MATCHES                                                                                         \
  " AND (?4 IS NULL OR model = ?4) AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR requester = ?6)"   \
  " AND (?7 IS NULL OR contract IN (SELECT digest FROM contracts WHERE digest = ?7 OR name = ?7))"      \
  " AND (?8 = 0 OR " DRIFTGATE_OPEN_STATES ") AND (?9 = 0 OR " DRIFTGATE_NEEDING_STATES                 \
  ")"                                                                                                   \
  " AND (?10 IS NULL OR instr(lower(id), ?10) OR instr(lower(model), ?10) OR instr(lower(engine), ?10)" \
  " OR contract IN (SELECT digest FROM contracts WHERE instr(lower(name), ?10)))"
#define NEWEST "id < ?1" MATCHES " ORDER BY id DESC LIMIT ?3"
#define OLDEST "id > ?1" MATCHES " ORDER BY id LIMIT ?3"
#define UPDATED "(updated_us, id) < (?2, ?1)" MATCHES " ORDER BY updated_us DESC, id DESC LIMIT ?3"
#define SELECT_BY(index) "SELECT " DRIFTGATE_PROMOTION_COLUMNS " FROM promotions " index " WHERE "

/// The statements of one index in each order.
struct Orders {
  Sql newest, oldest, updated;
};

// By the filter that leads: its index has the rows in the order of the page.
constexpr Orders kAll{{"newest promotions", SELECT_BY("") NEWEST},
                      {"oldest promotions", SELECT_BY("") OLDEST},
                      {"promotions by change", SELECT_BY("INDEXED BY promotions_updated") UPDATED}};

#define ORDERS(what, by, by_updated, condition)                                                      \
  {                                                                                                  \
    {"newest promotions " what, SELECT_BY("INDEXED BY " by) condition " AND " NEWEST},               \
        {"oldest promotions " what, SELECT_BY("INDEXED BY " by) condition " AND " OLDEST}, {         \
      "promotions " what " by change", SELECT_BY("INDEXED BY " by_updated) condition " AND " UPDATED \
    }                                                                                                \
  }

constexpr Orders kOfModel =
    ORDERS("of a model", "promotions_by_model", "promotions_by_model_updated", "model = ?4");
constexpr Orders kNeeding =
    ORDERS("that need people", "promotions_needing", "promotions_needing_updated", DRIFTGATE_NEEDING_STATES);
constexpr Orders kOpen =
    ORDERS("that are open", "promotions_open", "promotions_open_updated", DRIFTGATE_OPEN_STATES);
constexpr Orders kInState =
    ORDERS("in a state", "promotions_by_state", "promotions_by_state_updated", "state = ?5");
constexpr Orders kOfRequester =
    ORDERS("of a requester", "promotions_by_requester", "promotions_by_requester_updated", "requester = ?6");
constexpr Orders kUnderContract =
    ORDERS("under a contract", "promotions_by_contract", "promotions_by_contract_updated", "contract = ?7");

#undef ORDERS
#undef SELECT_BY
#undef UPDATED
#undef OLDEST
#undef NEWEST
#undef MATCHES

const Orders& leading(const PromotionQuery& query) {
  if (query.needing) return kNeeding;
  if (query.open) return kOpen;
  if (query.model) return kOfModel;
  if (query.requester) return kOfRequester;
  if (query.contract && query.contract->starts_with("sha256:")) return kUnderContract;
  if (query.state) return kInState;
  return kAll;
}

/// Behind which row the page begins.
struct Cursor {
  std::string id;
  std::int64_t updated_us = std::numeric_limits<std::int64_t>::max();
};

std::string cursor_text(const PromotionRow& row, PromotionOrder order) {
  return order == PromotionOrder::updated ? std::to_string(row.updated_us) + "." + row.id : row.id;
}

Result<Cursor> parse_cursor(const PromotionQuery& query) {
  if (query.after.empty())
    return Cursor{query.order == PromotionOrder::oldest ? std::string() : std::string(kBehindAllIds)};
  if (query.order != PromotionOrder::updated) return Cursor{query.after};
  Cursor cursor;
  const std::size_t dot = query.after.find('.');
  const char* const end = query.after.data() + std::min(dot, query.after.size());
  const auto [read, error] = std::from_chars(query.after.data(), end, cursor.updated_us);
  if (dot == std::string::npos || error != std::errc{} || read != end)
    return schema::failf(ErrorCode::invalid_argument, "'{}' is no cursor of this list: use the page's `next`",
                         query.after.substr(0, 80));
  cursor.id = query.after.substr(dot + 1);
  return cursor;
}

}  // namespace

Result<PromotionOrder> parse_promotion_order(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNames{"newest", "oldest", "updated"};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == text) return static_cast<PromotionOrder>(i);
  return schema::failf(ErrorCode::invalid_argument, "'order' must be newest, oldest or updated, not '{}'",
                       text.substr(0, 80));
}

const Sql& statement_of(const PromotionQuery& query) {
  const Orders& orders = leading(query);
  if (query.order == PromotionOrder::updated) return orders.updated;
  return query.order == PromotionOrder::oldest ? orders.oldest : orders.newest;
}

Result<PromotionList> query_promotions(Reader& reader, const PromotionQuery& query) {
  if (query.limit < 1 || query.limit > kMaxListedPromotions)
    return schema::failf(ErrorCode::invalid_argument, "a page must have 1 to {} promotions",
                         kMaxListedPromotions);
  const auto cursor = TRY(parse_cursor(query));
  std::optional<std::string_view> state;
  if (query.state) state = to_string(*query.state);
  PromotionList list;
  auto rows =
      TRY(list_rows<PromotionRow>(reader, statement_of(query),
                                  {cursor.id, cursor.updated_us, query.limit + 1, query.model, state,
                                   query.requester, query.contract, query.open, query.needing, query.text}));
  list.rows = std::move(rows);
  if (list.rows.size() <= static_cast<std::size_t>(query.limit)) return list;
  list.rows.pop_back();
  list.next = cursor_text(list.rows.back(), query.order);
  return list;
}

}  // namespace driftgate::store
