#include "daemon/route/http/chunked.hpp"

#include <string>

#include "tests/fuzz/unit.hpp"

/// The chunked coding, whole and in pieces: both must give the same.
void driftgate::fuzz::run(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t step = static_cast<unsigned char>(bytes.front()) % 7 + 1;
  bytes.remove_prefix(1);
  route::ChunkedDecoder whole;
  std::string body;
  const std::size_t used = whole.feed(bytes, body);
  require(used <= bytes.size() && body.size() <= used, "no more comes out than went in");
  route::ChunkedDecoder pieces;
  std::string same;
  std::size_t total = 0;
  for (std::size_t at = 0; at < bytes.size() && !pieces.done() && !pieces.failed(); at += step) {
    total += pieces.feed(bytes.substr(at, step), same);
  }
  require(whole.done() == pieces.done() && whole.failed() == pieces.failed(), "pieces end as the whole does");
  if (!whole.done()) return;
  require(body == same, "pieces give the same body");
  require(total == used, "pieces take the same bytes");
}
