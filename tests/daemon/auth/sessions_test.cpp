#include "daemon/auth/sessions.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <vector>

#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::auth;
using namespace driftgate::store::testing;
using schema::ErrorCode;

namespace {

constexpr std::int64_t kSecond_us = 1'000'000;
constexpr std::int64_t kHour_us = 3'600 * kSecond_us;

struct Fixture {
  TempDir dir;
  std::unique_ptr<store::Store> store = open_store(dir.path());
  SessionOptions options{};

  Principal holder(std::optional<std::int64_t> expires_us = {}, const std::string& name = "bob") {
    const TokenRequest request{
        .name = name, .scopes = {Scope::approver}, .expires_us = expires_us, .granted_by = "admin"};
    const auto issued =
        write(*store, [&](store::Tx& tx) { return issue_token(tx, request, random_secret(), 1); });
    return read(*store, [&](store::Reader& reader) { return authenticate(reader, issued.bearer, 2); });
  }
  Result<OpenedSession> open(const Principal& principal, std::int64_t now_us = 100) {
    return store->write(
        "open", [&](store::Tx& tx) { return open_session(tx, options, principal, random_secret(), now_us); });
  }
  Result<Principal> who(std::string_view cookie, std::int64_t now_us = 200) {
    return store->read(
        [&](store::Reader& reader) { return authenticate_session(reader, options, cookie, now_us); });
  }
  Result<void> check(const Principal& principal, std::int64_t now_us = 200) {
    return store->read(
        [&](store::Reader& reader) { return check_session(reader, options, principal.session_id, now_us); });
  }
  std::int64_t rows() {
    return read(*store,
                [](store::Reader& reader) {
                  return reader.one({"count sessions", "SELECT count(*) FROM sessions"}, {},
                                    [](const store::Row& row) { return row.integer(0); });
                })
        .value();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a session stands for its token under the same name, for its time") {
  const auto token = holder();
  const auto opened = must(open(token, 100));
  CHECK(opened.cookie.size() == 64);
  CHECK(opened.expires_us == 100 + 12 * kHour_us);
  const auto principal = must(who(opened.cookie));
  CHECK(principal.name == "bob");
  CHECK(principal.token_id == token.token_id);
  CHECK(principal.scopes == Scopes{Scope::approver});
  CHECK(principal.session_id.starts_with("se-"));
  CHECK(principal.expires_us == opened.expires_us);
  CHECK(who(opened.cookie, opened.expires_us - 1).has_value());
  CHECK(check(principal, opened.expires_us - 1).has_value());
  CHECK(who(opened.cookie, opened.expires_us).error().code == ErrorCode::unauthenticated);
  CHECK(check(principal, opened.expires_us).error().code == ErrorCode::unauthenticated);
}

TEST_CASE_FIXTURE(Fixture, "a session never lasts longer than its token") {
  const auto opened = must(open(holder(5'000), 100));
  CHECK(opened.expires_us == 5'000);
  CHECK(who(opened.cookie, 4'999).has_value());
  CHECK(who(opened.cookie, 5'000).error().code == ErrorCode::unauthenticated);
}

TEST_CASE_FIXTURE(Fixture, "every wrong cookie gets the same answer") {
  const auto opened = must(open(holder()));
  const std::string message = who("").error().message;
  for (std::size_t cut = 0; cut < opened.cookie.size(); ++cut) {
    CAPTURE(cut);
    CHECK(who(opened.cookie.substr(0, cut)).error().message == message);
    std::string changed = opened.cookie;
    changed[cut] = changed[cut] == '0' ? '1' : '0';
    CHECK(who(changed).error().message == message);
  }
  CHECK(who(opened.cookie + "00").error().message == message);
  CHECK(who(std::string(64, 'G')).error().message == message);
}

TEST_CASE_FIXTURE(Fixture, "a revoked token ends its sessions and no other's") {
  const auto token = holder();
  const auto other = must(open(holder({}, "eve")));
  const auto opened = must(open(token));
  const auto principal = must(who(opened.cookie));
  write(*store, [&](store::Tx& tx) { return revoke_token(tx, token.token_id, "admin", 150); });
  CHECK(who(opened.cookie).error().code == ErrorCode::unauthenticated);
  CHECK(check(principal).error().code == ErrorCode::unauthenticated);
  CHECK(who(other.cookie).has_value());
  CHECK(rows() == 1);
}

TEST_CASE_FIXTURE(Fixture, "signing out ends that session alone, and once is enough") {
  const auto token = holder();
  const auto first = must(open(token)), second = must(open(token));
  const auto principal = must(who(first.cookie));
  const auto end = [&] {
    return store->write("end", [&](store::Tx& tx) { return end_session(tx, principal.session_id); });
  };
  CHECK(end().has_value());
  CHECK(end().has_value());
  CHECK(who(first.cookie).error().code == ErrorCode::unauthenticated);
  CHECK(check(principal).error().code == ErrorCode::unauthenticated);
  CHECK(who(second.cookie).has_value());
}

TEST_CASE_FIXTURE(Fixture, "no session opens another one") {
  const auto opened = must(open(holder()));
  const auto refused = open(must(who(opened.cookie)));
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::forbidden);
}

TEST_CASE_FIXTURE(Fixture, "a token has so many sessions at most: the oldest ends") {
  const auto token = holder();
  const auto others = must(open(holder({}, "eve"), 1));
  std::vector<OpenedSession> opened;
  for (std::size_t i = 0; i < kMaxSessionsOfToken + 2; ++i)
    opened.push_back(must(open(token, 100 + static_cast<std::int64_t>(i))));
  for (std::size_t i = 0; i < opened.size(); ++i) {
    CAPTURE(i);
    CHECK(who(opened[i].cookie).has_value() == (i >= 2));
  }
  CHECK(who(others.cookie).has_value());
  CHECK(rows() == static_cast<std::int64_t>(kMaxSessionsOfToken) + 1);
}

TEST_CASE_FIXTURE(Fixture, "sessions that have expired are forgotten") {
  options.lifetime_s = 60;
  const auto token = holder();
  must(open(token, 100));
  CHECK(rows() == 1);
  must(open(token, 100 + 61 * kSecond_us));
  CHECK(rows() == 1);
  const auto forgotten =
      store->write("forget", [](store::Tx& tx) { return forget_sessions(tx, 100 + 122 * kSecond_us); });
  CHECK(must(forgotten) == 1);
  CHECK(rows() == 0);
}

TEST_CASE_FIXTURE(Fixture, "neither the cookie nor what changes need is stored") {
  const auto opened = must(open(holder()));
  store.reset();
  std::ifstream file(dir.path() / "driftgate.db", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(bytes.find("sessions_by_token") != std::string::npos);
  CHECK(bytes.find(opened.cookie) == std::string::npos);
  CHECK(bytes.find(csrf_token(opened.cookie)) == std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a row that somebody wrote or changed in the database lets nobody in") {
  const auto token = holder();
  const auto eve = holder({}, "eve");
  std::vector<std::string> changes{
      "UPDATE sessions SET token = '" + eve.token_id + "'", "UPDATE sessions SET expires_us = expires_us + 1",
      "UPDATE sessions SET created_us = created_us - 1", "UPDATE sessions SET id = 'se-other'",
      "UPDATE sessions SET seal = zeroblob(32)"};
  for (const std::string& change : changes) {
    CAPTURE(change);
    const auto opened = must(open(token));
    REQUIRE(who(opened.cookie).has_value());
    store.reset();
    change_database(dir.path(), change);
    store = open_store(dir.path());
    CHECK(who(opened.cookie).error().code == ErrorCode::unauthenticated);
    write(*store, [](store::Tx& tx) { return tx.run({"remove sessions", "DELETE FROM sessions"}, {}); });
  }
  const auto opened = must(open(token));
  options.key = random_secret();
  CHECK(who(opened.cookie).error().code == ErrorCode::unauthenticated);
}

TEST_CASE_FIXTURE(Fixture, "a session outlives the process that opened it") {
  const auto opened = must(open(holder()));
  store.reset();
  store = open_store(dir.path());
  CHECK(must(who(opened.cookie)).name == "bob");
}

TEST_CASE_FIXTURE(Fixture, "the key is made once, for its owner alone, and a damaged one is told") {
  const auto file = dir.path() / "session.key";
  const auto key = must(session_key(file));
  CHECK(must(session_key(file)) == key);
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::ofstream(file) << "short\n";
  CHECK(session_key(file).error().code == ErrorCode::corrupt);
}

TEST_CASE("what changes need belongs to one cookie") {
  const std::string cookie(64, 'a');
  std::string other = cookie;
  other.back() = 'b';
  CHECK(csrf_token(cookie).size() == 64);
  CHECK(is_csrf_token(csrf_token(cookie), cookie));
  CHECK_FALSE(is_csrf_token(csrf_token(other), cookie));
  CHECK_FALSE(is_csrf_token("", cookie));
  CHECK_FALSE(is_csrf_token(cookie, cookie));
}
