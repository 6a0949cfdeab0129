#include "daemon/auth/tokens.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "daemon/evidence/log/query.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::auth;
using namespace driftgate::store::testing;
using schema::ErrorCode;
using schema::EvidenceKind;

namespace {

struct Fixture {
  TempDir dir;
  std::unique_ptr<store::Store> store = open_store(dir.path());

  IssuedToken issue(const TokenRequest& request, std::int64_t now_us = 100) {
    return write(*store, [&](store::Tx& tx) { return issue_token(tx, request, random_secret(), now_us); });
  }
  Result<Principal> who(std::string_view bearer, std::int64_t now_us = 200) {
    return store->read([&](store::Reader& reader) { return authenticate(reader, bearer, now_us); });
  }
  std::vector<evidence::StoredEntry> entries(EvidenceKind kind) {
    return read(*store,
                [&](store::Reader& reader) { return evidence::query_entries(reader, {.kind = kind}); })
        .entries;
  }
};

const TokenRequest kApprover{
    .name = "bob", .scopes = {Scope::approver}, .expires_us = 1'000, .granted_by = "admin"};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a token authenticates its holder until it expires") {
  const auto issued = issue(kApprover);
  CHECK(issued.bearer.size() == 3 + 64);
  const auto principal = must(who(issued.bearer));
  CHECK(principal.name == "bob");
  CHECK(principal.token_id == issued.info.id);
  CHECK(principal.scopes == Scopes{Scope::approver});
  CHECK(who(issued.bearer, 999).has_value());
  CHECK(who(issued.bearer, 1'000).error().code == ErrorCode::unauthenticated);
}

TEST_CASE_FIXTURE(Fixture, "every wrong bearer gets the same answer") {
  const auto issued = issue(kApprover);
  const std::string message = who("").error().message;
  for (std::size_t cut = 0; cut < issued.bearer.size(); ++cut) {
    CAPTURE(cut);
    const auto refused = who(issued.bearer.substr(0, cut));
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::unauthenticated);
    CHECK(refused.error().message == message);
    std::string changed = issued.bearer;
    changed[cut] = changed[cut] == '0' ? '1' : '0';
    CHECK(who(changed).error().message == message);
  }
  CHECK(who(issued.bearer + "0").error().message == message);
  CHECK(who(" " + issued.bearer).error().message == message);
}

TEST_CASE_FIXTURE(Fixture, "a revoked token stops at once and is listed as revoked") {
  const auto issued = issue(kApprover);
  write(*store, [&](store::Tx& tx) { return revoke_token(tx, issued.info.id, "admin", 150); });
  CHECK(who(issued.bearer).error().code == ErrorCode::unauthenticated);
  const auto tokens = read(*store, [](store::Reader& reader) { return list_tokens(reader); });
  REQUIRE(tokens.size() == 1);
  CHECK(tokens[0].revoked_us == 150);
  const auto again =
      store->write("again", [&](store::Tx& tx) { return revoke_token(tx, issued.info.id, "admin", 160); });
  CHECK(again.error().code == ErrorCode::conflict);
  const auto none =
      store->write("none", [&](store::Tx& tx) { return revoke_token(tx, "tok-none", "admin", 160); });
  CHECK(none.error().code == ErrorCode::not_found);
}

TEST_CASE_FIXTURE(Fixture, "grants and revocations are evidence without the secret") {
  const auto issued = issue(kApprover);
  write(*store, [&](store::Tx& tx) { return revoke_token(tx, issued.info.id, "root", 150); });
  const auto granted = entries(EvidenceKind::token_granted);
  const auto revoked = entries(EvidenceKind::token_revoked);
  REQUIRE(granted.size() == 1);
  REQUIRE(revoked.size() == 1);
  const auto entry = must(schema::decode_entry(granted[0].bytes));
  CHECK(entry.draft.actor == "admin");
  CHECK(*entry.draft.body.at("name").text() == "bob");
  CHECK(*entry.draft.body.at("token").text() == issued.info.id);
  CHECK(granted[0].bytes.find(issued.bearer.substr(3)) == std::string::npos);
  CHECK(must(schema::decode_entry(revoked[0].bytes)).draft.actor == "root");
}

TEST_CASE_FIXTURE(Fixture, "a token that must not be is refused and leaves no evidence") {
  auto refuse = [&](TokenRequest request) {
    const auto refused =
        store->write("bad", [&](store::Tx& tx) { return issue_token(tx, request, random_secret(), 100); });
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_argument);
  };
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\n"), std::string("ä"), std::string(129, 'a'),
        std::string("-a"), std::string("driftgate"), std::string("console"), std::string("C0nsole"),
        std::string("schedule/nightly"), std::string("Schedule")}) {
    auto request = kApprover;
    request.name = name;
    refuse(request);
  }
  auto request = kApprover;
  request.scopes = {};
  refuse(request);
  request.scopes = {Scope::admin, Scope::approver};
  refuse(request);
  request = kApprover;
  request.expires_us = 100;
  refuse(request);
  CHECK(entries(EvidenceKind::token_granted).empty());
}

