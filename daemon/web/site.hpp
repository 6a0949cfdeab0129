#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/net/request.hpp"
#include "daemon/net/response.hpp"

namespace driftgate::web {

/// One file of the page as it was built: its bytes as they are and compressed.
struct File {
  std::string_view path;    ///< "/assets/app-ABC.js"; "/index.html" for the page itself
  std::string_view type;    ///< media type
  std::string_view sha256;  ///< hex, of the plain bytes
  std::string_view plain;
  std::string_view gzip, brotli;  ///< empty: there is no such variant
};

/// Why a program has no page.
struct Absence {
  std::string_view reason;  ///< one line of plain text; empty: not known, or there is a page
  std::string_view remedy;  ///< what to do before the next build ("install npm"); empty: nothing
};

/// The files that this program was built with (cmake/web.cmake); none in a build without the page.
[[nodiscard]] std::span<const File> embedded_files();
/// Why there are none; empty in a program with its page.
[[nodiscard]] Absence embedded_absence();

/// Answers requests for the page: its views, all of which are index.html, and its assets. What it says is the
/// same for everyone; what people see comes from the API. Thread-safe.
class Site {
 public:
  /// Without files, every view says why there is no page and how to build it. The files, and what the absence
  /// refers to, outlive the site.
  explicit Site(std::span<const File> files, Absence absence = {});

  /// Whether the path, as it came, is the page's.
  [[nodiscard]] bool has(std::string_view path) const;
  /// Whether it answers the method: GET and HEAD.
  [[nodiscard]] static bool takes(std::string_view method);
  /// The answer to another method: 405.
  [[nodiscard]] static net::Response refuse(const net::RequestHead& head);
  /// The answer to a request for a path that it has: 200, or 304 where the client's copy is current. The
  /// server leaves the body out where the method is HEAD.
  [[nodiscard]] net::Response answer(const net::RequestHead& head) const;

 private:
  [[nodiscard]] const File* find(std::string_view path) const;
  std::span<const File> files_;
  Absence absence_;
};

}  // namespace driftgate::web
