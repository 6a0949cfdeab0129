#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/net/http_client.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

inline constexpr std::chrono::milliseconds kEngineTimeout{10'000};  ///< one exchange with an engine

/// A client for an engine's base URL, with the outgoing policy applied.
[[nodiscard]] schema::Result<net::HttpClient> engine_http(const std::string& base_url,
                                                          const net::OutgoingPolicy& policy, bool keep_alive);
[[nodiscard]] net::ClientRequest engine_get(const net::HttpClient& client, std::string_view path);
[[nodiscard]] net::ClientRequest engine_post(const net::HttpClient& client, std::string_view path,
                                             const nlohmann::json& body);

}  // namespace driftgate::jobs
