#include "daemon/route/control/frame.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace driftgate::route;

TEST_CASE("frames are found wherever the bytes are cut") {
  const auto bytes = encode_frame("first") + encode_frame("") + encode_frame(std::string(300, 'x'));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string buffer = bytes.substr(0, cut);
    std::vector<std::string> found;
    for (const auto& rest : {std::string(), bytes.substr(cut)}) {
      buffer += rest;
      for (;;) {
        const auto frame = take_frame(buffer);
        REQUIRE(frame);
        if (!*frame) break;
        found.push_back(**frame);
      }
    }
    CHECK(found == std::vector<std::string>{"first", "", std::string(300, 'x')});
    CHECK(buffer.empty());
  }
}

TEST_CASE("a frame that announces too much is refused before it is read") {
  std::string buffer("\x01\x00\x00\x01", 4);
  CHECK_FALSE(take_frame(buffer));
  buffer.assign("\xff\xff\xff\xff", 4);
  CHECK_FALSE(take_frame(buffer));
}
