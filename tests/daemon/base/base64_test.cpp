#include "daemon/base/base64.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using driftgate::base::from_base64;
using driftgate::base::to_base64;

TEST_CASE("base 64 is that of RFC 4648 section 10 and refuses other spellings") {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v\n", " Zm9v", "Zm-v", "=", "Zg==Zg=="}) {
    CAPTURE(bad);
    CHECK(!from_base64(bad));
  }
}

TEST_CASE("base 64 takes every byte there and back") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
    CHECK(from_base64(to_base64(bytes)) == bytes);
  }
}
