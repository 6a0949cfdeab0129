#include "daemon/cli/live/watched.hpp"

#include <fmt/core.h>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/promotion_lines.hpp"
#include "daemon/cli/live/promotion_picture.hpp"
#include "daemon/cli/live/text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;

constexpr std::size_t kKeptEvents = 50;
constexpr std::size_t kDateWidth = 11;  // "2026-01-31 " before the time of day
constexpr std::int64_t kRateAfterUs = 3'000'000;

std::string time_of_day(std::int64_t time_us) {
  return format_time(time_us).substr(kDateWidth);
}

}  // namespace

Watched::Watched(json promotion, std::int64_t now_us) : last_message_us_(now_us) {
  take_promotion(std::move(promotion), now_us);
}

void Watched::take_promotion(json promotion, std::int64_t now_us) {
  promotion_ = std::move(promotion);
  const std::string stage = shown(promotion_, "stage");
  const json stages = member_of(promotion_, "stages");
  const json run = stages.is_array() && !stages.empty() ? json(stages.back()) : json::object();
  const json progress = member_of(run, "progress");
  const auto total = base::integer_at(progress, "total"), done = base::integer_at(progress, "done");
  const std::string unit = shown(progress, "unit");
  if (stage != job_.stage || unit != job_.unit || total != job_.total || done < job_.done)
    job_ = {.stage = stage, .unit = unit, .total = total, .first_done = done, .first_us = now_us};
  job_.done = done;
  job_.newest_us = now_us;
}

bool Watched::take(const net::SseEvent& event, std::int64_t now_us) {
  json data = json::parse(event.data, nullptr, false);
  if (data.is_discarded()) return true;
  if (event.name == "end" || event.name == "progress") {
    take_promotion(std::move(data), now_us);
  } else {
    note(entry_line(data).substr(kDateWidth));
  }
  return event.name != "end" && shown(promotion_, "state") != "inconclusive";
}

void Watched::heard(std::int64_t now_us) {
  if (!lost_.empty()) {
    note(fmt::format("{}  the daemon answers again after {}", time_of_day(now_us),
                     duration_text(now_us - last_message_us_)));
    lost_.clear();
  }
  last_message_us_ = now_us;
}

void Watched::lost(const std::string& why) {
  lost_ = why.empty() ? "the connection was closed" : why;
}

void Watched::note(std::string line) {
  events_.push_back(std::move(line));
  if (events_.size() > kKeptEvents) events_.pop_front();
}

std::string Watched::remaining(std::int64_t now_us) const {
  const std::int64_t took = job_.newest_us - job_.first_us, made = job_.done - job_.first_done;
  if (job_.total <= 0 || made <= 0 || took < kRateAfterUs || job_.done >= job_.total) return {};
  const double rate = static_cast<double>(made) / static_cast<double>(took);
  const double left =
      static_cast<double>(job_.total - job_.done) / rate - static_cast<double>(now_us - job_.newest_us);
  return left > 0 ? fmt::format("About {} more at this rate.", duration_text(static_cast<std::int64_t>(left)))
                  : "";
}

std::vector<Line> Watched::lines(const Shape& shape, std::int64_t now_us) const {
  const News news{.events = {events_.begin(), events_.end()},
                  .remaining = remaining(now_us),
                  .last_message_us = last_message_us_,
                  .lost = lost_};
  return promotion_lines(picture_of(promotion_, series_), news, shape, now_us);
}

}  // namespace driftgate::cli::live
