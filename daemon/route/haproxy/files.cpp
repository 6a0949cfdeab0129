#include "daemon/route/haproxy/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "daemon/base/ascii.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/route/haproxy/config_text.hpp"
#include "daemon/route/haproxy/maps.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/table/decide.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSecretBytes = 32;  // hexadecimal digits

/// Paths stand in HAProxy's configuration and in commands, where blanks and quotes would mean something.
schema::Result<void> check_path(const std::string& path, std::string_view what) {
  const bool plain = path.starts_with('/') && std::ranges::all_of(path, [](char byte) {
                       return base::is_alphanumeric(byte, "/._-+@");
                     });
  if (plain) return {};
  return schema::failf(schema::ErrorCode::invalid_argument,
                       "{} '{}' must be an absolute path of letters, digits and / . _ - + @", what, path);
}

schema::Result<void> check_line(const std::string& text, std::string_view what) {
  const bool one_line = !text.empty() && std::ranges::none_of(text, [](char byte) { return byte < ' '; });
  if (one_line) return {};
  return schema::failf(schema::ErrorCode::invalid_argument, "{} must be one line of text", what);
}

std::string new_secret() {
  std::random_device random;
  std::string secret;
  while (secret.size() < kSecretBytes) secret += fmt::format("{:08x}", random());
  return secret;
}

/// The secret of the folder; a new one where there is none that can be used.
schema::Result<std::string> keep_secret(const std::string& path) {
  std::error_code unknown;
  if (fs::exists(path, unknown)) {
    auto kept = TRY(base::read_file(path));
    const bool usable = kept.size() == kSecretBytes &&
                        std::ranges::all_of(kept, [](char byte) { return base::is_alphanumeric(byte); });
    if (usable) return kept;
  }
  auto secret = new_secret();
  TRY(base::write_file_durably(path, secret, 0600));
  return secret;
}

schema::Result<void> make_folder(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {};
  const auto parent = fs::path(path).parent_path();
  const bool new_parent = !fs::is_directory(parent, error);
  fs::create_directories(path, error);
  if (!error && new_parent) fs::permissions(parent, fs::perms::owner_all, error);
  if (!error) fs::permissions(path, fs::perms::owner_all, error);
  if (!error) return {};
  return schema::failf(schema::ErrorCode::io, "cannot make the folder {}: {}", path, error.message());
}

/// What a file of an earlier process holds; "" where it cannot be read, so that it is written anew.
std::string text_there(const std::string& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return {};
  return base::read_file(path).value_or(std::string());
}

}  // namespace

schema::Result<PlacedRoute> place(const ObservedRoute& observed, Slots& slots) {
  TRY(check_route(observed.route));
  auto backend = TRY(slots.backend_of(observed.route.model));
  auto servers = TRY(servers_of(observed.route));
  return PlacedRoute{observed, std::move(backend), std::move(servers)};
}

std::vector<PlacedRoute> place_all(
    const std::vector<ModelRoute>& routes, Slots& slots,
    const std::function<void(const std::string& model, const schema::Error& why)>& left_out) {
  std::vector<PlacedRoute> placed;
  for (const auto& route : routes) {
    auto one = place({effective_route(route, true), true}, slots);
    if (one) {
      placed.push_back(std::move(*one));
    } else {
      left_out(route.model, one.error());
    }
  }
  return placed;
}

StartFiles::StartFiles(const RouterOptions& options, std::string router)
    : options_(options), router_(std::move(router)), files_{options.haproxy_dir} {}

schema::Result<StartFiles> StartFiles::open(const RouterOptions& options, std::string router) {
  TRY(check_path(options.haproxy_dir, "haproxy.dir"));
  TRY(check_path(options.haproxy_socket, "haproxy.socket"));
  TRY(check_line(options.haproxy_bind, "haproxy.bind"));
  TRY(check_line(options.haproxy_log, "haproxy.log"));
  TRY(make_folder(options.haproxy_dir));
  StartFiles start(options, std::move(router));
  auto secret = TRY(keep_secret(start.files_.secret()));
  start.secret_ = std::move(secret);
  for (const auto& path : {start.files_.config(), start.files_.routes(), start.files_.slices()})
    start.written_[path] = text_there(path);
  return start;
}

schema::Result<void> StartFiles::put(const std::string& path, const std::string& text) {
  std::error_code unknown;
  if (written_[path] == text && fs::exists(path, unknown)) return {};
  TRY(base::write_file_durably(path, text, 0600));
  written_[path] = text;
  return {};
}

schema::Result<void> StartFiles::write(const std::vector<PlacedRoute>& routes, const Slots& slots) {
  Maps maps;
  BackendServers servers;
  for (const auto& [observed, backend, of_route] : routes) {
    append_entries({effective_route(observed.route, true), true}, backend, maps);
    servers[backend] = of_route;
  }
  std::size_t backends = options_.haproxy_models;
  while (std::ranges::any_of(slots.all(),
                             [&](const auto& one) { return one.second == backend_name(backends + 1); }))
    ++backends;
  // The configuration last: it names the maps, and HAProxy does not start without them.
  TRY(put(files_.routes(), map_text(maps.routes)));
  TRY(put(files_.slices(), map_text(maps.slices)));
  return put(files_.config(), config_text({.options = options_,
                                           .files = files_,
                                           .router = router_,
                                           .secret = secret_,
                                           .user = ::getuid(),
                                           .backends = backends,
                                           .servers = servers}));
}

schema::Result<std::string> router_address(const std::string& listen, std::uint16_t port) {
  const auto at = TRY(parse_authority(listen));
  if (at.host == "0.0.0.0") return fmt::format("127.0.0.1:{}", port);
  if (at.host == "::") return fmt::format("[::1]:{}", port);
  const bool six = at.host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", at.host, port) : fmt::format("{}:{}", at.host, port);
}

}  // namespace driftgate::route::haproxy
