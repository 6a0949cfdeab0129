#include "daemon/api/body.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "schema/json.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;
using schema::fail;

/// A string that the body must have.
schema::Result<std::string> string_of(const nlohmann::json& body, std::string_view member) {
  const auto found = body.find(member);
  const std::string pointer = "/" + std::string(member);
  if (found == body.end() || !found->is_string())
    return fail(ErrorCode::invalid_document, fmt::format("'{}' must be given as a string", member), pointer);
  auto value = found->get<std::string>();
  if (value.empty() || value.size() > kMaxReasonBytes)
    return fail(ErrorCode::invalid_document,
                fmt::format("'{}' must have 1 to {} bytes", member, kMaxReasonBytes), pointer);
  return value;
}

/// The values of `members`, which must all be strings, in a body that has no others.
schema::Result<std::vector<std::string>> read_strings(std::string_view text,
                                                      std::initializer_list<std::string_view> members) {
  const auto body = TRY(parse_body(text, members));
  std::vector<std::string> values;
  for (const std::string_view member : members) {
    auto value = TRY(string_of(body, member));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

schema::Result<nlohmann::json> parse_body(std::string_view text,
                                          std::initializer_list<std::string_view> members) {
  auto body = TRY(schema::parse_json(text, {}, "the request body"));
  if (!body.is_object()) return fail(ErrorCode::invalid_document, "the request body must be a JSON object");
  for (const auto& [name, value] : body.items())
    if (std::ranges::find(members, name) == members.end())
      return fail(ErrorCode::invalid_document, fmt::format("unknown member '{}'", name),
                  "/" + schema::pointer_token(name));
  return body;
}

schema::Result<std::string> parse_reason(std::string_view json) {
  auto values = TRY(read_strings(json, {"reason"}));
  return std::move(values[0]);
}

schema::Result<pipeline::Order> parse_order(std::string_view json) {
  const auto body = TRY(parse_body(json, {"reason", "evidence_digest"}));
  auto reason = TRY(string_of(body, "reason"));
  if (!body.contains("evidence_digest")) return pipeline::Order(std::move(reason));
  auto shown = TRY(string_of(body, "evidence_digest"));
  return pipeline::Order(std::move(reason), std::move(shown));
}

schema::Result<ApprovalBody> parse_approval(std::string_view json) {
  auto values = TRY(read_strings(json, {"evidence_digest", "reason"}));
  return ApprovalBody{std::move(values[0]), std::move(values[1])};
}

schema::Result<WaiverBody> parse_waiver(std::string_view json) {
  auto values = TRY(read_strings(json, {"clause", "evidence_digest", "reason"}));
  return WaiverBody{std::move(values[0]), std::move(values[1]), std::move(values[2])};
}

}  // namespace driftgate::api
