#include "schema/sha256.hpp"

#include <doctest/doctest.h>

#include <utility>

using namespace driftgate::schema;

TEST_CASE("SHA-256 gives the digests of FIPS 180's examples") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a message in pieces has the digest of the whole, and the object serves again") {
  const std::string message = "The quick brown fox jumps over the lazy dog, twice if it must.";
  Sha256 digest;
  for (std::size_t cut = 0; cut <= message.size(); ++cut) {
    CHECK(digest.update(message.substr(0, cut)).update(message.substr(cut)).finish() == sha256(message));
  }
  Sha256 moved = std::move(digest);
  CHECK(moved.update(message).finish() == sha256(message));
}

TEST_CASE("a digest's text reads back and nothing else is one") {
  const std::string text = sha256_digest("abc");
  CHECK(text == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(parse_digest(text) == sha256("abc"));
  for (std::size_t cut = 0; cut < text.size(); ++cut) CHECK(!parse_digest(text.substr(0, cut)));
  CHECK(!parse_digest(text + "0"));
  CHECK(!parse_digest(text.substr(7)));
  std::string upper = text;
  upper[7] = 'B';
  CHECK(!parse_digest(upper));
}

TEST_CASE("hex is read strictly") {
  CHECK(from_hex("00ff7a") == std::string("\x00\xff\x7a", 3));
  CHECK(from_hex("") == "");
  for (const char* bad : {"0", "0g", "FF", "0x", " 00", "00 "}) CHECK(!from_hex(bad));
}
