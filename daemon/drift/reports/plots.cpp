#include "daemon/drift/reports/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/drift/reports/findings.hpp"
#include "daemon/drift/reports/words.hpp"

namespace driftgate::drift {

namespace {

using schema::Metric;

constexpr double kForestWidth = 360, kMargin = 8;
constexpr double kWidth = 720, kHeight = 320, kLeft = 76, kRight = 24, kTop = 16, kBottom = 56;
constexpr std::size_t kSlicesDrawn = 3, kLargestCurve = 400;

/// The next number of the form 1, 2 or 5 times a power of ten.
double round_up(double value) {
  if (!(value > 0) || std::isinf(value)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (value <= step * power * (1 + 1e-12)) return step * power;
  }
  return 10 * power;
}

/// What lies far out does not make the rest of the picture small: it ends in an arrow.
double forest_end(const std::vector<ForestRow>& rows) {
  double estimates = 0, uppers = 0, limit = 0;
  for (const ForestRow& row : rows) {
    estimates = std::max(estimates, row.estimate);
    uppers = std::max(uppers, row.upper && std::isfinite(*row.upper) ? *row.upper : 0);
    limit = std::max(limit, row.limit.value_or(0));
  }
  const double end = std::max({estimates, limit, std::min(uppers, 1.6 * std::max(estimates, limit))});
  return round_up(limit > 0 ? std::min(end, 3 * limit) : end);
}

std::string line(double x1, double y1, double x2, double y2, std::string_view name) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", name, x1, y1,
                     x2, y2);
}

std::string forest_mark(const ForestRow& row, double end) {
  const auto x = [end](double value) {
    return kMargin + std::clamp(value / end, 0.0, 1.0) * (kForestWidth - 2 * kMargin);
  };
  std::string out = fmt::format(
      R"(<svg aria-hidden="true" width="{0:.0f}" height="24" viewBox="0 0 {0:.0f} 24">)", kForestWidth);
  out += line(kMargin, 12, kForestWidth - kMargin, 12, "grid");
  if (row.lower || row.upper) {
    const double from = x(row.lower.value_or(row.estimate)), to = x(row.upper.value_or(row.estimate));
    out += line(from, 12, to, 12, "interval " + row.tone);
    if (row.lower) out += line(from, 7, from, 17, "interval " + row.tone);
    if (row.upper && *row.upper <= end) out += line(to, 7, to, 17, "interval " + row.tone);
    if (row.upper && *row.upper > end)
      out += fmt::format(R"(<path class="mark {}" d="M{:.1f} 7l8 5l-8 5z"/>)", row.tone, to - 1);
  }
  if (row.limit) out += line(x(*row.limit), 1, x(*row.limit), 23, "limit");
  if (row.estimate <= end) {
    out += fmt::format(R"(<rect class="mark {}" x="{:.1f}" y="8" width="8" height="8"/>)", row.tone,
                       x(row.estimate) - 4);
  }
  return out + "</svg>";
}

using Point = std::pair<double, double>;
struct Curve {
  std::string name, tone;
  std::vector<Point> points;
};

/// Points (value, share of rows above it) with a value over 0, thinned to at most kLargestCurve.
std::vector<Point> exceedance(const gpu::Histogram& histogram) {
  const auto total = static_cast<double>(histogram.count());
  auto above = total - static_cast<double>(histogram.zero);
  std::vector<Point> all;
  for (const auto& [bin, count] : histogram.positive) {
    const double value =
        std::exp(static_cast<double>(bin) * 2 * std::log(1.01));  // as in gpu/table/histogram.cpp
    all.emplace_back(value, above / total);
    above -= static_cast<double>(count);
  }
  std::vector<Point> out;
  const std::size_t step = all.size() / kLargestCurve + 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % step == 0 || i + 1 == all.size()) out.push_back(all[i]);
  }
  return out;
}

const gpu::Histogram& tv_of(const gpu::SliceHistograms& slice) {
  return slice.histograms[static_cast<std::size_t>(Metric::tv)];
}

std::vector<Curve> tail_curves(const DriftReport& report) {
  std::vector<Curve> out;
  const auto add = [&out](const std::string& name, const std::string& tone,
                          const gpu::SliceHistograms& slice) {
    auto points = exceedance(tv_of(slice));
    if (!points.empty()) out.push_back({name, tone, std::move(points)});
  };
  const auto& slices = report.table->slices;
  if (!slices.empty()) add("corpus", "c0", slices.front());
  std::size_t drawn = 0;
  for (const DriftSlice* slice : worst_slices(report)) {
    const auto found = std::ranges::find(slices, slice->summary.where, &gpu::SliceHistograms::where);
    if (found == slices.end() || drawn == kSlicesDrawn) continue;
    add(place_text(slice->summary.where), fmt::format("c{}", ++drawn), *found);
  }
  for (const stages::FloorSide side : stages::kFloorSides) {
    const gpu::MeasurementTable* floor = report.floor_tables.of(side).table;
    if (floor != nullptr && !floor->slices.empty())
      add(fmt::format("{} floor", stages::to_string(side)), "floor", floor->slices.front());
  }
  return out;
}

