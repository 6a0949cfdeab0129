#include "daemon/evidence/bundle/bundle_record.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace driftgate;
using namespace driftgate::evidence;

TEST_CASE("a line of a bundle is read in its canonical spelling alone") {
  const std::string line = R"({"b":[1,"\u00e9\n"],"n":10,"t":"x"})";
  const std::string canonical = "{\"b\":[1,\"\xC3\xA9\\n\"],\"n\":10,\"t\":\"x\"}";
  REQUIRE(BundleRecord::parse(canonical));
  CHECK(!BundleRecord::parse(line));
  for (const std::string& other :
       {" " + canonical, canonical + " ", canonical + "\r", canonical + "\t", "\xEF\xBB\xBF" + canonical,
        canonical + canonical, std::string(R"({"n":10,"b":[1],"t":"x"})"),
        std::string(R"({"n": 10,"t":"x"})"), std::string(R"({"n":10,"n":10,"t":"x"})"),
        std::string(R"({"n":10,"t":"\u0078"})"), std::string(R"({"n":1e1,"t":"x"})"),
        std::string(R"({"n":10.0,"t":"x"})"), std::string(R"({"n":-0,"t":"x"})"),
        std::string(R"({"n":10,"t":"\/"})"), std::string(R"({"n":[ ],"t":"x"})"), std::string()}) {
    CAPTURE(other);
    CHECK(!BundleRecord::parse(other));
  }
}

TEST_CASE("lines are told from what is cut off") {
  std::istringstream in("a\n\nb");
  std::string line;
  CHECK(read_line(in, line) == LineEnd::whole);
  CHECK(line == "a");
  CHECK(read_line(in, line) == LineEnd::whole);
  CHECK(line.empty());
  CHECK(read_line(in, line) == LineEnd::cut);
  CHECK(read_line(in, line) == LineEnd::none);
}
