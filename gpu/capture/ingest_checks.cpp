#include "gpu/capture/ingest_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "gpu/capture/capture_modes.hpp"

namespace driftgate::gpu {

namespace {

constexpr std::uint64_t kLeastValues = 32;  ///< with fewer values no pattern is reported
constexpr double kMassTolerance = 1e-3;
/// Neighbouring rows agree better when the mean difference from them is below this share of that from the own
/// row.
constexpr double kShiftedShare = 0.5;
constexpr double kLeastShift = 1e-3;  ///< nats; smaller differences are those of two kernels that agree
constexpr double kTemperatureOff = 0.03;
constexpr double kStraight = 0.999;  ///< squared correlation from which a change of temperature is reported
constexpr double kNoTail = 1e-5, kTail = 1e-3;

using Visit = std::function<void(float)>;

/// All known log-probabilities of a capture, without NaN.
void each_logprob(const Capture& capture, const Visit& visit) {
  std::vector<ListedToken> list;
  for (std::uint64_t row = 0; row < capture.rows(); ++row) {
    capture.list(row, list);
    for (const ListedToken& token : list) {
      if (!std::isnan(token.logprob)) visit(token.logprob);
    }
  }
  for (const float value : capture.logprobs()) {
    if (is_known_logprob(value)) visit(value);
  }
}

bool rounded_to_bf16(const Capture& capture, std::uint64_t& values) {
  bool rounded = true;
  values = 0;
  each_logprob(capture, [&](float value) {
    if (value == 0) return;
    ++values;
    rounded = rounded && (std::bit_cast<std::uint32_t>(value) & 0xffffU) == 0;
  });
  return rounded && values >= kLeastValues;
}

std::optional<CaptureFinding> find_rounding(const Capture& capture, const char* side) {
  std::uint64_t values = 0;
  if (!rounded_to_bf16(capture, values)) return std::nullopt;
  return CaptureFinding{kRoundedToBf16,
                        side,
                        false,
                        values,
                        values,
                        fmt::format("all {} log-probabilities of {} were rounded to bf16 before they were "
                                    "stored (the low 16 bits are zero): every bound is widened by that "
                                    "rounding, which may hide the drift; have the engine give float32",
                                    values, side)};
}

std::optional<CaptureFinding> find_positive(const Capture& capture, const char* side) {
  std::uint64_t count = 0, values = 0;
  float most = 0;
  each_logprob(capture, [&](float value) {
    ++values;
    if (value > kPositiveLogprob) ++count;
    most = std::max(most, value);
  });
  if (count == 0) return std::nullopt;
  return CaptureFinding{
      kPositiveLogprobs,
      side,
      true,
      count,
      values,
      fmt::format("{} of {} log-probabilities of {} are positive, up to {:.4g}: they are not "
                  "logarithms of probabilities (are they logits, or a negated loss?)",
                  count, values, side, most)};
}

double mass_of(const std::vector<ListedToken>& list) {
  double mass = 0;
  for (const ListedToken& token : list) {
    if (!std::isnan(token.logprob)) mass += std::exp(static_cast<double>(token.logprob));
  }
  return mass;
}

/// The least mass that the list can have had before its log-probabilities were rounded.
double least_mass_of(const std::vector<ListedToken>& list, const LogprobError& error) {
  double mass = 0;
  for (const ListedToken& token : list) {
    if (std::isnan(token.logprob)) continue;
    const double value = token.logprob;
    mass += std::exp(value - std::abs(value) * error.relative - error.absolute);
  }
  return mass;
}

std::optional<CaptureFinding> find_mass(const Capture& capture, const char* side, const LogprobError& error) {
  std::uint64_t count = 0;
  double most = 0;
  std::vector<ListedToken> list;
  for (std::uint64_t row = 0; row < capture.rows(); ++row) {
    capture.list(row, list);
    if (least_mass_of(list, error) <= 1 + kMassTolerance) continue;
    ++count;
    most = std::max(most, mass_of(list));
  }
  if (count == 0) return std::nullopt;
  return CaptureFinding{kMassOverOne,
                        side,
                        true,
                        count,
                        capture.rows(),
                        fmt::format("the listed probabilities of {} sum to more than 1 in {} of {} rows, up "
                                    "to {:.4g}: they do not belong to one distribution",
                                    side, count, capture.rows(), most)};
}

/// The log-probability of the target token of each row, from `logprobs` or the list; NaN where unknown.
std::vector<double> target_logprobs(const Capture& capture) {
  std::vector<double> out(static_cast<std::size_t>(capture.rows()), NAN);
  std::vector<ListedToken> list;
  for (std::size_t row = 0; row < out.size() && capture.has_tokens(); ++row) {
    if (!capture.logprobs().empty()) {
      const float value = capture.logprobs()[row];
      if (is_known_logprob(value)) out[row] = value;
      continue;
    }
    capture.list(row, list);
    const auto found = std::ranges::find(list, capture.token_ids()[row], &ListedToken::id);
    if (found != list.end()) out[row] = found->logprob;
  }
  return out;
}

/// The log-probability of `token` in the list of row `row`; nothing when it is not listed.
std::optional<double> listed(const Capture& capture, std::uint64_t row, std::int64_t token,
                             std::vector<ListedToken>& list) {
  capture.list(row, list);
  const auto found = std::ranges::find(list, token, &ListedToken::id);
  if (found == list.end() || std::isnan(found->logprob)) return std::nullopt;
  return found->logprob;
}

/// Sums of |a_i − b_j| over rows i and their neighbours j = i + shift in the same sequence.
struct Agreement {
  double own = 0, shifted = 0;
  std::uint64_t n = 0;
  void add(double own_difference, double shifted_difference) {
    own += std::abs(own_difference);
    shifted += std::abs(shifted_difference);
    ++n;
  }
  [[nodiscard]] bool is_shifted() const {
    return n >= kLeastValues && own > kLeastShift * static_cast<double>(n) && shifted < kShiftedShare * own;
  }
};

/// Whether rows i and i + shift exist and belong to one sequence.
bool neighbours(const Capture& capture, std::int64_t row, std::int64_t shift) {
  const std::int64_t other = row + shift;
  if (other < 0 || other >= static_cast<std::int64_t>(capture.rows())) return false;
  const auto ids = capture.sequence_ids();
  return ids[static_cast<std::size_t>(row)] == ids[static_cast<std::size_t>(other)];
}

/// Compares the target tokens of one capture with those of the other, one row later and one row earlier.
Agreement across(const Capture& train, const std::vector<double>& a, const std::vector<double>& b,
                 std::int64_t shift) {
  Agreement out;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(a.size()); ++row) {
    if (!neighbours(train, row, shift)) continue;
    const double own = a[static_cast<std::size_t>(row)] - b[static_cast<std::size_t>(row)];
    const double shifted = a[static_cast<std::size_t>(row)] - b[static_cast<std::size_t>(row + shift)];
    if (std::isfinite(own) && std::isfinite(shifted)) out.add(own, shifted);
  }
  return out;
}

/// Compares the log-probabilities of target tokens with the lists of the same capture: counts rows that
/// disagree with their own list and agree with that of a neighbour.
std::optional<CaptureFinding> find_shift_within(const Capture& capture, const char* side) {
  if (capture.logprobs().empty() || capture.columns() == 0 || !is_partial(capture.mode()))
    return std::nullopt;
  std::vector<ListedToken> list;
  for (const std::int64_t shift : {std::int64_t{1}, std::int64_t{-1}}) {
    std::uint64_t own = 0, moved = 0, seen = 0;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(capture.rows()); ++row) {
      const auto at = static_cast<std::size_t>(row);
      const double reported = capture.logprobs()[at];
      if (!neighbours(capture, row, shift) || is_unknown_logprob(reported)) continue;
      const auto agrees = [&](std::int64_t other) {
        const auto value = listed(capture, static_cast<std::uint64_t>(other), capture.token_ids()[at], list);
        return value && std::abs(*value - reported) <= kLeastShift;
      };
      ++seen;
      own += agrees(row) ? 1U : 0U;
      moved += agrees(row + shift) ? 1U : 0U;
    }
    if (seen < kLeastValues || moved * 2 < seen || own * 2 > moved) continue;
    return CaptureFinding{kOffByOne,
                          side,
                          true,
                          moved,
                          seen,
                          fmt::format("off by one: in {} of {} rows of {} the target token's "
                                      "log-probability is that of the {} row's list and not of its own ({}); "
                                      "shift logprobs and token_ids by one row",
                                      moved, seen, side, shift > 0 ? "next" : "previous", own)};
  }
  return std::nullopt;
}

