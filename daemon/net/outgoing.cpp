#include "daemon/net/outgoing.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "daemon/base/http_text.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

struct Block {
  std::uint32_t network;
  unsigned bits;
};

/// IANA special-purpose registry, IPv4: everything that is not a host on the public internet.
constexpr std::array kInternalV4 = std::to_array<Block>({
    {0x00000000, 8},
    {0x0A000000, 8},
    {0x64400000, 10},
    {0x7F000000, 8},
    {0xA9FE0000, 16},
    {0xAC100000, 12},
    {0xC0000000, 24},
    {0xC0000200, 24},
    {0xC0A80000, 16},
    {0xC6120000, 15},
    {0xC6336400, 24},
    {0xCB007100, 24},
    {0xE0000000, 4},
    {0xF0000000, 4},
});

bool internal_v4(std::uint32_t address) {
  return std::ranges::any_of(kInternalV4, [address](const Block& block) {
    const std::uint32_t mask = ~std::uint32_t{0} << (32U - block.bits);
    return (address & mask) == block.network;
  });
}

bool internal_v6(const in6_addr& address) {
  const std::uint8_t* b = address.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return internal_v4(ntohl(address.s6_addr32[3]));
  const bool global_unicast = (b[0] & 0xE0U) == 0x20U;  // 2000::/3 is all that is routed
  const bool documentation = b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0D && b[3] == 0xB8;
  const bool tunnelled = b[0] == 0x20 && (b[1] == 0x02 || (b[1] == 0x01 && b[2] == 0 && b[3] == 0));
  return !global_unicast || documentation || tunnelled;
}

bool listed(const std::string& host, const OutgoingPolicy& policy) {
  return std::ranges::any_of(policy.allowed_hosts, [&host](const std::string& allowed) {
    return base::equal_ignoring_case(host, allowed);
  });
}

}  // namespace

bool is_internal_address(std::string_view address) {
  const std::string text(address);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return internal_v4(ntohl(v4.s_addr));
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return internal_v6(v6);
  return true;
}

schema::Result<void> check_outgoing(const Url& url, const OutgoingPolicy& policy) {
  if (listed(url.host, policy) || policy.public_hosts) return {};
  return schema::failf(schema::ErrorCode::forbidden,
                       "host '{}' is not allowed: add it to {}.allowed_hosts in the daemon's settings",
                       url.host, policy.setting);
}

bool is_listed(const Url& url, const OutgoingPolicy& policy) {
  return listed(url.host, policy);
}

ClientOptions with_policy(ClientOptions options, const Url& url, const OutgoingPolicy& policy) {
  if (listed(url.host, policy)) return options;
  const bool public_hosts = policy.public_hosts;
  options.accept_address = [public_hosts](std::string_view address) {
    return public_hosts && !is_internal_address(address);
  };
  return options;
}

}  // namespace driftgate::net
