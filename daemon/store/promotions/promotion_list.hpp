#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/states.hpp"

namespace driftgate::store {

inline constexpr std::int64_t kMaxListedPromotions = 1'000;

enum class PromotionOrder : std::uint8_t {
  newest,   ///< by the time of the request, newest first
  oldest,   ///< the same, oldest first
  updated,  ///< by the time of the last change, newest first
};
/// "newest", "oldest" or "updated"; `invalid_argument` for another text.
[[nodiscard]] Result<PromotionOrder> parse_promotion_order(std::string_view text);

/// Which promotions: every given filter must match.
struct PromotionQuery {
  std::optional<std::string> model{};
  std::optional<PromotionState> state{};
  std::optional<std::string> requester{};
  std::optional<std::string> contract{};  ///< digest, or a name, which stands for all of that name
  std::optional<std::string> text{};      ///< within id, model, engine or the contract's name; in lower case
  bool open = false;                      ///< not ended
  bool needing = false;                   ///< waiting for people: awaiting_approval, inconclusive or paused
  PromotionOrder order = PromotionOrder::newest;
  std::string after{};      ///< `next` of the page before; empty: the first page
  std::int64_t limit = 50;  ///< at most kMaxListedPromotions
};

struct PromotionList {
  std::vector<PromotionRow> rows{};
  std::string next{};  ///< cursor of the next page; empty on the last one
};

/// A page, found by an index: of the filters the most selective one decides which, the others are checked row
/// by row. In the order `updated` a promotion that changes between two pages moves to the front.
/// `invalid_argument` for a limit out of range or a cursor that is none.
Result<PromotionList> query_promotions(Reader& reader, const PromotionQuery& query);

/// The statement that a query runs, for tests of its plan.
[[nodiscard]] const Sql& statement_of(const PromotionQuery& query);

}  // namespace driftgate::store