TEST_CASE_FIXTURE(Fixture, "the first start gives one admin token in a file of its owner") {
  const auto file = dir.path() / "admin.token";
  CHECK(must(ensure_first_admin(*store, file, 100)));
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::string bearer;
  std::ifstream(file) >> bearer;
  const auto admin = must(who(bearer));
  CHECK(admin.scopes == Scopes{Scope::admin});
  CHECK(!must(ensure_first_admin(*store, file, 200)));
  CHECK(who(bearer).has_value());
  CHECK(entries(EvidenceKind::token_granted).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "an admin token whose file cannot be written does not exist") {
  CHECK(!ensure_first_admin(*store, dir.path() / "no" / "folder", 100));
  CHECK(read(*store, [](store::Reader& reader) { return list_tokens(reader); }).empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "a person with an admin token gets no approver token beside it, nor the other way") {
  const auto refused = [&](const TokenRequest& request, std::int64_t now_us) {
    const auto issued = store->write("test", [&](store::Tx& tx) -> Result<void> {
      auto made = issue_token(tx, request, random_secret(), now_us);
      if (!made) return std::unexpected(made.error());
      return {};
    });
    return !issued && issued.error().code == ErrorCode::conflict;
  };
  const auto approver = issue(kApprover);
  const TokenRequest admin{.name = "bob", .scopes = {Scope::admin}, .granted_by = "admin"};
  CHECK(refused(admin, 200));
  CHECK_FALSE(refused(admin, 1'000));  // the approver token has expired
  CHECK(refused({.name = "bob", .scopes = {Scope::viewer, Scope::approver}, .granted_by = "admin"}, 1'100));
  CHECK_FALSE(refused({.name = "bea", .scopes = {Scope::approver}, .granted_by = "admin"}, 1'100));
}

TEST_CASE_FIXTURE(Fixture, "a name that could be taken for an issued one is refused, the same one is renewed") {
  const auto refused = [&](const std::string& name) {
    const auto issued = store->write("test", [&](store::Tx& tx) {
      return issue_token(tx, {.name = name, .scopes = {Scope::viewer}, .granted_by = "admin"}, random_secret(), 300);
    });
    return issued ? ErrorCode::internal : issued.error().code;
  };
  const auto both = issue({.name = "both", .scopes = {Scope::approver}, .granted_by = "admin"});
  issue({.name = "both", .scopes = {Scope::viewer}, .granted_by = "admin"}, 150);
  write(*store, [&](store::Tx& tx) { return revoke_token(tx, both.info.id, "admin", 200); });
  for (const char* name : {"Both", "b0th", "BOTH"}) CHECK_MESSAGE(refused(name) == ErrorCode::conflict, name);
  CHECK(refused("both") == ErrorCode::internal);
  CHECK(refused("brother") == ErrorCode::internal);
}

TEST_CASE_FIXTURE(Fixture, "a token of before such names were refused does not let its holder write as the daemon") {
  const auto issued = issue(kApprover);
  write(*store, [&](store::Tx& tx) -> Result<void> {
    auto renamed = tx.run({"rename", "UPDATE tokens SET name = 'console'"}, {});
    if (!renamed) return std::unexpected(renamed.error());
    return {};
  });
  const auto refused = who(issued.bearer);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unauthenticated);
  CHECK(refused.error().message.find("console") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "no revocation brings the time nearer at which nobody is admin") {
  const auto admin = [&](const std::string& name, std::optional<std::int64_t> expires_us) {
    return issue({.name = name, .scopes = {Scope::admin}, .expires_us = expires_us, .granted_by = "admin"}).info.id;
  };
  const auto revoke = [&](const std::string& id, std::int64_t now_us = 200) {
    const auto done =
        store->write("revoke", [&](store::Tx& tx) { return revoke_token(tx, id, "admin", now_us); });
    if (!done) CHECK(done.error().code == ErrorCode::conflict);
    return done.has_value();
  };
  const auto first = admin("first", {});
  CHECK_FALSE(revoke(first));
  const auto soon = admin("soon", 1'000);
  CHECK_FALSE(revoke(first));  // the other one ends
  const auto viewer = issue({.name = "vic", .scopes = {Scope::viewer}, .granted_by = "admin"}).info.id;
  CHECK(revoke(viewer));
  const auto second = admin("second", {});
  CHECK(revoke(first));
  CHECK_FALSE(revoke(second));
  const auto later = admin("later", 2'000);
  CHECK(revoke(soon));
  CHECK(entries(EvidenceKind::token_revoked).size() == 3);
  // Where every admin token expires, the one that lasts longest stays.
  write(*store, [&](store::Tx& tx) -> Result<void> {
    auto ended = tx.run({"expire", "UPDATE tokens SET expires_us = 3000 WHERE id = ?1"}, {second});
    if (!ended) return std::unexpected(ended.error());
    return {};
  });
  CHECK_FALSE(revoke(second));
  CHECK(revoke(later));
  CHECK(revoke(second, 3'000));  // has expired: nothing is lost
}

TEST_CASE_FIXTURE(Fixture, "who has the folder issues an admin token to a name, with the reason in the log") {
  const auto file = dir.path() / "recovered.token";
  CHECK(recover_admin(*store, {.name = "ada", .reason = "", .file = file}, 100).error().code ==
        ErrorCode::invalid_argument);
  CHECK(recover_admin(*store, {.name = "console", .reason = "lost", .file = file}, 100).error().code ==
        ErrorCode::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(file));
  const auto token = must(recover_admin(*store, {.name = "ada", .reason = "the laptop is gone", .file = file}, 100));
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::string bearer;
  std::ifstream(file) >> bearer;
  const auto principal = must(who(bearer));
  CHECK(principal.name == "ada");
  CHECK(principal.scopes == Scopes{Scope::admin});
  const auto granted = entries(EvidenceKind::token_granted);
  REQUIRE(granted.size() == 1);
  const auto entry = must(schema::decode_entry(granted[0].bytes));
  CHECK(entry.draft.actor == "ada");
  CHECK(*entry.draft.body.at("recovery").text() == "the laptop is gone");
  CHECK(*entry.draft.body.at("token").text() == token.id);
  CHECK(recover_admin(*store, {.name = "ada", .reason = "again", .file = file}, 200).error().code ==
        ErrorCode::already_exists);
  CHECK(entries(EvidenceKind::token_granted).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a token is checked again by its id, as of the transaction") {
  const auto issued = issue(kApprover);
  const auto check = [&](std::int64_t now_us) {
    return store->read([&](store::Reader& reader) { return check_token(reader, issued.info.id, now_us); });
  };
  CHECK(check(999));
  CHECK(check(1'000).error().code == ErrorCode::unauthenticated);
  write(*store, [&](store::Tx& tx) -> Result<void> {
    auto revoked = revoke_token(tx, issued.info.id, "admin", 200);
    if (!revoked) return revoked;
    CHECK(check_token(tx, issued.info.id, 300).error().code == ErrorCode::unauthenticated);
    return {};
  });
  CHECK(check(300).error().code == ErrorCode::unauthenticated);
}

TEST_CASE_FIXTURE(Fixture, "what a name may do is withdrawn when the newest token that let it was revoked") {
  const auto withdrawn = [&](Scope scope) {
    return must(store->read([&](store::Reader& reader) { return is_withdrawn(reader, "ada", scope); }));
  };
  const auto grant = [&](Scopes scopes, std::int64_t now_us) {
    return issue({.name = "ada", .scopes = scopes, .expires_us = 5'000, .granted_by = "admin"}, now_us)
        .info.id;
  };
  const auto revoke = [&](const std::string& id) {
    write(*store, [&](store::Tx& tx) { return revoke_token(tx, id, "admin", 9'000); });
  };
  CHECK_FALSE(withdrawn(Scope::promoter));  // never had it
  const auto first = grant({Scope::promoter}, 100);
  CHECK_FALSE(withdrawn(Scope::promoter));
  const auto viewer = grant({Scope::viewer}, 200);
  revoke(viewer);
  CHECK_FALSE(withdrawn(Scope::promoter));
  const auto renewed = grant({Scope::admin}, 300);  // implies promoter
  revoke(first);
  CHECK_FALSE(withdrawn(Scope::promoter));
  revoke(renewed);  // expired by then
  CHECK(withdrawn(Scope::promoter));
  CHECK_FALSE(withdrawn(Scope::approver));
  issue({.name = "bob", .scopes = {Scope::promoter}, .granted_by = "admin"}, 400);
  CHECK(withdrawn(Scope::promoter));
  grant({Scope::promoter, Scope::viewer}, 500);
  CHECK_FALSE(withdrawn(Scope::promoter));
}
