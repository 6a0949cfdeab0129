#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "daemon/api/routes.hpp"

namespace driftgate::api {

using auth::Scope;

/// Describes a route further. It points into the list of routes: use it before the next route is added.
class RouteBuilder {
 public:
  explicit RouteBuilder(Route& route) : route_(route) {}
  RouteBuilder& answer(int status, std::string_view schema, std::string_view text,
                       std::string_view media_type = "application/json") {
    route_.answers.push_back({status, schema, text, media_type});
    return *this;
  }
  RouteBuilder& query(std::string_view name, std::string_view type, std::string_view text) {
    route_.query.push_back({name, type, text});
    return *this;
  }
  /// The two ends of a range of time.
  RouteBuilder& times() {
    query("from_us", "integer", "from this time on, in µs since the epoch");
    return query("to_us", "integer", "before this time, in µs since the epoch");
  }
  /// What entries of the log are filtered by.
  RouteBuilder& entry_filters() {
    for (const std::string_view name : {"model", "promotion", "stage", "checkpoint", "contract", "kernel",
                                        "kind", "actor", "clause", "verdict"})
      query(name, "string", "");
    return times();
  }
  /// Answers with pages, `schema` each.
  RouteBuilder& pages(std::string_view schema, std::string_view text = "a page") {
    query("after", "string", "cursor: `next` of the previous page");
    query("limit", "integer", "items on a page");
    return answer(200, schema, text);
  }
  RouteBuilder& body(std::string_view schema) {
    route_.request_schema = schema;
    return *this;
  }
  RouteBuilder& yaml() {
    route_.yaml = true;
    return *this;
  }
  RouteBuilder& idempotent() {
    route_.idempotent = true;
    return *this;
  }
  RouteBuilder& lane(net::Lane lane) {
    route_.lane = lane;
    return *this;
  }
  RouteBuilder& waits() {
    route_.waits = true;
    return *this;
  }

 private:
  Route& route_;
};

/// Adds routes that share a tag to a list.
class RouteGroup {
 public:
  RouteGroup(std::vector<Route>& list, std::string_view tag) : list_(list), tag_(tag) {}
  RouteBuilder get(std::string_view path, std::string_view id, std::string_view summary,
                   std::optional<Scope> scope, HandlerFunction handler) {
    return add("GET", path, id, summary, scope, handler);
  }
  RouteBuilder post(std::string_view path, std::string_view id, std::string_view summary,
                    std::optional<Scope> scope, HandlerFunction handler) {
    return add("POST", path, id, summary, scope, handler);
  }
  RouteBuilder add(std::string_view method, std::string_view path, std::string_view id,
                   std::string_view summary, std::optional<Scope> scope, HandlerFunction handler) {
    list_.push_back({method, path, id, tag_, summary, scope, handler});
    return RouteBuilder(list_.back());
  }

 private:
  std::vector<Route>& list_;
  std::string_view tag_;
};

}  // namespace driftgate::api
