#include "daemon/route/http/chunked.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

namespace {

const std::string kBody = "5\r\nhello\r\n6;name=\"v\"\r\n world\r\n0\r\nTrailer: x\r\n\r\n";

}  // namespace

TEST_CASE("chunks are decoded wherever they are cut") {
  for (std::size_t cut = 0; cut <= kBody.size(); ++cut) {
    CAPTURE(cut);
    ChunkedDecoder decoder;
    std::string out;
    CHECK(decoder.feed(kBody.substr(0, cut), out) == cut);
    CHECK(decoder.done() == (cut == kBody.size()));
    const auto rest = kBody.substr(cut) + "next";
    if (!decoder.done()) CHECK(decoder.feed(rest, out) == rest.size() - 4);
    CHECK(decoder.done());
    CHECK_FALSE(decoder.failed());
    CHECK(out == "hello world");
  }
}

TEST_CASE("malformed chunks fail") {
  for (const std::string& text :
       {std::string("x\r\n"), std::string("-1\r\n"), std::string("\r\n"), std::string("5\nhello"),
        std::string("0x5\r\n"), std::string("5 5\rx\r\n"), std::string("fffffffff\r\n"),
        std::string("3\r\nabcd\r\n"), std::string("3\r\nabc\n"), std::string("0\r\nbad\n"),
        std::string("5z\r\n"), std::string(2'000, '1'), "0\r\n" + std::string(20 * 1'024, 'x'),
        std::string("+5\r\nhello\r\n"), std::string("0\r\nno colon\r\n\r\n"), std::string("0\r\nX\r\n\r\n"),
        std::string("0\r\n: x\r\n\r\n"), std::string("0\r\nX : x\r\n\r\n"),
        std::string("0\r\n folded: x\r\n\r\n")}) {
    CAPTURE(text);
    ChunkedDecoder decoder;
    std::string out;
    decoder.feed(text, out);
    CHECK(decoder.failed());
    CHECK_FALSE(decoder.done());
  }
}
