#include "daemon/route/http/http_head.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "daemon/base/http_text.hpp"
#include "daemon/limits/header_names.hpp"

using namespace driftgate::route;

namespace {

const std::string kGood =
    "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 12\r\nX-Y:  v w \r\n\r\n";

std::string with(const std::string& fields) {
  return "POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

HeadField field(std::string_view name) {
  return {.name = name, .value = {}, .line = {}, .kind = kind_of_field(name)};
}

}  // namespace

TEST_CASE("a request head is parsed") {
  const auto head = parse_request_head(kGood);
  REQUIRE(head);
  CHECK(head->method == "POST");
  CHECK(head->path() == "/v1/completions");
  CHECK(head->content_length == 12);
  CHECK(head->keep_alive);
  CHECK(head->find("x-y") == "v w");
  CHECK_FALSE(head->find("nothing"));
}

TEST_CASE("every truncation of a head is incomplete and never parsed") {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    std::size_t end = 0;
    const auto cut = kGood.substr(0, size);
    CAPTURE(size);
    CHECK(scan_head(cut, 0, end) == HeadScan::incomplete);
    CHECK_FALSE(parse_request_head(cut));
  }
  std::size_t end = 0;
  CHECK(scan_head(kGood + "body", 0, end) == HeadScan::complete);
  CHECK(end == kGood.size());
}

