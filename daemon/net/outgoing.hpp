#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/net/http_client.hpp"
#include "daemon/net/url.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// Where the daemon may connect to: engines and webhooks (docs/design/evidence.md, "Limits on what comes
/// in"). A host on the list is allowed with whatever address it resolves to, private ones included;
/// `public_hosts` also admits every other host, as long as its address is neither loopback, private,
/// link-local nor multicast.
struct OutgoingPolicy {
  std::vector<std::string> allowed_hosts{"127.0.0.1", "::1", "localhost"};
  bool public_hosts = false;
  std::string setting = "engines";  ///< whose `allowed_hosts` a refusal names
};

/// True for addresses that an unlisted host may not resolve to (also when the text is no address).
[[nodiscard]] bool is_internal_address(std::string_view address);

/// `forbidden` when the host of `url` can never be allowed; names the setting to change.
[[nodiscard]] schema::Result<void> check_outgoing(const Url& url, const OutgoingPolicy& policy);

/// True when the settings name the host of `url` itself, not only admit every public one.
[[nodiscard]] bool is_listed(const Url& url, const OutgoingPolicy& policy);

/// A copy of `options` whose `accept_address` applies `policy` to the host of `url` after resolution.
[[nodiscard]] ClientOptions with_policy(ClientOptions options, const Url& url, const OutgoingPolicy& policy);

}  // namespace driftgate::net
