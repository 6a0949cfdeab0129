#include "daemon/base/json_members.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace driftgate::base;
using nlohmann::json;

TEST_CASE("a member is read when it is there and has the type that was asked for") {
  const json object{{"text", "a"}, {"number", -7}, {"object", {{"x", 1}}}, {"empty", ""}};
  CHECK(text_at(object, "text") == "a");
  CHECK(maybe_text_at(object, "empty") == "");
  CHECK(integer_at(object, "number") == -7);
  CHECK(object_at(object, "object") == json{{"x", 1}});
  REQUIRE(member(object, "number") != nullptr);
  CHECK(*member(object, "number") == -7);
}

TEST_CASE("what is absent, null or of another type counts as not said") {
  const json object{{"null", nullptr}, {"number", 1.5}, {"list", json::array()}};
  for (const char* name : {"absent", "null", "number", "list"}) {
    CAPTURE(name);
    CHECK(text_at(object, name).empty());
    CHECK_FALSE(maybe_text_at(object, name));
    CHECK(integer_at(object, name, 9) == 9);
    CHECK(object_at(object, name) == json::object());
  }
  CHECK(member(object, "null") == nullptr);
  for (const json& other : {json(), json("text"), json(1), json::array({1})}) {
    CHECK(member(other, "a") == nullptr);
    CHECK(text_at(other, "a").empty());
  }
}
