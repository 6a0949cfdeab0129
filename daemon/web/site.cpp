#include "daemon/web/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/base/http_text.hpp"
#include "daemon/web/accept_encoding.hpp"

namespace driftgate::web {
namespace {

constexpr std::string_view kIndex = "/index.html";
constexpr std::string_view kAssets = "/assets/";

/// The first parts of the paths of views. A view is the part alone or anything below it.
constexpr std::array<std::string_view, 9> kViews = {"p",     "c",      "models",   "evidence", "schedules",
                                                    "holds", "tokens", "settings", "health"};

constexpr std::string_view kNotBuilt =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>driftgate</title>\n"
    "<h1>driftgate runs, and was built without its page</h1>\n"
    "<p>The API under <code>/v1</code> and every command of <code>driftgate</code> work; "
    "<a href=\"/openapi.json\">/openapi.json</a> lists the operations.</p>\n";
constexpr std::string_view kBuildAgain =
    "build again with <code>-DDRIFTGATE_WEB=ON</code> (<code>scripts/build build -DDRIFTGATE_WEB=ON</code>), "
    "which fails where the page cannot be built, and start the daemon again.</p>\n</html>\n";

bool is_view(std::string_view path) {
  if (path == "/") return true;
  const std::string_view first = path.substr(1, path.find('/', 1) - 1);
  return std::ranges::find(kViews, first) != kViews.end();
}

/// What every answer for the page carries: only its own scripts, styles and API, inside no other site's
/// frame.
void add_safety(net::Response& response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
        "'none'; "
        "require-trusted-types-for 'script'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cross-Origin-Resource-Policy", "same-origin"},
       {"Permissions-Policy",
        "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), "
        "microphone=(), midi=(), payment=(), publickey-credentials-get=(), screen-wake-lock=(), usb=(), "
        "xr-spatial-tracking=()"}});
}

/// Whether `field` (If-None-Match) names the tag; comparison is weak (RFC 9110 section 13.1.2).
bool names_tag(std::string_view field, std::string_view tag) {
  while (!field.empty()) {
    const std::size_t end = field.find(',');
    std::string_view one = base::trimmed(field.substr(0, end));
    field = end == std::string_view::npos ? std::string_view{} : field.substr(end + 1);
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == tag || one == "*") return true;
  }
  return false;
}

struct Variant {
  std::string_view bytes;
  std::string_view coding;  ///< Content-Encoding; empty: none
};

Variant variant_for(const File& file, std::optional<std::string_view> accept) {
  const AcceptedCodings accepted = accepted_codings(accept);
  if (accepted.brotli && !file.brotli.empty()) return {file.brotli, "br"};
  if (accepted.gzip && !file.gzip.empty()) return {file.gzip, "gzip"};
  return {file.plain, {}};
}

/// The text as it may stand between tags and in attributes.
std::string in_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

/// What stands in for the page. `driftgate doctor` reads the reason from its paragraph.
net::Response not_built(const Absence& absence) {
  net::Response response;
  response.headers = {{"Content-Type", "text/html; charset=utf-8"}, {"Cache-Control", "no-cache"}};
  add_safety(response);
  response.body = kNotBuilt;
  if (!absence.reason.empty())
    response.body +=
        fmt::format("<p>Why there is no page:</p>\n<p id=\"reason\">{}</p>\n", in_html(absence.reason));
  response.body += absence.remedy.empty()
                       ? "<p>For the page, "
                       : fmt::format("<p>For the page, {}. Then ", in_html(absence.remedy));
  response.body += kBuildAgain;
  return response;
}

}  // namespace

Site::Site(std::span<const File> files, Absence absence) : files_(files), absence_(absence) {}

const File* Site::find(std::string_view path) const {
  const auto found = std::ranges::find(files_, is_view(path) ? kIndex : path, &File::path);
  return found == files_.end() ? nullptr : &*found;
}

bool Site::has(std::string_view path) const {
  return is_view(path) || find(path) != nullptr;
}

bool Site::takes(std::string_view method) {
  return method == "GET" || method == "HEAD";
}

net::Response Site::refuse(const net::RequestHead& head) {
  net::Response response = net::plain_problem(
      405, "method_not_allowed", fmt::format("'{}' takes GET, HEAD, not {}.", head.path, head.method));
  response.headers.push_back({"Allow", "GET, HEAD"});
  return response;
}

net::Response Site::answer(const net::RequestHead& head) const {
  const File* const file = find(head.path);
  if (file == nullptr) return not_built(absence_);
  const Variant variant = variant_for(*file, head.header("accept-encoding"));
  const std::string tag = fmt::format("\"{}{}{}\"", file->sha256.substr(0, 32),
                                      variant.coding.empty() ? "" : "-", variant.coding);
  net::Response response;
  const bool hashed_name = file->path.starts_with(kAssets);
  response.headers = {{"ETag", tag},
                      {"Vary", "Accept-Encoding"},
                      {"Cache-Control", hashed_name ? "public, max-age=31536000, immutable" : "no-cache"}};
  add_safety(response);
  const auto known = head.header("if-none-match");
  if (known && names_tag(*known, tag)) {
    response.status = 304;
    return response;
  }
  response.headers.push_back({"Content-Type", std::string(file->type)});
  if (!variant.coding.empty()) response.headers.push_back({"Content-Encoding", std::string(variant.coding)});
  response.body = variant.bytes;
  return response;
}

}  // namespace driftgate::web