std::optional<CaptureFinding> find_shift(const Capture& train, const Capture& inf) {
  const std::vector<double> a = target_logprobs(train), b = target_logprobs(inf);
  for (const std::int64_t shift : {std::int64_t{1}, std::int64_t{-1}}) {
    const Agreement found = across(train, a, b, shift);
    if (!found.is_shifted()) continue;
    const auto n = static_cast<double>(found.n);
    return CaptureFinding{
        kOffByOne,
        "both",
        true,
        found.n,
        train.rows(),
        fmt::format("off by one: the log-probabilities of train agree with those of inf one row {} (mean "
                    "difference {:.4g}) far better than with those of the same row ({:.4g}); one capture "
                    "pairs each token with the row before or after its own",
                    shift > 0 ? "later" : "earlier", found.shifted / n, found.own / n)};
  }
  return std::nullopt;
}

/// Sums of a regression of y on x, centred row by row, so that normalising constants cancel.
struct Slope {
  double xx = 0, xy = 0, yy = 0;
  std::uint64_t n = 0;

  void add(const std::vector<std::pair<double, double>>& points) {
    if (points.size() < 2) return;
    double x = 0, y = 0;
    for (const auto& [px, py] : points) {
      x += px;
      y += py;
    }
    const auto count = static_cast<double>(points.size());
    for (const auto& [px, py] : points) {
      xx += (px - x / count) * (px - x / count);
      xy += (px - x / count) * (py - y / count);
      yy += (py - y / count) * (py - y / count);
    }
    n += points.size();
  }
  [[nodiscard]] bool is_temperature() const {
    if (n < kLeastValues || xx <= 0 || yy <= 0) return false;
    return std::abs(xy / xx - 1) > kTemperatureOff && xy * xy / (xx * yy) > kStraight;
  }
};

