#include "daemon/base/entry_members.hpp"

#include <doctest/doctest.h>

using namespace driftgate::base;
using driftgate::schema::EntryValue;

TEST_CASE("members of an entry's body are read when they have the type that was asked for") {
  const EntryValue::Object body{{"text", "a"}, {"number", 7}, {"null", nullptr}, {"flag", true}};
  CHECK(text_at(body, "text") == "a");
  CHECK(integer_at(body, "number") == 7);
  for (const char* name : {"absent", "null", "flag"}) {
    CAPTURE(name);
    CHECK(text_at(body, name).empty());
    CHECK(integer_at(body, name) == 0);
    CHECK(integer_at(body, name, -1) == -1);
  }
  CHECK(text_at(body, "number").empty());
  CHECK(integer_at(body, "text", 3) == 3);
}
