#include "daemon/net/request.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using driftgate::net::parse_request_head;

namespace {

const std::string kValid =
    "POST /v1/promotions/pr-1?dry_run=true&x=a%20b HTTP/1.1\r\n"
    "Host: 127.0.0.1:7433\r\n"
    "Content-Length: 12\r\n"
    "Authorization:  Bearer dg_1 \r\n"
    "\r\n";

std::string with_line(const std::string& line) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + line + "\r\n\r\n";
}

}  // namespace

TEST_CASE("a valid request head is read with its path, query, fields and length") {
  const auto head = parse_request_head(kValid);
  REQUIRE(head);
  CHECK(head->method == "POST");
  CHECK(head->path == "/v1/promotions/pr-1");
  CHECK(head->query_value("dry_run") == "true");
  CHECK(head->query_value("x") == "a b");
  CHECK(head->header("AUTHORIZATION") == "Bearer dg_1");
  CHECK(head->content_length == 12);
  CHECK(head->keep_alive);
}

TEST_CASE("a request head cut at any byte is refused") {
  for (std::size_t size = 0; size < kValid.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(parse_request_head(std::string_view(kValid).substr(0, size)));
  }
}

TEST_CASE("every form that two parsers may read differently is refused") {
  const std::vector<std::string> forms{
      with_line("Transfer-Encoding: chunked"),
      with_line("Transfer-Encoding: identity"),
      with_line("Transfer-encoding: xchunked"),
      with_line("Content-Length: 1\r\nContent-Length: 1"),
      with_line("Authorization: Bearer a\r\nauthorization: Bearer b"),
      with_line("Content-Length: 1\r\ncontent-length: 2"),
      with_line("Content-Length: 1, 1"),
      with_line("Content-Length: +1"),
      with_line("Content-Length: -1"),
      with_line("Content-Length: 0x1"),
      with_line("Content-Length: 1 1"),
      with_line("Content-Length:"),
      with_line("Content-Length: 9999999999999999999"),
      with_line("X-Folded: a\r\n b"),
      with_line("Transfer_Encoding: chunked"),
      with_line("Content_Length: 1"),
      with_line("Host_: b"),
      with_line("_Authorization: Bearer a"),
      with_line("X-Folded: a\r\n\tb"),
      with_line(" X-First: a"),
      with_line("Host: b"),
      with_line("X-Space : a"),
      with_line("X Space: a"),
      with_line(": a"),
      with_line("NoColon"),
      with_line("X-Bare: a\nb"),
      with_line("X-Bare: a\rb"),
      with_line(std::string("X-Nul: a\0b", 10)),
      with_line("X-Bell: \a"),
      with_line("Expect: something"),
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
      "GET / HTTP/1.1\nHost: a\n\n",
      "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
      "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
      "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
      "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
      "GET / http/1.1\r\nHost: a\r\n\r\n",
      "GET /\r\nHost: a\r\n\r\n",
      "get / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
      "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /?a=%0 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /?a=%00 HTTP/1.1\r\nHost: a\r\n\r\n",
      with_line("X: y") + "GET",
  };
  for (const std::string& form : forms) {
    CAPTURE(form);
    CHECK_FALSE(parse_request_head(form));
  }
}

TEST_CASE("more headers than the limit are refused and the limit itself is accepted") {
  std::string lines = "Host: a";
  for (std::size_t i = 1; i < driftgate::net::kMaxHeaderFields; ++i) lines += "\r\nX-N: 1";
  CHECK(parse_request_head("GET / HTTP/1.1\r\n" + lines + "\r\n\r\n"));
  CHECK_FALSE(parse_request_head("GET / HTTP/1.1\r\n" + lines + "\r\nX-N: 1\r\n\r\n"));
}

TEST_CASE("HTTP/1.0 needs no Host and does not keep the connection") {
  const auto head = parse_request_head("GET /healthz HTTP/1.0\r\n\r\n");
  REQUIRE(head);
  CHECK_FALSE(head->keep_alive);
  CHECK_FALSE(parse_request_head("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"));
}

TEST_CASE("Connection: close is found among several tokens") {
  const auto head = parse_request_head(with_line("Connection: te, Close"));
  REQUIRE(head);
  CHECK_FALSE(head->keep_alive);
}