std::vector<std::pair<double, double>> shared_points(std::vector<ListedToken>& a,
                                                     std::vector<ListedToken>& b) {
  std::ranges::sort(a, {}, &ListedToken::id);
  std::ranges::sort(b, {}, &ListedToken::id);
  std::vector<std::pair<double, double>> out;
  auto other = b.begin();
  for (const ListedToken& token : a) {
    while (other != b.end() && other->id < token.id) ++other;
    if (other == b.end()) break;
    if (other->id != token.id || std::isnan(token.logprob) || std::isnan(other->logprob)) continue;
    out.emplace_back(token.logprob, other->logprob);
  }
  return out;
}

std::optional<CaptureFinding> find_processing(const Capture& train, const Capture& inf) {
  Slope slope;
  std::uint64_t cut_train = 0, cut_inf = 0;
  std::vector<ListedToken> a, b;
  for (std::uint64_t row = 0; row < train.rows(); ++row) {
    train.list(row, a);
    inf.list(row, b);
    slope.add(shared_points(a, b));
    const double tail_a = 1 - mass_of(a), tail_b = 1 - mass_of(b);
    if (!a.empty() && tail_a < kNoTail && tail_b > kTail) ++cut_train;
    if (!b.empty() && tail_b < kNoTail && tail_a > kTail) ++cut_inf;
  }
  if (slope.is_temperature()) {
    const double ratio = slope.xy / slope.xx;
    return CaptureFinding{
        kProcessedLogprobs,
        "both",
        true,
        slope.n,
        slope.n,
        fmt::format("the log-probabilities of inf are those of train times {:.3g} up to a constant in each "
                    "row: only one of the engines divided by a temperature (about {:.3g}); "
                    "capture raw log-probabilities",
                    ratio, 1 / ratio)};
  }
  const bool from_train = cut_train >= cut_inf;
  const std::uint64_t cut = from_train ? cut_train : cut_inf;
  if (cut < kLeastValues || cut * 2 < train.rows()) return std::nullopt;
  return CaptureFinding{
      kProcessedLogprobs,
      from_train ? "train" : "inf",
      true,
      cut,
      train.rows(),
      fmt::format("in {} of {} rows the lists of {} hold all the mass and those of the other kernel leave a "
                  "tail: they were taken after a sampling filter; capture raw log-probabilities",
                  cut, train.rows(), from_train ? "train" : "inf")};
}

