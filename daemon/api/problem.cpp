#include "daemon/api/problem.hpp"

#include <nlohmann/json.hpp>

#include "daemon/base/http_status.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::size_t kMaxFaults = 100;

/// One object for each line of a message that lists several faults; the pointer belongs to the only one.
json faults_of(const schema::Error& error) {
  json faults = json::array();
  std::string_view rest = error.message;
  while (!rest.empty() && faults.size() < kMaxFaults) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (!line.empty()) faults.push_back({{"detail", line}});
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  if (faults.size() == 1 && !error.where.empty())
    faults[0][error.where.starts_with('/') ? "pointer" : "where"] = error.where;
  return faults;
}

}  // namespace

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::unauthenticated:
      return 401;
    case ErrorCode::forbidden:
      return 403;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::already_exists:
    case ErrorCode::conflict:
      return 409;
    case ErrorCode::limit_exceeded:
      return 413;
    case ErrorCode::invalid_document:
    case ErrorCode::invalid_capture:
    case ErrorCode::not_comparable:
    case ErrorCode::unsupported:
      return 422;
    case ErrorCode::io:
    case ErrorCode::corrupt:
    case ErrorCode::internal:
      return 500;
    case ErrorCode::unavailable:
      return 503;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::storage_full:
      return 507;
  }
  return 500;
}

net::Response problem(const schema::Error& error) {
  const int status = status_of(error.code);
  const json body{{"type", "about:blank"},      {"title", base::reason_phrase(status)},
                  {"status", status},           {"code", schema::to_string(error.code)},
                  {"detail", error.describe()}, {"errors", faults_of(error)}};
  net::Response response;
  response.status = status;
  response.headers.push_back({"Content-Type", "application/problem+json"});
  if (status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"driftgate\""});
  if (status == 503) response.headers.push_back({"Retry-After", "1"});
  response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return response;
}

net::Response problem(ErrorCode code, std::string message, std::string where) {
  return problem(schema::Error{code, std::move(message), std::move(where), nullptr});
}

}  // namespace driftgate::api
