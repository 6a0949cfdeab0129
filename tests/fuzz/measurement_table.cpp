#include "gpu/table/measurement.hpp"

#include <string>

#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate;

std::string sample() {
  gpu::MeasurementTable table;
  table.train.kernel = "k-train";
  table.inf.kernel = "k-inf";
  table.rows = 2;
  table.vocabulary = 16;
  table.slices.emplace_back();
  for (int s = 0; s < 2; ++s) {
    gpu::SequenceRow row;
    row.sequence = s;
    row.rows = 1;
    for (auto& metric : row.metrics) metric.add(0.5);
    table.sequences.push_back(row);
    gpu::SequenceInfo info;
    info.sequence = s;
    info.slices = {{"language", "de"}};
    table.infos.push_back(info);
  }
  return gpu::serialise(table);
}

void check(std::string_view bytes) {
  const auto table = gpu::deserialise(bytes);
  if (!table) return;
  const auto written = gpu::serialise(*table);
  const auto again = gpu::deserialise(written);
  fuzz::require(again.has_value() && gpu::serialise(*again) == written, "a table is written back the same");
}

}  // namespace

/// The table that a worker leaves behind: any bytes, and a good table with some of its bytes changed (three
/// bytes of input say where and to what).
void driftgate::fuzz::run(std::string_view bytes) {
  check(bytes);
  static const std::string good = sample();
  auto changed = good;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const auto at = static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8U;
    changed[static_cast<std::size_t>(at) % changed.size()] = bytes[i + 2];
  }
  check(changed);
}
