#include "daemon/route/worker/router_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <variant>

namespace driftgate::route {
namespace {

using Text = std::string RouterOptions::*;
using Number = std::uint32_t RouterOptions::*;
using Size = std::uint64_t RouterOptions::*;

struct Option {
  std::string_view name;
  std::variant<Text, Number, Size> member;
  std::uint64_t least = 0;  ///< of a number or a size; of a text 1 when it is required
  std::uint64_t most = 0;
};

constexpr std::uint64_t kMaxMs = 86'400'000;

constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

constexpr std::array kOptions{
    Option{"--listen", &RouterOptions::listen, 1},
    Option{"--port-file", &RouterOptions::port_file},
    Option{"--control", &RouterOptions::control_path, 1},
    Option{"--spool", &RouterOptions::spool_dir, 1},
    Option{"--state", &RouterOptions::state_path, 1},
    Option{"--lease-ms", &RouterOptions::lease_ms, 1, kMaxMs},
    Option{"--window-ms", &RouterOptions::window_ms, 1, kMaxMs},
    Option{"--request-deadline-ms", &RouterOptions::request_deadline_ms, 1, kMaxMs},
    Option{"--connect-ms", &RouterOptions::connect_ms, 1, kMaxMs},
    Option{"--first-byte-ms", &RouterOptions::first_byte_ms, 0, kMaxMs},
    Option{"--first-byte-floor-ms", &RouterOptions::first_byte_floor_ms, 0, kMaxMs},
    Option{"--between-ms", &RouterOptions::between_ms, 1, kMaxMs},
    Option{"--breaker-failures", &RouterOptions::breaker_failures, 0, 1'000},
    Option{"--probe-ms", &RouterOptions::probe_ms, 0, kMaxMs},
    Option{"--probe-timeout-ms", &RouterOptions::probe_timeout_ms, 1, kMaxMs},
    Option{"--header-ms", &RouterOptions::header_ms, 1, kMaxMs},
    Option{"--body-ms", &RouterOptions::body_ms, 1, kMaxMs},
    Option{"--idle-ms", &RouterOptions::idle_ms, 1, kMaxMs},
    Option{"--write-stall-ms", &RouterOptions::write_stall_ms, 1, kMaxMs},
    Option{"--drain-ms", &RouterOptions::drain_ms, 0, kMaxMs},
    Option{"--retire-ms", &RouterOptions::retire_ms, 0, kMaxMs},
    Option{"--max-connections", &RouterOptions::max_connections, 1, 1'000'000},
    Option{"--max-connections-per-address", &RouterOptions::max_connections_per_address, 1, 1'000'000},
    Option{"--mirror-concurrency", &RouterOptions::mirror_concurrency, 1, 1'024},
    Option{"--mirror-queue", &RouterOptions::mirror_queue, 0, 65'536},
    Option{"--threads", &RouterOptions::threads, 1, 16},
    Option{"--listen-fds", &RouterOptions::listen_fds, 0, 16},
    Option{"--spool-cap-bytes", &RouterOptions::spool_cap_bytes, 1, kMaxBytes},
    Option{"--further-paths", &RouterOptions::further_paths},
    Option{"--haproxy-dir", &RouterOptions::haproxy_dir},
    Option{"--haproxy-socket", &RouterOptions::haproxy_socket},
    Option{"--haproxy-log", &RouterOptions::haproxy_log},
    Option{"--haproxy-bind", &RouterOptions::haproxy_bind},
    Option{"--haproxy-models", &RouterOptions::haproxy_models, 1, 64},
    Option{"--haproxy-buffer-bytes", &RouterOptions::haproxy_buffer_bytes, 16'384, 1 << 20},
    Option{"--gateway-api", &RouterOptions::gateway_api},
    Option{"--gateway-ca-file", &RouterOptions::gateway_ca_file},
    Option{"--gateway-token-file", &RouterOptions::gateway_token_file},
    Option{"--gateway-namespace", &RouterOptions::gateway_namespace},
    Option{"--gateway-name", &RouterOptions::gateway_name},
    Option{"--gateway-parents", &RouterOptions::gateway_parents},
    Option{"--gateway-hostnames", &RouterOptions::gateway_hostnames},
    Option{"--gateway-router", &RouterOptions::gateway_router},
    Option{"--gateway-watched-bp", &RouterOptions::gateway_watched_bp, 0, 10'000},
    Option{"--max-body-bytes", &RouterOptions::max_body_bytes, 1, kMaxBytes},
    Option{"--body-memory-bytes", &RouterOptions::body_memory_bytes, 1, kMaxBytes},
};

std::unexpected<schema::Error> refuse(std::string message) {
  return schema::fail(schema::ErrorCode::invalid_argument, std::move(message));
}

/// The option's value as a word of a command line.
std::string word_of(const RouterOptions& options, const Option& option) {
  if (const auto* text = std::get_if<Text>(&option.member)) return options.**text;
  if (const auto* number = std::get_if<Number>(&option.member)) return std::to_string(options.**number);
  return std::to_string(options.*std::get<Size>(option.member));
}

schema::Result<void> set(RouterOptions& options, const std::string& name, const std::string& word) {
  const auto option = std::ranges::find(kOptions, name, &Option::name);
  if (option == kOptions.end()) {
    std::string known;
    for (const auto& one : kOptions) known.append(" ").append(one.name);
    return refuse(fmt::format("unknown option {}; the options are{}", name, known));
  }
  if (const auto* text = std::get_if<Text>(&option->member)) {
    options.** text = word;
    return {};
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < option->least ||
      value > option->most)
    return refuse(
        fmt::format("{} '{}' must be a whole number from {} to {}", name, word, option->least, option->most));
  if (const auto* number = std::get_if<Number>(&option->member))
    options.** number = static_cast<std::uint32_t>(value);
  else
    options.*std::get<Size>(option->member) = value;
  return {};
}

}  // namespace

std::string access_path(const RouterOptions& options) {
  return options.state_path + ".access";
}

std::vector<std::string> to_arguments(const RouterOptions& options) {
  std::vector<std::string> words;
  for (const auto& option : kOptions) {
    auto word = word_of(options, option);
    if (!word.empty()) words.insert(words.end(), {std::string(option.name), std::move(word)});
  }
  return words;
}

schema::Result<RouterOptions> parse_router_arguments(std::span<const std::string> words) {
  RouterOptions options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return refuse(fmt::format("option {} needs a value", words[i]));
    TRY(set(options, words[i], words[i + 1]));
  }
  for (const auto& option : kOptions) {
    if (option.least > 0 && word_of(options, option).empty())
      return refuse(fmt::format("option {} is required", option.name));
  }
  return options;
}

}  // namespace driftgate::route
