#pragma once

#include <functional>
#include <string_view>

#include "daemon/api/call.hpp"

namespace driftgate::api {

/// Makes a change to the revision that it is given, and returns the resource as it is then.
using ChangeAt = std::function<schema::Result<pipeline::View>(std::uint64_t revision)>;
/// Reads what is changed; its `seq` is the revision.
using ReadNow = std::function<schema::Result<pipeline::View>()>;

/// The response with the ETag of the view's revision.
[[nodiscard]] net::Response with_etag(net::Response response, const pipeline::View& view);
/// 412.
[[nodiscard]] net::Response failed_precondition(const std::string& why);
/// 428: the change names no revision.
[[nodiscard]] net::Response missing_precondition();

/// Makes a change to the revision that If-Match names: 428 without one, 412 when it names another than the
/// newest. A change by somebody else in between is 412 too; but "*" means whatever it is now, and tries
/// again. `what` names the resource in messages: "schedule".
[[nodiscard]] Reply change_at(const Call& call, std::string_view what, const ReadNow& read,
                              const ChangeAt& change);

}  // namespace driftgate::api
