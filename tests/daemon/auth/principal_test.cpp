#include "daemon/auth/principal.hpp"

#include <doctest/doctest.h>

using namespace driftgate;
using namespace driftgate::auth;
using schema::ErrorCode;

namespace {

constexpr Scope kAll[] = {Scope::viewer,    Scope::promoter, Scope::approver,
                          Scope::operator_, Scope::auditor,  Scope::admin};

Principal with(Scopes scopes, std::string name = "ada") {
  return {.token_id = "tok-1", .name = std::move(name), .scopes = scopes};
}

/// Which scopes a token with only `given` satisfies, as text.
std::string satisfied_by(Scope given) {
  Scopes found;
  for (const Scope wanted : kAll) {
    if (require(with({given}), wanted)) found.add(wanted);
  }
  return found.text();
}

}  // namespace

TEST_CASE("each scope allows exactly what it says, and every one allows reading") {
  CHECK(satisfied_by(Scope::viewer) == "viewer");
  CHECK(satisfied_by(Scope::promoter) == "viewer,promoter");
  CHECK(satisfied_by(Scope::approver) == "viewer,approver");
  CHECK(satisfied_by(Scope::operator_) == "viewer,operator");
  CHECK(satisfied_by(Scope::auditor) == "viewer,auditor");
  CHECK(satisfied_by(Scope::admin) == "viewer,promoter,operator,auditor,admin");
  for (const Scope wanted : kAll) CHECK(require(with({}), wanted).error().code == ErrorCode::forbidden);
}

TEST_CASE("scopes are read from names and written in one order") {
  CHECK(parse_scopes("viewer")->text() == "viewer");
  CHECK(parse_scopes("approver,viewer")->text() == "viewer,approver");
  CHECK(parse_scopes("operator,auditor,promoter")->text() == "promoter,operator,auditor");
  for (const char* bad : {"", ",", "viewer,", ",viewer", "viewer,viewer", "Viewer", "viewer, promoter",
                          "root", "admin,approver", "approver,viewer,admin"}) {
    CAPTURE(bad);
    const auto refused = parse_scopes(bad);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
  }
}
