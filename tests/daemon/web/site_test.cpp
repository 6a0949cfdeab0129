#include "daemon/web/site.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace driftgate;
using web::Site;

namespace {

constexpr std::string_view kHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr std::array<web::File, 3> kFiles{{
    {"/index.html", "text/html; charset=utf-8", kHash, "<p>page", "gz page", "br page"},
    {"/assets/app-A1.js", "text/javascript; charset=utf-8", kHash, "let a", "gz a", "br a"},
    {"/assets/icon-B2.svg", "image/svg+xml", kHash, "<svg/>", {}, {}},
}};

net::RequestHead get(std::string path, net::Headers headers = {}) {
  net::RequestHead head;
  head.method = "GET";
  head.path = std::move(path);
  head.headers = std::move(headers);
  return head;
}

std::string of(const net::Response& response, std::string_view name) {
  return std::string(net::find_header(response.headers, name).value_or(""));
}

}  // namespace

TEST_CASE("each view is the page, and nothing else is") {
  const Site site(kFiles);
  for (const char* path :
       {"/", "/p/pr-1", "/p/pr-1/slices", "/c", "/c/", "/c/sha256:ab", "/models/org/name", "/evidence",
        "/evidence/7", "/schedules", "/holds", "/tokens", "/settings", "/health"}) {
    CAPTURE(path);
    REQUIRE(site.has(path));
    CHECK(site.answer(get(path)).body == "<p>page");
  }
  for (const char* path : {"//", "/v1", "/v1/session", "/pp", "/P/x", "/index", "/assets", "/assets/",
                           "/healthz", "/assets/app-A1.js.gz", "/assets/../index.html", "/favicon.ico"})
    CHECK_MESSAGE(!site.has(path), path);
}

TEST_CASE("every answer for the page forbids other origins, frames and guessing of types") {
  const Site site(kFiles);
  const Site none({});
  const auto cached = site.answer(get("/", {{"If-None-Match", "*"}}));
  CHECK(cached.status == 304);
  for (const auto& answer :
       {site.answer(get("/")), site.answer(get("/assets/app-A1.js")), cached, none.answer(get("/"))}) {
    CHECK(of(answer, "content-security-policy") ==
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
          "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
          "'none'; "
          "require-trusted-types-for 'script'");
    CHECK(of(answer, "x-content-type-options") == "nosniff");
    CHECK(of(answer, "referrer-policy") == "no-referrer");
    CHECK(of(answer, "cross-origin-opener-policy") == "same-origin");
    CHECK(of(answer, "cross-origin-resource-policy") == "same-origin");
    CHECK(of(answer, "permissions-policy").find("camera=()") != std::string::npos);
  }
}

TEST_CASE("assets are kept for good, the page is asked for again") {
  const Site site(kFiles);
  const auto asset = site.answer(get("/assets/icon-B2.svg"));
  CHECK(of(asset, "cache-control") == "public, max-age=31536000, immutable");
  CHECK(of(asset, "content-type") == "image/svg+xml");
  CHECK(asset.body == "<svg/>");
  CHECK(of(site.answer(get("/p/pr-1")), "cache-control") == "no-cache");
}

TEST_CASE("the smallest form that the client takes is sent, and caches keep the forms apart") {
  const Site site(kFiles);
  const auto asked = [&](const char* path, const char* accept) {
    return site.answer(get(path, {{"Accept-Encoding", accept}}));
  };
  const auto brotli = asked("/assets/app-A1.js", "gzip, br"), gzip = asked("/assets/app-A1.js", "gzip");
  const auto plain = site.answer(get("/assets/app-A1.js"));
  CHECK(brotli.body == "br a");
  CHECK(of(brotli, "content-encoding") == "br");
  CHECK(gzip.body == "gz a");
  CHECK(of(gzip, "content-encoding") == "gzip");
  CHECK(plain.body == "let a");
  CHECK(of(plain, "content-encoding").empty());
  for (const auto& answer : {brotli, gzip, plain}) {
    CHECK(of(answer, "vary") == "Accept-Encoding");
    CHECK(of(answer, "content-type") == "text/javascript; charset=utf-8");
  }
  CHECK(of(brotli, "etag") != of(gzip, "etag"));
  CHECK(of(gzip, "etag") != of(plain, "etag"));
  CHECK(asked("/assets/icon-B2.svg", "gzip, br").body == "<svg/>");
  CHECK(asked("/", "br").body == "br page");
}

TEST_CASE("a client whose copy is current gets 304 without a body") {
  const Site site(kFiles);
  const std::string tag = of(site.answer(get("/")), "etag");
  CHECK(tag == "\"" + std::string(kHash.substr(0, 32)) + "\"");
  for (const std::string& known : {tag, "W/" + tag, "\"other\" , " + tag, std::string("*")}) {
    CAPTURE(known);
    const auto answer = site.answer(get("/", {{"If-None-Match", known}}));
    CHECK(answer.status == 304);
    CHECK(answer.body.empty());
    CHECK(of(answer, "etag") == tag);
    CHECK(of(answer, "cache-control") == "no-cache");
    CHECK(of(answer, "vary") == "Accept-Encoding");
  }
  for (const std::string& other : {std::string("\"other\""), std::string(kHash), std::string()})
    CHECK(site.answer(get("/", {{"If-None-Match", other}})).status == 200);
  CHECK(site.answer(get("/", {{"If-None-Match", tag}, {"Accept-Encoding", "br"}})).status == 200);
}

TEST_CASE("only GET and HEAD are taken") {
  CHECK(Site::takes("GET"));
  CHECK(Site::takes("HEAD"));
  CHECK_FALSE(Site::takes("POST"));
  net::RequestHead head = get("/");
  head.method = "POST";
  const auto refused = Site::refuse(head);
  CHECK(refused.status == 405);
  CHECK(of(refused, "allow") == "GET, HEAD");
}

TEST_CASE("a build without the page says why where it would be, and no reason becomes markup") {
  const Site site({},
                  {.reason = R"(npm said "<script>alert('1')</script> & C:\x")", .remedy = "set <A> & 'B'"});
  const std::string html = site.answer(get("/")).body;
  CHECK(html.find("<p id=\"reason\">npm said &quot;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; "
                  "C:\\x&quot;</p>") != std::string::npos);
  CHECK(html.find("For the page, set &lt;A&gt; &amp; &#39;B&#39;. Then build again with") !=
        std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.ends_with("</html>\n"));
}

TEST_CASE("a build that was told to leave the page out names no other remedy than another build") {
  const Site site({}, {.reason = "built with DRIFTGATE_WEB=OFF", .remedy = {}});
  const std::string html = site.answer(get("/health")).body;
  CHECK(html.find("<p id=\"reason\">built with DRIFTGATE_WEB=OFF</p>") != std::string::npos);
  CHECK(html.find("<p>For the page, build again with <code>-DDRIFTGATE_WEB=ON</code>") != std::string::npos);
}

TEST_CASE("a build without the page says so where it would be, and has no assets") {
  const Site site({});
  const auto answer = site.answer(get("/p/pr-1"));
  CHECK(answer.status == 200);
  CHECK(of(answer, "content-type") == "text/html; charset=utf-8");
  CHECK(of(answer, "cache-control") == "no-cache");
  CHECK(answer.body.find("-DDRIFTGATE_WEB=ON") != std::string::npos);
  CHECK_FALSE(site.has("/assets/app-A1.js"));
}
