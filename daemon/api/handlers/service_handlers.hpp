#pragma once

#include "daemon/api/body.hpp"
#include "daemon/api/call.hpp"

namespace driftgate::api {

// Handlers that only pass a request on to a function of pipeline::Service.

/// A page of a collection.
template <auto function>
Reply list_of(Context& context, const Call& call) {
  const auto page = TRY(page_request(call));
  return page_response(call, (context.service.*function)(page));
}

/// What the first value in the path names.
template <auto function>
Reply one_of(Context& context, const Call& call) {
  return view_response((context.service.*function)(call.path[0]));
}

/// A change of what the first value in the path names, for the reason in the body.
template <auto function>
Reply with_reason(Context& context, const Call& call) {
  const auto reason = TRY(parse_reason(call.request.body));
  return view_response((context.service.*function)(call.principal.name, call.path[0], reason));
}

/// A change of what the first value in the path names, for the reason in the body and as it was shown there.
template <auto function>
Reply by_order(Context& context, const Call& call) {
  const auto order = TRY(parse_order(call.request.body));
  return view_response((context.service.*function)(call.principal.name, call.path[0], order));
}

}  // namespace driftgate::api
