#include "daemon/route/control/router_driver.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/relay/forward.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/worker/core.hpp"

namespace driftgate::route {
namespace {

using nlohmann::json;

std::unexpected<schema::Error> strange(std::string_view what) {
  return schema::fail(
      schema::ErrorCode::internal,
      fmt::format("the router's answer has no usable {}; are daemon and router of one version?", what));
}

/// Only a closed or refused connection is worth a second try; a deadline has been waited for already.
bool worth_retrying(const schema::Error& error) {
  return error.code == schema::ErrorCode::unavailable;
}

}  // namespace

Capabilities RouterDriver::capabilities() const {
  return router_capabilities();
}

schema::Result<std::string> RouterDriver::send_once(const std::string& frame,
                                                    std::chrono::steady_clock::time_point deadline) {
  if (!socket_) {
    auto socket = TRY(connect_unix(control_path_));
    socket_ = base::UniqueFd(socket);
    buffer_.clear();
  }
  auto sent = write_all(socket_.get(), frame, deadline);
  auto answer = sent ? read_frame(socket_.get(), buffer_, deadline)
                     : schema::Result<std::string>(std::unexpected(sent.error()));
  // A connection with half an answer on it cannot be used again.
  if (!answer) socket_.reset();
  return answer;
}

schema::Result<json> RouterDriver::call(const json& request) {
  const auto text = request.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxFrameBytes) {
    return schema::fail(schema::ErrorCode::limit_exceeded,
                        "the request to the router is over the limit of a frame");
  }
  const auto frame = encode_frame(text);
  const std::lock_guard lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + deadline_;
  const bool had_connection = static_cast<bool>(socket_);
  auto answer = send_once(frame, deadline);
  if (!answer && had_connection && worth_retrying(answer.error())) answer = send_once(frame, deadline);
  if (!answer)
    return schema::wrap(answer.error(), fmt::format("the router at {} does not answer", control_path_));
  auto reply = parse_json(*answer);
  if (!reply) return schema::wrap(reply.error(), "the router's answer is not readable");
  const auto ok = reply->is_object() ? reply->find("ok") : reply->end();
  if (!reply->is_object() || ok == reply->end() || !ok->is_boolean()) return strange("'ok'");
  if (!ok->get<bool>()) return std::unexpected(error_from_json(reply->value("error", json())));
  return reply;
}

schema::Result<void> RouterDriver::apply(const ModelRoute& route) {
  TRY(call({{"op", "apply"}, {"route", to_json(route)}}));
  return {};
}

schema::Result<std::vector<ObservedRoute>> RouterDriver::observe() {
  auto reply = TRY(call({{"op", "observe"}}));
  const auto list = reply.find("routes");
  if (list == reply.end() || !list->is_array()) return strange("routes");
  std::vector<ObservedRoute> routes;
  for (const auto& entry : *list) {
    auto observed = TRY(observed_from_json(entry));
    routes.push_back(std::move(observed));
  }
  return routes;
}

schema::Result<void> RouterDriver::heartbeat() {
  TRY(call({{"op", "heartbeat"}}));
  return {};
}

schema::Result<std::vector<Window>> RouterDriver::windows(const WindowPosition& after, std::size_t limit) {
  auto reply =
      call({{"op", "windows"}, {"router_id", after.router_id}, {"after", after.number}, {"limit", limit}});
  if (!reply) return std::unexpected(reply.error());
  const auto list = reply->find("windows");
  if (list == reply->end() || !list->is_array()) return strange("windows");
  std::vector<Window> windows;
  for (const auto& entry : *list) {
    auto window = TRY(window_from_json(entry));
    windows.push_back(std::move(window));
  }
  return windows;
}

schema::Result<void> RouterDriver::acknowledge(const WindowPosition& position) {
  auto reply =
      call({{"op", "acknowledge"}, {"router_id", position.router_id}, {"number", position.number}});
  if (!reply) return std::unexpected(reply.error());
  return {};
}

schema::Result<std::string> RouterDriver::spool_path(const std::string& stage_key) {
  auto reply = TRY(call({{"op", "spool_path"}, {"stage_key", stage_key}}));
  const auto path = reply.find("path");
  if (path == reply.end() || !path->is_string()) return strange("path");
  return path->get<std::string>();
}

schema::Result<void> RouterDriver::drop_spool(const std::string& stage_key) {
  TRY(call({{"op", "drop_spool"}, {"stage_key", stage_key}}));
  return {};
}

std::string RouterDriver::mark() {
  const auto router = info();
  return router ? via_mark(router->router_id) : std::string();
}

schema::Result<RouterInfo> RouterDriver::info() {
  auto reply = TRY(call({{"op", "capabilities"}}));
  const auto pid = reply.find("pid");
  const auto port = reply.find("port");
  const auto id = reply.find("router_id");
  const bool usable = pid != reply.end() && pid->is_number_unsigned() && port != reply.end() &&
                      port->is_number_unsigned() && id != reply.end() && id->is_string();
  if (!usable) return strange("pid, port or router_id");
  const auto draining = reply.find("draining");
  return RouterInfo{pid->get<int>(), port->get<std::uint16_t>(), id->get<std::string>(),
                    draining != reply.end() && draining->is_boolean() && draining->get<bool>()};
}

schema::Result<void> RouterDriver::shutdown() {
  TRY(call({{"op", "shutdown"}}));
  return {};
}

}  // namespace driftgate::route
