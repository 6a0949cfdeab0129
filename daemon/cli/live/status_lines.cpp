#include "daemon/cli/live/status_lines.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/promotion_picture.hpp"
#include "daemon/cli/live/text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;

enum class Group : std::uint8_t { needs_people, open, quiet };

/// What is shown of a model.
struct StatusRow {
  Group group = Group::quiet;
  std::string model, versions, standing, share, sentence;
  Style style = Style::plain;
};

std::string promotion_standing(const json& promotion) {
  const std::string stage = shown(promotion, "stage");
  return state_words(shown(promotion, "state")) + (stage.empty() ? "" : ", " + stage);
}

bool waits_for_people(const json& promotion) {
  const json needs = member_of(promotion, "needs");
  if (needs.is_array()) return !needs.empty();
  const std::string state = shown(promotion, "state");
  return state == "awaiting_approval" || state == "inconclusive" || state == "paused";
}

/// The sentence of an open promotion: what people can do, else why it stands and what comes next.
std::string promotion_sentence(const json& promotion) {
  std::string sentence = shown(promotion, "why");
  if (sentence.empty()) {
    const PromotionPicture picture = picture_of(promotion, nullptr);
    for (const std::string& wait : picture.waits) sentence += (sentence.empty() ? "" : " ") + wait;
  }
  const std::string next = shown(promotion, "next");
  return sentence + (sentence.empty() || next.empty() ? "" : " ") + next;
}

/// What is to be said of a model that has no open promotion.
std::string quiet_sentence(const json& item, std::int64_t now_us) {
  const json last = member_of(item, "last");
  if (last.is_object()) {
    const std::string why = shown(last, "why");
    return fmt::format("last {} {} ago{}{}", state_words(shown(last, "state")),
                       duration_text(now_us - base::integer_at(last, "ended_us")), why.empty() ? "" : ": ",
                       why);
  }
  const json schedules = member_of(item, "schedules");
  for (const json& schedule : schedules.is_array() ? schedules : json::array())
    if (const auto next = base::integer_at(schedule, "next_us");
        next > now_us && !is_true(schedule, "paused"))
      return fmt::format("next by schedule {} in {}", shown(schedule, "name"), duration_text(next - now_us));
  return {};
}

/// A schedule of the model that starts nothing any more, because who set it may no longer; "" without one.
std::string orphan_sentence(const json& item) {
  const json schedules = member_of(item, "schedules");
  for (const json& schedule : schedules.is_array() ? schedules : json::array()) {
    const json last = member_of(schedule, "last");
    if (is_true(schedule, "paused") || shown(last, "why") != "owner_revoked") continue;
    const std::string reason = shown(last, "reason");
    return fmt::format("schedule {} starts nothing: {}", shown(schedule, "name"),
                       reason.empty() ? "the token of who set it was revoked" : reason);
  }
  return {};
}

StatusRow row_of(const json& item, std::int64_t now_us) {
  StatusRow row;
  row.model = shown(item, "model");
  row.versions = shown(member_of(item, "incumbent"), "engine");
  const json promotion = member_of(item, "promotion"), hold = member_of(item, "hold"),
             guard = member_of(item, "guard");
  if (promotion.is_object()) {
    const json candidate = member_of(promotion, "candidate");
    const std::string engine = shown(candidate, "engine");
    row.versions += " → " + (engine.empty() ? shown(promotion, "engine") : engine);
    row.group = waits_for_people(promotion) ? Group::needs_people : Group::open;
    row.standing = promotion_standing(promotion);
    row.style = style_of_state(shown(promotion, "state"));
    const json canary = member_of(promotion, "canary");
    row.share = share_words(base::integer_at(promotion, "share_bp", base::integer_at(canary, "share_bp")));
    row.sentence = promotion_sentence(promotion);
  } else {
    row.standing = "serves";
    row.sentence = quiet_sentence(item, now_us);
    row.style = Style::faint;
  }
  if (const std::string orphan = orphan_sentence(item); !orphan.empty()) {
    row.group = Group::needs_people;
    row.sentence = orphan + (row.sentence.empty() ? "" : "; " + row.sentence);
  }
  const auto alarms = base::integer_at(guard, "alarms");
  if (is_true(guard, "armed") && alarms > 0) {
    row.group = Group::needs_people;
    row.style = Style::bad;
    row.sentence = fmt::format("the guard alarmed {} times. {}", alarms, row.sentence);
  }
  if (hold.is_object()) {
    row.group = Group::needs_people;
    row.style = Style::bad;
    if (!promotion.is_object()) row.standing = "on hold";
    row.sentence = "hold: " + shown(hold, "reason") + (row.sentence.empty() ? "" : "; " + row.sentence);
  }
  if (const json* agrees = base::member(item, "route_agrees"); agrees != nullptr && *agrees == false)
    row.sentence = "the route is not in force. " + row.sentence;
  return row;
}

