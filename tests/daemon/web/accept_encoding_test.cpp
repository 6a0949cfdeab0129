#include "daemon/web/accept_encoding.hpp"

#include <doctest/doctest.h>

#include <string>

using driftgate::web::accepted_codings;

namespace {

std::string taken(std::string_view field) {
  const auto codings = accepted_codings(field);
  return std::string(codings.brotli ? "b" : "") + (codings.gzip ? "g" : "");
}

}  // namespace

TEST_CASE("without the field only the plain form is taken") {
  const auto codings = accepted_codings(std::nullopt);
  CHECK_FALSE(codings.gzip);
  CHECK_FALSE(codings.brotli);
}

TEST_CASE("codings are named, refused by a weight of 0, and covered by a star") {
  CHECK(taken("gzip, deflate, br, zstd") == "bg");
  CHECK(taken("gzip") == "g");
  CHECK(taken("BR;q=0.1 , X-GZIP") == "bg");
  CHECK(taken("br;q=0, gzip;q=0.000") == "");
  CHECK(taken("br ; Q=0.001") == "b");
  CHECK(taken("*") == "bg");
  CHECK(taken("br;q=0, *;q=0.5") == "g");
  CHECK(taken("gzip, *;q=0") == "g");
  CHECK(taken("identity") == "");
  CHECK(taken("") == "");
  CHECK(taken(",,;q=1,brotli,gzipped") == "");
}
