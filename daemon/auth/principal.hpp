#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::auth {

using schema::Result;

/// What a token may do (docs/design/evidence.md, "Who may do what").
enum class Scope : std::uint8_t {
  viewer,     ///< read everything but evidence exports and tokens
  promoter,   ///< register contracts, kernels, engines; ask for promotions
  approver,   ///< approve, reject and waive
  operator_,  ///< named "operator": abort, rollback, pause, resume, holds, models
  auditor,    ///< evidence, proofs, exports
  admin,      ///< tokens and settings; never approves
};

[[nodiscard]] std::string_view to_string(Scope scope);
/// `invalid_argument` listing the six names for anything else.
[[nodiscard]] Result<Scope> parse_scope(std::string_view name);

/// A set of scopes.
class Scopes {
 public:
  constexpr Scopes() = default;
  constexpr Scopes(std::initializer_list<Scope> scopes) {
    for (const Scope scope : scopes) add(scope);
  }
  constexpr void add(Scope scope) { bits_ = static_cast<std::uint8_t>(bits_ | bit(scope)); }
  [[nodiscard]] constexpr bool has(Scope scope) const { return (bits_ & bit(scope)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] std::vector<Scope> list() const;
  [[nodiscard]] std::vector<std::string_view> names() const;  ///< in the order of `Scope`
  [[nodiscard]] std::string text() const;  ///< "approver,viewer"
  bool operator==(const Scopes&) const = default;

 private:
  static constexpr std::uint8_t bit(Scope scope) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(scope));
  }
  std::uint8_t bits_ = 0;
};

/// The scopes of "viewer,approver"; `invalid_argument` for an unknown, doubled or missing name, and for admin
/// together with approver: nobody holds both.
[[nodiscard]] Result<Scopes> parse_scopes(std::string_view text);

/// Who asks.
struct Principal {
  std::string token_id{};
  std::string name{};  ///< of the person or program; one person is one name
  Scopes scopes{};
  std::string session_id{};                  ///< of the browser's session; empty: the token itself was shown
  std::optional<std::int64_t> expires_us{};  ///< when the session, or else the token, ends by itself
};

/// `forbidden` unless the principal has the scope. viewer is implied by every other scope; admin implies
/// promoter, operator and auditor, never approver.
[[nodiscard]] Result<void> require(const Principal& principal, Scope scope);

}  // namespace driftgate::auth