TEST_CASE("forms that two parsers could read in two ways are refused") {
  for (const std::string& head : {with("Content-Length: 1\r\nContent-Length: 1\r\n"),
                                  with("Content-Length: 1\r\nContent-Length: 2\r\n"),
                                  with("Content-Length: 1, 1\r\n"),
                                  with("Content-Length: +1\r\n"),
                                  with("Content-Length: -1\r\n"),
                                  with("Content-Length: 0x1\r\n"),
                                  with("Content-Length: \r\n"),
                                  with("Content-Length: 1 1\r\n"),
                                  with("Content-Length: 99999999999999999999\r\n"),
                                  with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
                                  with("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"),
                                  with("Transfer-Encoding: gzip, chunked\r\n"),
                                  with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                                  with("Transfer-Encoding: xchunked\r\n"),
                                  with("Transfer-Encoding: chunked, identity\r\n"),
                                  with("Transfer-Encoding:\x0b"
                                       "chunked\r\n"),
                                  with("Transfer-Encoding : chunked\r\n"),
                                  with("Content-Length : 1\r\n"),
                                  with("X: a\r\n folded\r\n"),
                                  with("X: a\r\n\tfolded\r\n"),
                                  with(" X: a\r\n"),
                                  with(": a\r\n"),
                                  with("X\r\n"),
                                  with("X: a\rb\r\n"),
                                  with("X: a\nY: b\r\n"),
                                  with(std::string("X: a\0b\r\n", 8)),
                                  with("Host: b\r\n"),
                                  with("Expect: other\r\n"),
                                  std::string("POST /v1 HTTP/1.1\r\n\r\n"),
                                  std::string("POST /v1 HTTP/1.1\r\nHost:\r\n\r\n"),
                                  std::string("POST /v1 HTTP/1.1\r\nHost: user@a\r\n\r\n"),
                                  std::string("POST /v1 HTTP/1.1\r\nHost: a/../b\r\n\r\n"),
                                  std::string("POST /v1 HTTP/1.1\r\nHost: a:99999\r\n\r\n"),
                                  std::string("POST http://a/v1 HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("POST /v1 HTTP/2.0\r\nHost: a\r\n\r\n"),
                                  std::string("POST /v1\r\nHost: a\r\n\r\n"),
                                  std::string("POST  /v1 HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("P@ST /v1 HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("POST /\xff HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("POST /v1 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
                                  std::string("POST /v1 x HTTP/1.1\r\nHost: a\r\n\r\n"),
                                  std::string("\r\n\r\n")}) {
    CAPTURE(head);
    CHECK_FALSE(parse_request_head(head));
  }
}

TEST_CASE("a line feed alone never ends a line") {
  std::size_t end = 0;
  CHECK(scan_head("GET / HTTP/1.1\nHost: a\n\n", 0, end) == HeadScan::bad);
  CHECK(scan_head("\n", 0, end) == HeadScan::bad);
}

TEST_CASE("too many fields are refused") {
  std::string fields;
  for (std::size_t i = 0; i < kMaxHeadFields; ++i) fields += "X: y\r\n";
  CHECK_FALSE(parse_request_head(with(fields)));
}

TEST_CASE("connections are kept by version and by the connection field") {
  CHECK_FALSE(parse_request_head(with("Connection: foo, Close\r\n"))->keep_alive);
  CHECK_FALSE(parse_request_head("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  CHECK(parse_request_head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->keep_alive);
}

TEST_CASE("an answer's head is parsed strictly too") {
  const auto head = parse_response_head("HTTP/1.1 503 Go Away\r\nTransfer-Encoding: chunked\r\n\r\n");
  REQUIRE(head);
  CHECK(head->status == 503);
  CHECK(head->reason == "Go Away");
  CHECK(head->chunked);
  CHECK(parse_response_head("HTTP/1.1 200\r\n\r\n"));
  for (const char* text :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 -20 OK\r\n\r\n", "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/3.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_response_head(text));
  }
}

TEST_CASE("a field has its kind whatever the case of its name, and its line as it came") {
  const auto head = parse_request_head(
      "GET / HTTP/1.1\r\nhOST: a\r\nDriftgate-Key:  k \r\ndriftgate: x\r\nTE: trailers\r\nVia: 1.1 p\r\n"
      "Content-Length: 0\r\nX-Long: \ta value with a tab\tin it\r\n\r\n");
  REQUIRE(head);
  std::vector<FieldKind> kinds;
  for (const auto& field : head->fields) kinds.push_back(field.kind);
  CHECK(kinds == std::vector{FieldKind::host, FieldKind::driftgate, FieldKind::other, FieldKind::hop_by_hop,
                             FieldKind::via, FieldKind::content_length, FieldKind::other});
  CHECK(head->fields[1].value == "k");
  CHECK(head->fields[1].line == "Driftgate-Key:  k \r\n");
  CHECK(head->fields[6].value == "a value with a tab\tin it");
}

TEST_CASE("a control character is refused wherever it stands in a line") {
  for (std::size_t length = 1; length < 40; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      for (const char byte : {'\0', '\x1f', '\x7f', '\n', '\r'}) {
        std::string value(length, 'v');
        value[at] = byte;
        CAPTURE(length);
        CAPTURE(at);
        CHECK_FALSE(parse_request_head(with("X-Field: " + value + "\r\n")));
      }
    }
    CHECK(parse_request_head(with("X-Field: " + std::string(length, '\xff') + "\r\n")));
  }
}

TEST_CASE("fields of one hop are known, those that Connection names included") {
  CHECK(hop_by_hop(field("Transfer-Encoding"), ""));
  CHECK(hop_by_hop(field("X-Mine"), "close, x-mine"));
  CHECK_FALSE(hop_by_hop(field("X-Mine"), "close"));
}

TEST_CASE("each byte may stand in names and values where RFC 9110 lets it") {
  for (int code = 0; code < 256; ++code) {
    CAPTURE(code);
    const char byte = static_cast<char>(code);
    const std::string name = std::string("X") + byte + "y";
    const auto named = "HTTP/1.1 200 OK\r\n" + name + ": v\r\n\r\n";
    const auto head = parse_response_head(named);
    CHECK(head.has_value() == (driftgate::base::is_token(name) || byte == ':'));
    if (head && byte != ':')
      CHECK(head->fields[0].plain_name == driftgate::limits::is_plain_header_name(name));
    const std::string value = std::string("v") + byte + "w";
    const bool allowed = byte == '\t' || (code >= 0x20 && code != 0x7f);
    CHECK(parse_response_head("HTTP/1.1 200 OK\r\nX: " + value + "\r\n\r\n").has_value() == allowed);
  }
}

TEST_CASE("a field that Connection names is of one hop, and the usual values name none") {
  const auto value_of = [](const std::string& fields) {
    const auto text = with(fields);
    const auto head = parse_request_head(text);
    return head ? std::string(named_by_connection(*head)) : std::string("refused");
  };
  CHECK(value_of("") == "");
  CHECK(value_of("Connection: Keep-Alive\r\n") == "");
  CHECK(value_of("Connection: close, x-mine\r\n") == "close, x-mine");
}
