#include "daemon/api/handlers/changes.hpp"

#include <fmt/core.h>

#include "daemon/api/preconditions.hpp"

namespace driftgate::api {
namespace {

constexpr int kTriesOfAny = 5;

}  // namespace

net::Response with_etag(net::Response response, const pipeline::View& view) {
  response.headers.push_back({"ETag", etag_of(view.seq)});
  return response;
}

net::Response failed_precondition(const std::string& why) {
  return net::plain_problem(412, "precondition_failed", why);
}

net::Response missing_precondition() {
  return net::plain_problem(428, "precondition_required",
                            "A change names the revision that was read: send If-Match with the ETag of GET.");
}

Reply change_at(const Call& call, std::string_view what, const ReadNow& read, const ChangeAt& change) {
  const auto wanted = TRY(if_match_of(call.request));
  if (!wanted) return missing_precondition();
  for (int tries = 0;; ++tries) {
    const auto now = TRY(read());
    if (!holds(*wanted, etag_of(now.seq)))
      return failed_precondition(fmt::format(
          "The {}'s ETag is {} now, which If-Match does not name: read it again.", what, etag_of(now.seq)));
    const auto view = change(now.seq);
    const bool overtaken = !view && view.error().code == schema::ErrorCode::conflict;
    if (overtaken && wanted->any && tries < kTriesOfAny) continue;
    if (overtaken) return failed_precondition(view.error().describe());
    if (!view) return std::unexpected(view.error());
    return with_etag(json_response(200, view->json), *view);
  }
}

}  // namespace driftgate::api
