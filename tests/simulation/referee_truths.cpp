#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/simulation/referee_worlds.hpp"

namespace driftgate::simulation {

namespace referee {
namespace {

/// The estimate of a mean, or of a ratio of means, and its standard error.
class Estimate {
 public:
  void add(double numerator, double denominator = 1) {
    values_.emplace_back(numerator, denominator);
    numerator_ += numerator;
    denominator_ += denominator;
  }
  void print(std::ostream& out) const {
    const double ratio = numerator_ / denominator_;
    // Relative to the largest residual, so that squares of tiny ones are not lost.
    double largest = 0, squares = 0;
    for (const auto& [numerator, denominator] : values_)
      largest = std::max(largest, std::abs(numerator - ratio * denominator));
    for (const auto& [numerator, denominator] : values_)
      squares += largest > 0 ? std::pow((numerator - ratio * denominator) / largest, 2) : 0;
    out << ratio << ", " << largest * std::sqrt(squares) / denominator_;
  }

 private:
  double numerator_ = 0, denominator_ = 0;
  std::vector<std::pair<double, double>> values_;
};

void print_figures(std::ostream& out, const RefereeWorld& world) {
  out << R"({"world": ")" << world.name << R"(", "longest": )" << world.longest << R"(, "row_limit": )"
      << world.row_limit << R"(, "sequence_limit": )" << world.sequence_limit << R"(, "share_average": )"
      << world.share_average << R"(, "share_rows": )" << world.share_rows << R"(, "share_sequences": )"
      << world.share_sequences << R"(, "mean_once": )" << world.mean_once << R"(, "mean_tokens": )"
      << world.mean_tokens << R"(, "mean_clipped": [)";
  for (const double clip : kRefereeClips)
    out << (clip == kRefereeClips.front() ? "[" : ", [") << clip << ", " << world.mean_clipped(clip) << "]";
  out << "]}\n";
}

void print_drawn(std::ostream& out, const RefereeWorld& world, std::size_t draws, stages::Random& random) {
  Estimate share_average, share_rows, share_sequences, mean_once, mean_tokens;
  std::array<Estimate, kRefereeClips.size()> clipped;
  std::uint32_t longest = 0;
  for (const RefereeSequence& each : world.draw(random, draws)) {
    const double mean = each.sum / each.rows;
    // A mean that equals the limit but for the rounding of its sum is at the limit.
    const bool tied = std::abs(mean - world.sequence_limit) <= 4e-16 * world.sequence_limit;
    longest = std::max(longest, each.rows);
    share_average.add(static_cast<double>(each.above) / each.rows);
    share_rows.add(each.above, each.rows);
    share_sequences.add(mean > world.sequence_limit && !tied ? 1 : 0);
    mean_once.add(mean);
    mean_tokens.add(each.sum, each.rows);
    for (std::size_t i = 0; i < clipped.size(); ++i) clipped[i].add(std::min(mean, kRefereeClips[i]));
  }
  out << R"({"drawn": ")" << world.name << R"(", "draws": )" << draws << R"(, "longest": )" << longest;
  const auto put = [&](std::string_view name, const Estimate& estimate) {
    out << R"(, ")" << name << R"(": [)";
    estimate.print(out);
    out << "]";
  };
  put("share_average", share_average);
  put("share_rows", share_rows);
  put("share_sequences", share_sequences);
  put("mean_once", mean_once);
  put("mean_tokens", mean_tokens);
  out << R"(, "mean_clipped": [)";
  for (std::size_t i = 0; i < clipped.size(); ++i) {
    out << (i == 0 ? "[" : ", [") << kRefereeClips[i] << ", ";
    clipped[i].print(out);
    out << "]";
  }
  out << "]}\n";
}

}  // namespace
}  // namespace referee

std::string referee_truths(std::size_t draws, std::uint64_t seed) {
  std::ostringstream out;
  out << std::setprecision(17);
  stages::Random random(seed);
  for (const RefereeWorld& world : referee_worlds()) {
    referee::print_figures(out, world);
    referee::print_drawn(out, world, draws, random);
  }
  return out.str();
}

}  // namespace driftgate::simulation
