#include "daemon/limits/header_names.hpp"

#include <doctest/doctest.h>

using driftgate::limits::disguised_header;
using driftgate::limits::is_plain_header_name;

TEST_CASE("plain header names are letters, digits and dashes") {
  for (const char* name : {"Host", "Content-Length", "X-2", "TE"}) CHECK(is_plain_header_name(name));
  for (const char* name : {"", "Content_Length", "X.Y", "A!", "a b"}) CHECK_FALSE(is_plain_header_name(name));
}

TEST_CASE("spellings that a variable of CGI would make the same are told apart from harmless names") {
  CHECK(disguised_header("Transfer_Encoding") == "transfer-encoding");
  CHECK(disguised_header("transfer.encoding") == "transfer-encoding");
  CHECK(disguised_header("Content__Length") == "content-length");
  CHECK(disguised_header("Host_") == "host");
  CHECK(disguised_header("_host") == "host");
  CHECK(disguised_header("AUTHORIZATION~") == "authorization");
  CHECK(disguised_header("Driftgate_Key") == "driftgate-");
  CHECK(disguised_header("v_i_a") == "via");
  for (const char* name : {"Transfer-Encoding", "Host", "X_Request_Id", "ghost_", "Via"})
    CHECK_FALSE(disguised_header(name).has_value());
}
