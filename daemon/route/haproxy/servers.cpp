#include "daemon/route/haproxy/servers.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "daemon/route/relay/endpoint.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {
namespace {

constexpr std::string_view kRouterServer = "router";
constexpr std::uint32_t kIncumbentWeight = 1;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? std::string()
                                                                                     : text.data();
}

/// HAProxy resolves no names of servers that are added while it runs. IPv4 is preferred.
schema::Result<std::string> numeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  const addrinfo* chosen = nullptr;
  for (const auto* one = list.get(); error == 0 && one != nullptr; one = one->ai_next) {
    if (chosen == nullptr || (one->ai_family == AF_INET && chosen->ai_family != AF_INET)) chosen = one;
  }
  if (chosen != nullptr) return text_of(chosen->ai_addr);
  return schema::failf(schema::ErrorCode::unavailable, "the engine's host '{}' has no address: {}", host,
                       ::gai_strerror(error));
}

schema::Result<Server> server_of(const Arm& arm, std::uint32_t weight) {
  const auto engine = TRY(parse_engine_url(arm.url));
  if (engine.tls || !engine.prefix.empty())
    return schema::failf(
        schema::ErrorCode::unsupported,
        "HAProxy reaches engines at http://host:port alone, not at {}: set data_plane to router", arm.url);
  auto address = TRY(numeric(engine.host));
  return Server{arm.version, std::move(address), engine.port, weight, true};
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

/// Where the columns stand that are read; HAProxy names them in the line that begins with '#'.
struct Columns {
  std::size_t name = 0, address = 0, admin = 0, weight = 0, port = 0;

  explicit Columns(const std::vector<std::string_view>& heads) {
    const auto at = [&](std::string_view head) {
      const auto found = std::ranges::find(heads, head);
      return found == heads.begin() || found == heads.end()
                 ? 0
                 : static_cast<std::size_t>(found - heads.begin()) - 1;
    };
    name = at("srv_name");
    address = at("srv_addr");
    admin = at("srv_admin_state");
    weight = at("srv_uweight");
    port = at("srv_port");
  }
  [[nodiscard]] std::size_t most() const { return std::max({name, address, admin, weight, port}); }
  [[nodiscard]] bool complete() const { return std::min({name, address, admin, weight, port}) > 0; }
};

std::uint32_t number_in(std::string_view text) {
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string place_of(const Server& server) {
  const bool six = server.address.contains(':');
  return fmt::format("{}{}{}:{}", six ? "[" : "", server.address, six ? "]" : "", server.port);
}

}  // namespace

schema::Result<std::vector<Server>> servers_of(const ModelRoute& route) {
  auto incumbent = TRY(server_of(route.incumbent, kIncumbentWeight));
  std::vector<Server> servers{std::move(incumbent)};
  for (const auto& arm : {route.candidate, route.fallback}) {
    if (!arm || find_server(servers, arm->version) != nullptr) continue;
    auto server = TRY(server_of(*arm, 0));
    servers.push_back(std::move(server));
  }
  return servers;
}

std::vector<Server> parse_servers(std::string_view shown) {
  std::vector<Server> servers;
  std::optional<Columns> columns;
  while (!shown.empty()) {
    const auto end = std::min(shown.find('\n'), shown.size());
    const auto words = words_of(shown.substr(0, end));
    shown.remove_prefix(std::min(end + 1, shown.size()));
    if (!words.empty() && words.front() == "#") columns.emplace(words);
    if (!columns || !columns->complete() || words.size() <= columns->most() || words.front() == "#") continue;
    if (words[columns->name] == kRouterServer) continue;
    servers.push_back({std::string(words[columns->name]), std::string(words[columns->address]),
                       static_cast<std::uint16_t>(number_in(words[columns->port])),
                       number_in(words[columns->weight]), number_in(words[columns->admin]) == 0});
  }
  return servers;
}

const Server* find_server(const std::vector<Server>& servers, std::string_view name) {
  const auto found = std::ranges::find(servers, name, &Server::name);
  return found == servers.end() ? nullptr : &*found;
}

std::vector<std::string> commands_before(const std::string& backend, const std::vector<Server>& wanted,
                                         const std::vector<Server>& held) {
  std::vector<std::string> commands;
  for (const auto& server : wanted) {
    const auto full = fmt::format("{}/{}", backend, server.name);
    const auto* there = find_server(held, server.name);
    if (there == nullptr) {
      commands.push_back(fmt::format("add server {}/{}", backend, server_text(server)));
      commands.push_back(fmt::format("set server {} state ready", full));
      continue;
    }
    if (there->address != server.address || there->port != server.port)
      commands.push_back(fmt::format("set server {} addr {} port {}", full, server.address, server.port));
    if (there->weight < server.weight)
      commands.push_back(fmt::format("set server {} weight {}", full, server.weight));
    if (!there->ready) commands.push_back(fmt::format("set server {} state ready", full));
  }
  return commands;
}

std::vector<std::string> commands_after(const std::string& backend, const std::vector<Server>& wanted,
                                        const std::vector<Server>& held) {
  std::vector<std::string> commands;
  for (const auto& server : held) {
    const auto full = fmt::format("{}/{}", backend, server.name);
    const auto* kept = find_server(wanted, server.name);
    if (kept != nullptr) {
      if (server.weight > kept->weight)
        commands.push_back(fmt::format("set server {} weight {}", full, kept->weight));
    } else {
      commands.push_back(server.ready ? fmt::format("set server {} state maint", full)
                                      : fmt::format("del server {}", full));
    }
  }
  return commands;
}

std::string server_text(const Server& server) {
  // Servers that are added while HAProxy runs keep no connections unless both limits of the pool are stated
  // (2.6).
  return fmt::format("{} {} weight {} pool-max-conn -1 pool-purge-delay 5s", server.name, place_of(server),
                     server.weight);
}

}  // namespace driftgate::route::haproxy
