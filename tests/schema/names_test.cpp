#include <doctest/doctest.h>

#include <string>

#include "schema/names.hpp"

using namespace driftgate::schema;

namespace {

std::string refusal(std::string_view name) {
  const auto checked = check_name(name, "a kernel's name", "/name");
  if (checked) return "";
  CHECK(checked.error().code == ErrorCode::invalid_argument);
  CHECK(checked.error().where == "/name");
  return checked.error().message;
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("names are parts joined by slashes that begin with a letter, digit or underscore") {
  for (const char* name : {"a", "_", "0", "fa2", "ada@example.org", "vllm/0.6.1+cu124", "registry:5000/a/b@sha256:00",
                           "A-b_c.d:e@f+g/1", "a/_b"})
    CHECK_MESSAGE(refusal(name).empty(), name);
  CHECK(refusal(std::string(128, 'x')).empty());
  CHECK(mentions(refusal(std::string(129, 'x')), "it has 129 bytes"));
  CHECK(mentions(refusal(""), "it is empty"));
}

TEST_CASE("a name that could be an option, a path upwards or a terminal sequence says where it is wrong") {
  CHECK(mentions(refusal("--exec=sh"), "'-' at byte 1 cannot begin"));
  CHECK(mentions(refusal("a/-b"), "'-' at byte 3 cannot begin"));
  CHECK(mentions(refusal("../../x"), "'.' at byte 1 cannot begin"));
  CHECK(mentions(refusal("a/../b"), "'.' at byte 3 cannot begin"));
  CHECK(mentions(refusal("/a"), "before the '/' at byte 1"));
  CHECK(mentions(refusal("a//b"), "before the '/' at byte 3"));
  CHECK(mentions(refusal("a/"), "after the last '/'"));
  CHECK(mentions(refusal(std::string_view("a\0b", 3)), "the byte 0x00 at byte 2"));
  CHECK(mentions(refusal("a\nb"), "the byte 0x0a at byte 2"));
  CHECK(mentions(refusal("a b"), "the byte 0x20 at byte 2"));
  CHECK(mentions(refusal("a\x1b[2J"), "the byte 0x1b at byte 2"));
  CHECK(mentions(refusal("kernel\u202e"), "the byte 0xe2 at byte 7"));
  CHECK(mentions(refusal("k\u0435rnel"), "the byte 0xd0 at byte 2"));
  CHECK(mentions(refusal("a=b"), "'=' at byte 2 is not allowed"));
}

TEST_CASE("names that differ in case or in characters that look alike are one identity") {
  CHECK(is_same_identity("both", "Both"));
  CHECK(is_same_identity("bob", "b0b"));
  CHECK(is_same_identity("ali", "aIi"));
  CHECK(is_same_identity("paul", "pau1"));
  CHECK(is_same_identity("mary", "rnary"));
  CHECK(is_same_identity("wim", "vvirn"));
  CHECK_FALSE(is_same_identity("ada", "adam"));
  CHECK_FALSE(is_same_identity("ada.l", "ada-l"));
  CHECK_FALSE(is_same_identity("ann", "anne"));
}

TEST_CASE("names under which the program writes entries are reserved, and so is what looks like them") {
  for (const char* name : {"driftgate", "Driftgate", "dr1ftgate", "console", "c0nsole", "conso1e", "schedule",
                           "schedule/nightly", "Schedu1e/x", "driftgate/2"})
    CHECK_MESSAGE(is_reserved_name(name), name);
  for (const char* name : {"admin", "ada", "scheduler", "console-2", "drift", "ada/schedule"})
    CHECK_MESSAGE(!is_reserved_name(name), name);
}
