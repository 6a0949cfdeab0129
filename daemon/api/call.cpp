#include "daemon/api/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ranges>

#include "daemon/net/url.hpp"
#include "schema/json.hpp"

namespace driftgate::api {

using schema::ErrorCode;
using schema::fail;

std::string Call::query(std::string_view name) const {
  return std::string(request.query_value(name).value_or(""));
}

net::Response json_response(int status, std::string body) {
  net::Response response = text_response(std::move(body), "application/json");
  response.status = status;
  return response;
}

net::Response no_content() {
  net::Response response;
  response.status = 204;
  return response;
}

net::Response text_response(std::string body, std::string_view media_type) {
  net::Response response;
  response.headers.push_back({"Content-Type", std::string(media_type)});
  response.body = std::move(body);
  return response;
}

Reply view_response(const schema::Result<pipeline::View>& view) {
  if (!view) return std::unexpected(view.error());
  return json_response(200, view->json);
}

net::Response created_response(const pipeline::View& view, std::string_view collection) {
  net::Response response = json_response(view.created ? 201 : 200, view.json);
  response.headers.push_back({"Location", fmt::format("{}/{}", collection, net::percent_encode(view.id))});
  return response;
}

schema::Result<std::optional<std::int64_t>> number_of(const Call& call, std::string_view name) {
  return number_of(call.query(name), name);
}

schema::Result<std::optional<std::int64_t>> number_of(std::string_view text, std::string_view name) {
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || value > schema::kMaxJsonInteger)
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' must be a whole number, not '{}'", name, text));
  return static_cast<std::int64_t>(value);
}

schema::Result<bool> flag_of(const Call& call, std::string_view name) {
  const std::string text = call.query(name);
  if (!text.empty() && text != "true" && text != "false")
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' must be true or false", name));
  return text == "true";
}

schema::Result<pipeline::PageRequest> page_request(const Call& call) {
  pipeline::PageRequest page;
  page.after = call.query("after");
  const auto limit = TRY(number_of(call, "limit"));
  if (limit) page.limit = static_cast<std::size_t>(*limit);
  if (page.limit == 0 || page.limit > pipeline::kMaxPageItems)
    return fail(ErrorCode::invalid_argument, fmt::format("'limit' must be 1 to {}", pipeline::kMaxPageItems));
  return page;
}

net::Response items_response(const Call& call, std::string_view items, std::string_view next,
                             std::string_view more_members) {
  const nlohmann::json cursor = next.empty() ? nlohmann::json(nullptr) : nlohmann::json(next);
  net::Response response =
      json_response(200, fmt::format(R"({{"items":{},"next":{}{}}})", items, cursor.dump(), more_members));
  if (next.empty()) return response;
  std::string target = call.request.path + "?";
  for (const auto& [name, value] : call.request.query)
    if (name != "after") target += net::percent_encode(name) + "=" + net::percent_encode(value) + "&";
  response.headers.push_back(
      {"Link", fmt::format("<{}after={}>; rel=\"next\"", target, net::percent_encode(next))});
  return response;
}

Reply page_response(const Call& call, const schema::Result<pipeline::Page>& page) {
  if (!page) return std::unexpected(page.error());
  const auto views = page->items | std::views::transform(&pipeline::View::json);
  return items_response(call, fmt::format("[{}]", fmt::join(views.begin(), views.end(), ",")), page->next);
}

std::chrono::seconds preferred_wait(const net::RequestHead& head) {
  const auto prefer = head.header("prefer");
  if (!prefer) return {};
  constexpr std::string_view kWait = "wait=";
  const std::size_t at = prefer->find(kWait);
  if (at == std::string_view::npos) return {};
  unsigned seconds = 0;
  const char* begin = prefer->data() + at + kWait.size();
  std::from_chars(begin, prefer->data() + prefer->size(), seconds);
  return std::min(kMaxWait, std::chrono::seconds(seconds));
}

}  // namespace driftgate::api
