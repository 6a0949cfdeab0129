#include "daemon/route/worker/router_options.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace driftgate::route {
namespace {

struct TextOption {
  const char* name;
  std::string RouterOptions::*member;
  bool required;
};
struct NumberOption {
  const char* name;
  std::uint32_t RouterOptions::*member;
  std::uint32_t least;
  std::uint32_t most;
};
struct SizeOption {
  const char* name;
  std::uint64_t RouterOptions::*member;
};

constexpr std::uint32_t kMaxMs = 86'400'000;

constexpr std::array kTexts{
    TextOption{"--listen", &RouterOptions::listen, true},
    TextOption{"--port-file", &RouterOptions::port_file, false},
    TextOption{"--control", &RouterOptions::control_path, true},
    TextOption{"--spool", &RouterOptions::spool_dir, true},
    TextOption{"--state", &RouterOptions::state_path, true},
};
constexpr std::array kNumbers{
    NumberOption{"--dead-man-ms", &RouterOptions::dead_man_ms, 1, kMaxMs},
    NumberOption{"--window-ms", &RouterOptions::window_ms, 1, kMaxMs},
    NumberOption{"--request-deadline-ms", &RouterOptions::request_deadline_ms, 1, kMaxMs},
    NumberOption{"--connect-ms", &RouterOptions::connect_ms, 1, kMaxMs},
    NumberOption{"--header-ms", &RouterOptions::header_ms, 1, kMaxMs},
    NumberOption{"--body-ms", &RouterOptions::body_ms, 1, kMaxMs},
    NumberOption{"--idle-ms", &RouterOptions::idle_ms, 1, kMaxMs},
    NumberOption{"--write-stall-ms", &RouterOptions::write_stall_ms, 1, kMaxMs},
    NumberOption{"--drain-ms", &RouterOptions::drain_ms, 0, kMaxMs},
    NumberOption{"--max-connections", &RouterOptions::max_connections, 1, 1'000'000},
    NumberOption{"--max-connections-per-address", &RouterOptions::max_connections_per_address, 1, 1'000'000},
    NumberOption{"--mirror-concurrency", &RouterOptions::mirror_concurrency, 1, 1'024},
    NumberOption{"--mirror-queue", &RouterOptions::mirror_queue, 0, 65'536},
    NumberOption{"--threads", &RouterOptions::threads, 1, 16},
    NumberOption{"--listen-fds", &RouterOptions::listen_fds, 0, 16},
};
constexpr std::array kSizes{
    SizeOption{"--spool-cap-bytes", &RouterOptions::spool_cap_bytes},
    SizeOption{"--max-body-bytes", &RouterOptions::max_body_bytes},
    SizeOption{"--body-memory-bytes", &RouterOptions::body_memory_bytes},
};

schema::Result<std::uint64_t> number(const std::string& name, const std::string& text, std::uint64_t least,
                                     std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("{} '{}' must be a whole number from {} to {}", name, text, least, most));
  }
  return value;
}

schema::Result<void> set(RouterOptions& options, const std::string& name, const std::string& value) {
  for (const auto& option : kTexts) {
    if (name != option.name) continue;
    options.*option.member = value;
    return {};
  }
  for (const auto& option : kNumbers) {
    if (name != option.name) continue;
    const auto parsed = TRY(number(name, value, option.least, option.most));
    options.*option.member = static_cast<std::uint32_t>(parsed);
    return {};
  }
  for (const auto& option : kSizes) {
    if (name != option.name) continue;
    const auto parsed = TRY(number(name, value, 1, std::numeric_limits<std::int64_t>::max()));
    options.*option.member = parsed;
    return {};
  }
  std::string known;
  for (const auto& option : kTexts) known.append(" ").append(option.name);
  for (const auto& option : kNumbers) known.append(" ").append(option.name);
  for (const auto& option : kSizes) known.append(" ").append(option.name);
  return schema::fail(schema::ErrorCode::invalid_argument,
                      fmt::format("unknown option {}; known are{}", name, known));
}

}  // namespace

std::vector<std::string> to_arguments(const RouterOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, std::string value) {
    words.emplace_back(name);
    words.push_back(std::move(value));
  };
  for (const auto& option : kTexts) {
    if (!(options.*option.member).empty()) add(option.name, options.*option.member);
  }
  for (const auto& option : kNumbers) add(option.name, std::to_string(options.*option.member));
  for (const auto& option : kSizes) add(option.name, std::to_string(options.*option.member));
  return words;
}

schema::Result<RouterOptions> parse_router_arguments(std::span<const std::string> words) {
  RouterOptions options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) {
      return schema::fail(schema::ErrorCode::invalid_argument,
                          fmt::format("option {} needs a value", words[i]));
    }
    TRY(set(options, words[i], words[i + 1]));
  }
  for (const auto& option : kTexts) {
    if (option.required && (options.*option.member).empty()) {
      return schema::fail(schema::ErrorCode::invalid_argument,
                          fmt::format("option {} is required", option.name));
    }
  }
  return options;
}

}  // namespace driftgate::route
