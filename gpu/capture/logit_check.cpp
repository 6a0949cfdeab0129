#include "gpu/capture/logit_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include "gpu/capture/row_logits.hpp"

namespace driftgate::gpu {

namespace {

/// Logits of models are far below 10⁴, and masks are at or below its negative.
constexpr double kOrdinary = 1e4;
/// Beyond this float32 keeps differences of logits to 0.06 at best.
constexpr double kPhysical = 1e6;
/// Logits that are within so many units in the last place of the largest one have lost their differences.
constexpr double kLostPlaces = 4;
constexpr std::uint32_t kBlock = 64;  ///< logits that are read at once
constexpr std::array kSides{"train", "inf"};

/// The spacing of numbers near 1.
double spacing(DType dtype) {
  if (dtype == DType::f32) return 0x1p-23;
  return dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
}

/// The beginning of a finding's text, which changes when tables are merged.
std::string counted(std::uint64_t count, std::uint64_t of) {
  return fmt::format("in {} of {} rows", count, of);
}

CaptureFinding finding_of(const char* side, std::uint64_t count, std::uint64_t of, std::string_view rest) {
  return {kUnphysicalLogits, side, true, count, of, counted(count, of).append(rest)};
}

/// The text behind its beginning.
std::string_view rest_of(const CaptureFinding& finding) {
  const std::string beginning = counted(finding.count, finding.of);
  const std::string_view text = finding.text;
  return text.substr(text.starts_with(beginning) ? beginning.size() : 0);
}

const CaptureFinding* find(const MeasurementTable& table, std::string_view side) {
  const auto found = std::ranges::find_if(table.partial.findings, [&](const CaptureFinding& finding) {
    return finding.name == kUnphysicalLogits && finding.side == side;
  });
  return found == table.partial.findings.end() ? nullptr : &*found;
}

}  // namespace

std::optional<double> unphysical(const std::byte* row, DType dtype, std::uint32_t vocabulary) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const LogitRow logits{row, dtype};
  double largest = -kInfinity, least = kInfinity;
  std::uint32_t finite = 0;
  bool ordinary = false;
  for (std::uint32_t begin = 0, end = 0; begin < vocabulary; begin = end) {
    end = begin + std::min(vocabulary - begin, kBlock);
    for (std::uint32_t v = begin; v < end; ++v) {
      const double value = logits.at(v);
      if (!std::isfinite(value)) continue;
      ++finite;
      largest = std::max(largest, value);
      least = std::min(least, value);
      ordinary = ordinary || (value > -kOrdinary && value <= kOrdinary);
    }
    if (ordinary && largest <= kPhysical) return std::nullopt;
  }
  if (finite == 0) return std::nullopt;
  if (std::abs(largest) > kPhysical) return largest;
  const bool lost = finite > 1 && largest - least <= kLostPlaces * spacing(dtype) * std::abs(largest);
  return lost ? std::optional(largest) : std::nullopt;
}

void LogitCheck::look(const Capture& train, const Capture& inf, std::uint64_t row) {
  if (train.mode() != CaptureMode::full) return;
  const std::array<const Capture*, 2> captures{&train, &inf};
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const Capture& capture = *captures[i];
    if (capture.on_device()) continue;
    const LogitRow logits = logits_of(capture, row);
    const auto largest = unphysical(logits.data, logits.dtype, capture.vocabulary());
    if (!largest) continue;
    Side& side = sides_[i];
    if (side.rows++ > 0) continue;
    const auto at = static_cast<std::size_t>(row);
    side.first = fmt::format(
        "first in row {} (sequence {}, position {}), where the largest logit that is finite is {:.4g}",
        capture.first_row() + row, capture.sequence_ids()[at], capture.positions()[at], *largest);
  }
}

void LogitCheck::finish(MeasurementTable& table) const {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    const auto& [rows, first] = sides_[i];
    if (rows == 0) continue;
    const std::string rest = fmt::format(
        " the logits of {} are so large that no model computes them, or that rounding has left no "
        "differences "
        "between tokens, {}: capture the logits as the model computes them, before masks, and check the type "
        "and the byte order in which they were stored",
        kSides[i], first);
    table.partial.findings.push_back(finding_of(kSides[i], rows, table.rows, rest));
  }
}

void merge_unphysical(MeasurementTable& into, const MeasurementTable& next, std::uint64_t merged_rows) {
  std::vector<CaptureFinding> merged;
  for (const char* side : kSides) {
    const CaptureFinding *a = find(into, side), *b = find(next, side);
    const CaptureFinding* first = a != nullptr ? a : b;
    if (first == nullptr) continue;
    const std::uint64_t count = (a != nullptr ? a->count : 0) + (b != nullptr ? b->count : 0);
    merged.push_back(finding_of(side, count, merged_rows, rest_of(*first)));
  }
  auto& findings = into.partial.findings;
  std::erase_if(findings, [](const CaptureFinding& finding) { return finding.name == kUnphysicalLogits; });
  findings.insert(findings.begin(), merged.begin(), merged.end());
}

bool only_unphysical(const MeasurementTable& table) {
  const auto& findings = table.partial.findings;
  const auto known = [&](const CaptureFinding& finding) {
    return find(table, finding.side) == &finding && std::ranges::find(kSides, finding.side) != kSides.end() &&
           finding.decides && finding.count > 0 && finding.count <= finding.of && finding.of == table.rows &&
           finding.text.starts_with(counted(finding.count, finding.of) + " the logits");
  };
  return findings.size() <= kSides.size() && std::ranges::all_of(findings, known);
}

}  // namespace driftgate::gpu