/// A frame with axes; `x` and `y` map to it.
struct Frame {
  double left = 0, right = 1, low = 0, high = 1;  ///< in the units that are drawn
  [[nodiscard]] double x(double value) const {
    return kLeft + (value - left) / (right - left) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kHeight - kBottom - (value - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, y, anchor, markup(text));
}

std::string begin_picture(const char* id, const std::string& title, const std::string& description) {
  return fmt::format(
      R"(<svg class="plot" role="img" aria-labelledby="{0}-t {0}-d" viewBox="0 0 {3:.0f} {4:.0f}"><title id="{0}-t">{1}</title><desc id="{0}-d">{2}</desc>)",
      id, markup(title), markup(description), kWidth, kHeight);
}

std::string x_tick(const Frame& frame, double at, const std::string& label) {
  return line(frame.x(at), kTop, frame.x(at), kHeight - kBottom, "grid") +
         text_at(frame.x(at), kHeight - kBottom + 22, "middle", label);
}

std::string y_tick(const Frame& frame, double at, const std::string& label) {
  return line(kLeft, frame.y(at), kWidth - kRight, frame.y(at), "grid") +
         text_at(kLeft - 6, frame.y(at) + 5, "end", label);
}

std::string path_of(const Curve& curve, const Frame& frame) {
  std::string d;
  for (const auto& [value, share] : curve.points) {
    const double at = std::log10(value);
    if (at < frame.left) continue;
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", frame.x(at),
                     frame.y(std::max(std::log10(share), frame.low)));
  }
  return fmt::format(R"(<path class="curve {}" d="{}"/>)", curve.tone, d);
}

std::string legend_of(const std::vector<Curve>& curves) {
  std::string out = "<ul class=\"legend\">";
  for (const Curve& curve : curves) {
    out += fmt::format(
        R"(<li><svg aria-hidden="true" width="28" height="12" viewBox="0 0 28 12"><path class="curve {}" d="M0 6H28"/></svg><bdi>{}</bdi></li>)",
        curve.tone, markup(curve.name));
  }
  return out + "</ul>";
}

}  // namespace

std::string forest_plot(const std::string& what, const char* first, const std::vector<ForestRow>& rows) {
  const double end = forest_end(rows);
  std::string out = fmt::format(
      R"(<div class="wide" tabindex="0" role="region" aria-label="{0}"><table class="forest"><thead><tr><th scope="col">{2}</th><th scope="col">figure</th><th scope="col">interval</th><th scope="col">limit</th><th scope="col"><span class="scale"><span>0</span><span>{1}</span></span></th></tr></thead><tbody>)",
      markup(what), figure_text(end), first);
  for (const ForestRow& row : rows) {
    out += fmt::format(
        R"(<tr><th scope="row"><bdi>{}</bdi>{}</th><td>{}</td><td>{}</td><td>{}</td><td class="drawn">{}</td></tr>)",
        markup_name(row.name),
        row.detail.empty() ? "" : "<br><small><bdi>" + markup_name(row.detail) + "</bdi></small>",
        figure_text(row.estimate),
        row.lower || row.upper ? figure_text(row.lower) + " to " + figure_text(row.upper) : "–",
        figure_text(row.limit), forest_mark(row, end));
  }
  return out + "</tbody></table></div>\n";
}

std::string tail_plot(const DriftReport& report) {
  const std::vector<Curve> curves = tail_curves(report);
  if (curves.empty()) return {};
  Frame frame{0, -12, 0, 0};
  double least = 0;
  for (const Curve& curve : curves) {
    least = std::min(least, std::log10(curve.points.front().first));
    frame.right = std::max(frame.right, std::log10(curve.points.back().first));
    frame.low = std::min(frame.low, std::floor(std::log10(curve.points.back().second)));
  }
  frame.right = std::ceil(frame.right + 1e-9);
  frame.left = std::max(std::floor(least), frame.right - 6);
  frame.low = std::min(std::max(frame.low, -6.0), -1.0);
  std::string out =
      begin_picture("tail", "Share of rows above each tv",
                    "One curve for the corpus and for each slice that drifts most; both axes are "
                    "logarithmic. A curve further to the right drifts more.");
  for (double at = frame.left; at <= frame.right; ++at)
    out += x_tick(frame, at, figure_text(std::pow(10, at)));
  for (double at = frame.low; at <= 0; ++at)
    out += y_tick(frame, at, figure_text(100 * std::pow(10, at)) + "%");
  for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve) out += path_of(*curve, frame);
  out += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "tv of a row");
  return "<figure>" + out +
         "</svg><figcaption>Share of rows whose tv is larger than the value below.</figcaption>" +
         legend_of(curves) + "</figure>\n";
}

std::string position_plot(const DriftReport& report) {
  const auto& buckets = report.table->profile.by_position;
  std::vector<std::size_t> used;
  double most = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].rows == 0) continue;
    used.push_back(i);
    most = std::max(most, buckets[i].tv / static_cast<double>(buckets[i].rows));
  }
  if (used.empty() || !std::isfinite(most)) return {};
  const Frame frame{0, static_cast<double>(used.back() - used.front() + 1), 0, round_up(most)};
  std::string out =
      begin_picture("position", "Mean tv by position",
                    "One bar for each range of positions in the sequence; each range is twice as long "
                    "as the one before.");
  for (const double share : {0.0, 0.5, 1.0})
    out += y_tick(frame, share * frame.high, figure_text(share * frame.high));
  for (const std::size_t i : used) {
    const auto at = static_cast<double>(i - used.front());
    const double mean = buckets[i].tv / static_cast<double>(buckets[i].rows);
    const double y = frame.y(mean), width = frame.x(at + 1) - frame.x(at);
    out += fmt::format(
        R"(<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>from position {}: mean tv {}, {}</title></rect>)",
        frame.x(at) + width * 0.08, y, width * 0.84, kHeight - kBottom - y, gpu::first_position(i),
        figure_text(mean), counted(buckets[i].rows, "row"));
    out += text_at(frame.x(at) + width / 2, kHeight - kBottom + 22, "middle",
                   std::to_string(gpu::first_position(i)));
  }
  out += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "first position of the range");
  return "<figure>" + out + "</svg><figcaption>Mean tv by position in the sequence.</figcaption></figure>\n";
}

}  // namespace driftgate::drift
