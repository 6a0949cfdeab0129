#include "daemon/api/request_scope.hpp"

#include <doctest/doctest.h>

#include <string>

#include "daemon/store/store.hpp"
#include "fakes.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using driftgate::schema::ErrorCode;

TEST_CASE("a request refuses what it made when its idempotency key was used meanwhile, and says so") {
  const store::testing::TempDir folder;
  auto opened = store::Store::open({.data_dir = folder.path()});
  REQUIRE(opened);
  auto& store = **opened;
  api::test::FakeTokens tokens;
  const auth::Principal principal{.token_id = "tok-1", .name = "ada"};
  const store::KeyedRequest keyed{"ada", "key", "digest"};
  const auto make = [&](api::RequestScope& scope) {
    const store::EnterWriteScope entered(&scope);
    return store.write("make",
                       [](store::Tx& tx) { return store::note_made(tx, {.id = "pr-1", .json = "{}"}); });
  };
  api::RequestScope unkeyed(tokens, principal);
  CHECK_FALSE(unkeyed.wants_answer());
  CHECK(make(unkeyed));
  CHECK_FALSE(unkeyed.kept());
  api::RequestScope first(tokens, principal), second(tokens, principal);
  for (auto* const scope : {&first, &second}) scope->keep_answer_of(keyed, "", 1);
  CHECK(first.wants_answer());
  CHECK(make(first));
  CHECK(first.kept());
  CHECK_FALSE(first.refused());
  const auto refused = make(second);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::already_exists);
  CHECK(second.refused());
  CHECK_FALSE(second.kept());
}
