#include "daemon/web/site.hpp"

// Stands in for the table that cmake/embed_web.py writes, in a build without the page.

namespace driftgate::web {

std::span<const File> embedded_files() {
  return {};
}

}  // namespace driftgate::web