/// Unit roundoff of the arithmetic of the softmax, as the metadata state it; otherwise that of float32.
schema::Result<double> unit_of_softmax(const SafetensorsFile& file) {
  constexpr std::array kUnits{std::pair{"float32", 0x1p-24}, std::pair{"float64", 0x1p-53},
                              std::pair{"bfloat16", 0x1p-8}, std::pair{"float16", 0x1p-11}};
  const auto stated = file.header().metadata.find("softmax_dtype");
  if (stated == file.header().metadata.end()) return kUnits.front().second;
  for (const auto& [name, unit] : kUnits) {
    if (stated->second == name) return unit;
  }
  return invalid(file,
                 "metadata softmax_dtype '" + stated->second +
                     "' is none of float32, float64, bfloat16 and float16: the type in which the engine "
                     "computed its log-probabilities");
}

}  // namespace

std::vector<CaptureFinding> check_logprobs(const Capture& train, const Capture& inf) {
  std::vector<CaptureFinding> out;
  const auto keep = [&out](std::optional<CaptureFinding> finding) {
    if (finding) out.push_back(std::move(*finding));
  };
  for (const auto& [capture, side] : {std::pair{&train, "train"}, std::pair{&inf, "inf"}}) {
    keep(find_rounding(*capture, side));
    keep(find_positive(*capture, side));
    // An invalid `logprob_error` is reported by logprob_error.
    keep(find_mass(*capture, side, logprob_error(*capture).value_or(LogprobError{})));
    keep(find_shift_within(*capture, side));
  }
  const bool shifted = std::ranges::any_of(out, [](const CaptureFinding& f) { return f.name == kOffByOne; });
  if (!shifted) keep(find_shift(train, inf));
  keep(find_processing(train, inf));
  return out;
}

schema::Result<LogprobError> logprob_error(const Capture& capture) {
  LogprobError out;
  std::uint64_t values = 0;
  if (rounded_to_bf16(capture, values)) out.relative = 0x1p-8;
  const SafetensorsFile& file = capture.segments().front().file;
  const double unit = TRY(unit_of_softmax(file));
  out.unit = unit;
  const auto found = file.header().metadata.find("logprob_error");
  if (found == file.header().metadata.end()) return out;
  const std::string& text = found->second;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out.absolute);
  if (error != std::errc{} || stopped != end || !(out.absolute >= 0 && out.absolute < 10)) {
    return invalid(file, "metadata logprob_error '" + text +
                             "' is not a number from 0 to 10: the largest absolute error of a "
                             "log-probability, in nats");
  }
  return out;
}

}  // namespace driftgate::gpu
