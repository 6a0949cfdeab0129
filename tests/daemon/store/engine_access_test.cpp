#include "daemon/store/registry/engine_access.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::store;
using namespace driftgate::store::testing;

namespace {

EngineAccessRow row(const std::string& url, const std::string& key_file) {
  return {.base_url = url,
          .key_file = key_file,
          .key_header = "X-Api-Key",
          .ca_file = "/keys/ca.pem",
          .ca_digest = "sha256:ca",
          .evidence_seq = 3};
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture,
                  "what an engine asks for is its newest registration's, and nothing is no row") {
  const auto found = [&](const std::string& url) {
    return read(*store, [&](Reader& reader) { return find_engine_access(reader, url); });
  };
  write(*store, [](Tx& tx) { return put_engine_access(tx, row("https://a:1", "/keys/a")); });
  write(*store, [](Tx& tx) { return put_engine_access(tx, row("https://b:1", "/keys/b")); });
  CHECK(found("https://a:1") == row("https://a:1", "/keys/a"));
  write(*store, [](Tx& tx) { return put_engine_access(tx, row("https://a:1", "/keys/other")); });
  CHECK(found("https://a:1")->key_file == "/keys/other");
  CHECK(read(*store, [](Reader& reader) { return access_at(reader, "https://b:1"); }) ==
        base::EngineAccess{"/keys/b", "X-Api-Key", "/keys/ca.pem"});
  const auto listed = read(*store, [](Reader& reader) { return list_engine_access(reader, "", 10); });
  CHECK(listed.size() == 2);
  CHECK(read(*store, [](Reader& reader) { return list_engine_access(reader, "https://a:1", 10); }).size() ==
        1);
  write(*store, [](Tx& tx) { return put_engine_access(tx, {.base_url = "https://a:1"}); });
  CHECK_FALSE(found("https://a:1"));
  CHECK_FALSE(read(*store, [](Reader& reader) { return access_at(reader, "https://a:1"); }).any());
}
