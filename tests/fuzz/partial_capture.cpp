#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "gpu/drift.hpp"
#include "tests/fuzz/unit.hpp"

using namespace driftgate;

/// A whole capture in a partial mode, held against itself: opened, compared, measured, written and read.
void driftgate::fuzz::run(std::string_view bytes) {
  constexpr std::size_t kMostBytes = 4'096;
  if (bytes.size() > kMostBytes) return;
  const int file = ::memfd_create("capture", MFD_CLOEXEC);
  require(file >= 0, "there is memory for the input");
  const bool written = ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const auto capture = gpu::Capture::open("/proc/self/fd/" + std::to_string(file));
  ::close(file);
  if (!written || !capture || !gpu::is_partial(capture->mode())) return;
  const auto table = gpu::measure(*capture, *capture, nullptr, {});
  if (!table) {
    require(!table.error().message.empty(), "an error says something");
    return;
  }
  const auto text = gpu::serialise(*table);
  const auto back = gpu::deserialise(text);
  require(back && gpu::serialise(*back) == text, "a table is read back as it was written");
  for (const gpu::SequenceRow& row : table->sequences) {
    for (const gpu::BoundMoments& bounds : row.bounds->metrics) {
      if (bounds.lower.n > 0)
        require(!(bounds.lower.max > bounds.upper.max), "a lower bound is no more than the upper");
    }
  }
}
