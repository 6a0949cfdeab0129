#include "daemon/auth/principal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace driftgate::auth {

using schema::ErrorCode;

namespace {

constexpr std::array<std::string_view, 6> kScopeNames = {"viewer",   "promoter", "approver",
                                                         "operator", "auditor",  "admin"};

bool allows(const Scopes& scopes, Scope wanted) {
  if (scopes.has(wanted)) return true;
  if (wanted == Scope::viewer) return !scopes.empty();
  return wanted != Scope::approver && scopes.has(Scope::admin);
}

}  // namespace

std::string_view to_string(Scope scope) {
  return kScopeNames.at(static_cast<std::size_t>(scope));
}

Result<Scope> parse_scope(std::string_view name) {
  const auto found = std::ranges::find(kScopeNames, name);
  if (found != kScopeNames.end()) return static_cast<Scope>(found - kScopeNames.begin());
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format("'{}' is not a scope; allowed: {}", name.substr(0, 80), fmt::join(kScopeNames, ", ")));
}

std::vector<Scope> Scopes::list() const {
  std::vector<Scope> scopes;
  for (std::size_t i = 0; i < kScopeNames.size(); ++i) {
    if (has(static_cast<Scope>(i))) scopes.push_back(static_cast<Scope>(i));
  }
  return scopes;
}

std::vector<std::string_view> Scopes::names() const {
  std::vector<std::string_view> names;
  for (const Scope scope : list()) names.push_back(to_string(scope));
  return names;
}

std::string Scopes::text() const {
  return fmt::format("{}", fmt::join(names(), ","));
}

Result<Scopes> parse_scopes(std::string_view text) {
  Scopes scopes;
  while (true) {
    const std::size_t comma = text.find(',');
    const Scope scope = TRY(parse_scope(text.substr(0, comma)));
    if (scopes.has(scope)) {
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("scope '{}' is given twice", to_string(scope)));
    }
    scopes.add(scope);
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  if (scopes.has(Scope::admin) && scopes.has(Scope::approver)) {
    return schema::fail(ErrorCode::invalid_argument,
                        "admin and approver exclude each other: whoever grants tokens must not approve");
  }
  return scopes;
}

Result<void> require(const Principal& principal, Scope scope) {
  if (allows(principal.scopes, scope)) return {};
  return schema::fail(
      ErrorCode::forbidden,
      fmt::format("this needs the scope '{}'; the token of '{}' has: {}. Use a token that has it "
                  "(--token-file), or ask an admin for one: driftgate token issue --scope {}",
                  to_string(scope), principal.name, principal.scopes.text(), to_string(scope)));
}

}  // namespace driftgate::auth
