#include "daemon/api/call.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/api/problem.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::api {

using schema::ErrorCode;
using schema::fail;

std::string Call::query(std::string_view name) const {
  const auto value = request.query_value(name);
  return value ? std::string(*value) : std::string();
}

net::Response json_response(int status, std::string body) {
  net::Response response;
  response.status = status;
  response.headers.push_back({"Content-Type", "application/json"});
  response.body = std::move(body);
  return response;
}

net::Response text_response(std::string body, std::string_view media_type) {
  net::Response response;
  response.headers.push_back({"Content-Type", std::string(media_type)});
  response.body = std::move(body);
  return response;
}

net::Response view_response(const schema::Result<pipeline::View>& view) {
  return view ? json_response(200, view->json) : problem(view.error());
}

net::Response created_response(const schema::Result<pipeline::View>& view, std::string_view collection) {
  if (!view) return problem(view.error());
  net::Response response = json_response(view->created ? 201 : 200, view->json);
  response.headers.push_back({"Location", fmt::format("{}/{}", collection, net::percent_encode(view->id))});
  return response;
}

schema::Result<std::optional<std::uint64_t>> number_of(std::string_view text, std::string_view name) {
  if (text.empty()) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || value > (std::uint64_t{1} << 53U) - 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' must be a whole number, not '{}'", name, text));
  return value;
}

schema::Result<pipeline::PageRequest> page_request(const Call& call) {
  pipeline::PageRequest page;
  page.after = call.query("after");
  const auto limit = number_of(call.query("limit"), "limit");
  if (!limit) return std::unexpected(limit.error());
  if (*limit) page.limit = static_cast<std::size_t>(**limit);
  if (page.limit == 0 || page.limit > pipeline::kMaxPageItems)
    return fail(ErrorCode::invalid_argument, fmt::format("'limit' must be 1 to {}", pipeline::kMaxPageItems));
  return page;
}

net::Header next_link(const Call& call, std::string_view cursor) {
  std::string target = call.request.path + "?";
  for (const auto& [name, value] : call.request.query)
    if (name != "after") target += net::percent_encode(name) + "=" + net::percent_encode(value) + "&";
  return {"Link", fmt::format("<{}after={}>; rel=\"next\"", target, net::percent_encode(cursor))};
}

net::Response page_response(const Call& call, const schema::Result<pipeline::Page>& page) {
  if (!page) return problem(page.error());
  std::string body = "{\"items\":[";
  for (std::size_t i = 0; i < page->items.size(); ++i) {
    if (i > 0) body += ',';
    body += page->items[i].json;
  }
  body += "],\"next\":";
  body += page->next.empty() ? "null" : nlohmann::json(page->next).dump();
  body += '}';
  net::Response response = json_response(200, std::move(body));
  if (!page->next.empty()) response.headers.push_back(next_link(call, page->next));
  return response;
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
