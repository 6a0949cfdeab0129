#include <doctest/doctest.h>

#include <set>

#include "daemon/web/site.hpp"
#include "schema/sha256.hpp"

using namespace driftgate;

TEST_CASE("what is embedded is whole: each file has its digest, and a name of its own") {
  std::set<std::string_view> paths;
  for (const web::File& file : web::embedded_files()) {
    CAPTURE(file.path);
    CHECK(paths.insert(file.path).second);
    CHECK(schema::to_hex(schema::sha256(file.plain)) == file.sha256);
    CHECK((file.gzip.empty() || file.gzip.starts_with("\x1f\x8b")));
    CHECK_FALSE(file.type.empty());
  }
  if (!paths.empty()) CHECK(paths.contains("/index.html"));  // none in a build without the page
}

TEST_CASE("a program has its page, or the reason why it has none") {
  const web::Absence absence = web::embedded_absence();
  CHECK(web::embedded_files().empty() == !absence.reason.empty());
  CHECK(absence.reason.find('\n') == std::string_view::npos);
  const web::Site site(web::embedded_files(), absence);
  net::RequestHead head;
  head.method = "GET";
  head.path = "/";
  CHECK((site.answer(head).body.find("id=\"reason\"") != std::string::npos) == web::embedded_files().empty());
}

TEST_CASE("every file of the page that index.html names is served") {
  const web::Site site(web::embedded_files());
  net::RequestHead head;
  head.method = "GET";
  head.path = "/";
  const std::string html = site.answer(head).body;
  CHECK(html.find("<!doctype html>") == 0);
  for (std::size_t at = html.find("\"/assets/"); at != std::string::npos;
       at = html.find("\"/assets/", at + 1)) {
    const std::string path = html.substr(at + 1, html.find('"', at + 1) - at - 1);
    CAPTURE(path);
    CHECK(site.has(path));
  }
}
