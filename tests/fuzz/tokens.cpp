#include "daemon/auth/tokens.hpp"

#include <stdlib.h>

#include <filesystem>
#include <memory>

#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate;

struct Issued {
  std::unique_ptr<store::Store> store;
  std::string bearer;
};

const Issued& issued() {
  static const Issued made = [] {
    auto pattern = (std::filesystem::temp_directory_path() / "driftgate-fuzz-XXXXXX").string();
    fuzz::require(::mkdtemp(pattern.data()) != nullptr, "a temporary folder");
    Issued all;
    all.store = store::Store::open({.data_dir = pattern}).value();
    const auto token = all.store->write("issue", [](store::Tx& tx) {
      return auth::issue_token(tx, {"fuzz", {auth::Scope::viewer}, {}, "driftgate"}, auth::random_secret(),
                               1);
    });
    all.bearer = token.value().bearer;
    std::error_code ignored;
    std::filesystem::remove_all(pattern, ignored);  // the open database lives on without its name
    return all;
  }();
  return made;
}

}  // namespace

/// Bearer tokens and lists of scopes: nothing but the one token that was issued is accepted.
void driftgate::fuzz::run(std::string_view bytes) {
  if (const auto scopes = auth::parse_scopes(bytes))
    require(auth::parse_scopes(scopes->text()).has_value(), "the text of scopes is read back");
  const auto who =
      issued().store->read([&](store::Reader& reader) { return auth::authenticate(reader, bytes, 2); });
  require(who.has_value() == (bytes == issued().bearer), "only the issued token is accepted");
}