struct StatusColumns {
  std::size_t model = 5, versions = 7, standing = 8, share = 5;
};

/// Widths of the columns: what they need, at most a part of the screen; a narrow one has no versions.
StatusColumns columns_of_rows(const std::vector<StatusRow>& rows, std::size_t columns) {
  constexpr std::size_t kMostStanding = 32, kNarrow = 60;
  StatusColumns widths;
  for (const StatusRow& row : rows) {
    widths.model = std::max(widths.model, display_width(row.model));
    widths.versions = std::max(widths.versions, display_width(row.versions));
    widths.standing = std::max(widths.standing, display_width(row.standing));
  }
  widths.model = std::min(widths.model, std::max<std::size_t>(8, columns / 4));
  widths.versions = columns < kNarrow ? 0 : std::min(widths.versions, std::max<std::size_t>(8, columns / 4));
  widths.standing = std::min({widths.standing, kMostStanding, std::max<std::size_t>(10, columns / 3)});
  return widths;
}

Line status_line(const StatusRow& row, const StatusColumns& widths) {
  const char* mark = row.group == Group::needs_people ? "! " : row.group == Group::open ? "▸ " : "  ";
  Line line{{mark, row.style},
            {pad(row.model, widths.model) + "  ", row.group == Group::quiet ? Style::plain : Style::strong}};
  if (widths.versions > 0) line.push_back({pad(row.versions, widths.versions) + "  ", Style::plain});
  line.push_back({pad(row.standing, widths.standing) + "  ", row.style});
  line.push_back({pad(row.share, widths.share) + "  ", Style::plain});
  line.push_back({row.sentence, Style::faint});
  return line;
}

/// A count as the daemon tells it, else as it is in the rows.
std::int64_t count_of(const json& answer, const char* name, std::ptrdiff_t otherwise) {
  const json counts = member_of(answer, "counts");
  return base::integer_at(counts, name, otherwise);
}

Line counts_line(const json& answer, const std::vector<StatusRow>& rows, const json& items) {
  const auto in = [&rows](Group group) { return std::ranges::count(rows, group, &StatusRow::group); };
  const auto held =
      std::ranges::count_if(items, [](const json& item) { return !member_of(item, "hold").is_null(); });
  const auto open =
      std::ranges::count_if(items, [](const json& item) { return !member_of(item, "promotion").is_null(); });
  const auto models = count_of(answer, "models", static_cast<std::ptrdiff_t>(rows.size()));
  Line line{{fmt::format("{} model{}: {} need people, {} open, {} on hold", models, models == 1 ? "" : "s",
                         count_of(answer, "need_people", in(Group::needs_people)),
                         count_of(answer, "open", open), count_of(answer, "holds", held)),
             Style::strong}};
  if (const auto alarms = count_of(answer, "alarms", 0); alarms > 0)
    line.push_back({fmt::format(", {} alarms", alarms), Style::bad});
  return line;
}

}  // namespace

std::vector<Line> status_lines(const json& answer, std::size_t columns, std::int64_t now_us) {
  json items = member_of(answer, "items");
  if (!items.is_array()) items = json::array();
  std::vector<StatusRow> rows;
  for (const json& item : items) rows.push_back(row_of(item, now_us));
  std::ranges::stable_sort(rows, {}, &StatusRow::group);
  const StatusColumns widths = columns_of_rows(rows, columns);
  std::vector<Line> lines{status_line({.group = Group::quiet,
                                       .model = "model",
                                       .versions = "serves",
                                       .standing = "standing",
                                       .share = "share",
                                       .sentence = "",
                                       .style = Style::faint},
                                      widths)};
  for (const StatusRow& row : rows) lines.push_back(status_line(row, widths));
  lines.push_back(counts_line(answer, rows, items));
  return lines;
}

}  // namespace driftgate::cli::live
