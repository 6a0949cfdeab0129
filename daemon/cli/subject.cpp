#include "daemon/cli/subject.hpp"

#include <fmt/core.h>

#include "daemon/cli/json_text.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {

bool is_promotion_id(std::string_view subject) {
  return subject.starts_with("pr-");
}

schema::Result<std::string> find_promotion(Client& client, const std::string& subject) {
  if (is_promotion_id(subject)) return subject;
  const auto page =
      TRY(parse_answer(client.get("/v1/promotions?limit=1&model=" + net::percent_encode(subject))));
  const auto items = member_of(page, "items");
  if (items.empty())
    return schema::fail(
        schema::ErrorCode::not_found,
        fmt::format("model '{}' has no promotion: name one (pr-…) or start one with 'driftgate promote'",
                    subject));
  return text_of(items.front(), "id");
}

}  // namespace driftgate::cli
