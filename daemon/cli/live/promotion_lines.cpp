#include "daemon/cli/live/promotion_lines.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/cli/live/layout.hpp"
#include "daemon/cli/live/text.hpp"

namespace driftgate::cli::live {
namespace {

constexpr std::size_t kLabel = 9;         // columns of the words at the left
constexpr std::size_t kMostBar = 40;      // columns of the share's bar
constexpr std::size_t kLevelBar = 8;      // columns of an e-value's bar
constexpr std::size_t kWordWidth = 12;    // of "inconclusive"
constexpr std::size_t kShortDigest = 19;  // "sha256:" and 12 digits
constexpr std::size_t kWide = 120;

std::size_t room_of(const Shape& shape) {
  return shape.columns > kLabel + 1 ? shape.columns - kLabel : 2;
}

Line labelled(const char* label, Line rest) {
  rest.insert(rest.begin(), {pad(label, kLabel), Style::faint});
  return rest;
}

/// Lines of a sentence behind a label.
void add_sentence(const char* label, const std::string& text, std::size_t most, Style style,
                  const Shape& shape, std::vector<Line>& out) {
  for (std::string& part : wrap(text, room_of(shape), most)) {
    out.push_back(labelled(label, {{std::move(part), style}}));
    label = "";
  }
}

std::string with_kernel(const std::string& engine, const std::string& kernel) {
  const std::string name = engine.empty() ? "?" : engine;
  return kernel.empty() ? name : fmt::format("{} ({})", name, kernel);
}

/// One after another with three columns between, on as many lines as that takes.
std::vector<Line> flow(const std::vector<Line>& parts, std::size_t columns) {
  std::vector<Line> lines;
  std::size_t used = 0;
  for (const Line& part : parts) {
    const std::size_t width = width_of(part);
    if (width == 0) continue;
    if (lines.empty() || used + 3 + width > columns) {
      lines.emplace_back();
      used = 0;
    } else {
      lines.back().push_back({"   ", Style::plain});
      used += 3;
    }
    lines.back().insert(lines.back().end(), part.begin(), part.end());
    used += width;
  }
  return lines;
}

Block header(const PromotionPicture& picture, const Shape& shape, std::int64_t now_us) {
  const std::int64_t end = picture.ended() ? picture.ended_us : now_us;
  std::string standing = state_words(picture.state);
  if (!picture.stage.empty()) standing += " in " + picture.stage;
  const std::string lasted = picture.created_us > 0 ? duration_text(end - picture.created_us) : "";
  const std::string digest =
      shape.columns >= kWide ? picture.contract : picture.contract.substr(0, kShortDigest);
  const std::string contract = picture.contract_name.empty() && digest.empty()
                                   ? ""
                                   : fmt::format("contract {} {}", picture.contract_name, digest);
  Block block{.rank = 0, .least = 3};
  block.lines = flow({{{picture.model, Style::strong}},
                      {{with_kernel(picture.incumbent, picture.incumbent_kernel)},
                       {" → ", Style::faint},
                       {with_kernel(picture.candidate, picture.candidate_kernel), Style::strong}}},
                     shape.columns);
  for (Line& line :
       flow({{{standing, style_of_state(picture.state)}},
             {{picture.id, Style::plain}},
             {{lasted.empty() ? "" : (picture.ended() ? "took " : "for ") + lasted, Style::faint}}},
            shape.columns))
    block.lines.push_back(std::move(line));
  for (Line& line :
       flow({{{contract, Style::plain}},
             {{picture.requester.empty() ? "" : "asked for by " + picture.requester, Style::faint}},
             {{picture.traffic.empty() ? "" : "traffic " + state_words(picture.traffic), Style::faint}}},
            shape.columns))
    block.lines.push_back(std::move(line));
  return block;
}

const char* icon_of(const std::string& word) {
  if (word == "pass") return "✓";
  if (word == "violated" || word == "error") return "✗";
  if (word == "inconclusive") return "?";
  if (word == "waiting") return "‖";
  return word == "running" ? "▸" : "·";
}

Block chips(const PromotionPicture& picture, const Shape& shape) {
  std::vector<Line> parts;
  for (const StageChip& chip : picture.stages) {
    Line part{{fmt::format("{} {} {}", icon_of(chip.word), chip.name, chip.word), chip.style}};
    if (!chip.detail.empty()) part.push_back({" " + chip.detail, Style::plain});
    parts.push_back(std::move(part));
  }
  Block block{.rank = 2, .least = 4, .gap = true};
  block.lines = flow(parts, shape.columns);
  return block;
}

std::string planned_words(const Ramp& ramp) {
  std::string words;
  for (const std::int64_t share : ramp.planned_bp) words += (words.empty() ? "" : " → ") + share_words(share);
  return words;
}

Block ramp_block(const PromotionPicture& picture, const Shape& shape) {
  Block block{.rank = 1, .least = 1, .gap = true};
  if (!picture.ramp) return block;
  const Ramp& ramp = *picture.ramp;
  const std::size_t wide = std::clamp<std::size_t>(room_of(shape) / 3, 4, kMostBar);
  const std::string share = " " + share_words(ramp.share_bp);
  std::string step;
  if (ramp.steps > 0) step = fmt::format("   step {} of {}", ramp.step, ramp.steps);
  if (!ramp.phase.empty()) step += (step.empty() ? "   " : ", ") + ramp.phase;
  if (ramp.frozen) step += ", frozen: telemetry is old";
  block.lines.push_back(
      labelled("share", {{bar(static_cast<double>(ramp.share_bp) / 10'000, wide), Style::accent},
                         {share, Style::strong},
                         {step, ramp.frozen ? Style::warn : Style::plain}}));
  Line exposed{{fmt::format("{} requests of {} keys exposed", ramp.requests, ramp.keys)}};
  exposed.push_back(
      {fmt::format("; {} failed, {} of the incumbent's", ramp.failures, ramp.incumbent_failures),
       ramp.failures > 0 ? Style::warn : Style::plain});
  block.lines.push_back(labelled("", std::move(exposed)));
  const std::string planned = planned_words(ramp);
  if (!planned.empty()) block.lines.push_back(labelled("", {{planned, Style::faint}}));
  return block;
}

Block reasons(const PromotionPicture& picture, const News& news, const Shape& shape) {
  Block block{.rank = 1, .least = 3, .gap = true};
  const Style style = picture.ended() ? style_of_state(picture.state) : Style::plain;
  const char* label = "why";
  for (const std::string& wait : picture.waits) {
    add_sentence(label, wait, picture.ended() ? 6 : 3, style, shape, block.lines);
    label = "";
  }
  std::string next = picture.next;
  if (!news.remaining.empty() && !picture.ended()) next += (next.empty() ? "" : " ") + news.remaining;
  add_sentence("next", next, 2, Style::plain, shape, block.lines);
  return block;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// A command on one line, or on several that a shell takes as one; none when a word is wider than a line.
std::vector<std::string> broken(const std::vector<std::string>& words, std::size_t room) {
  std::vector<std::string> lines{""};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t tail = i + 1 < words.size() ? 2 : 0;  // " \"
    const std::size_t width = display_width(words[i]);
    if (width + tail > room) return {};
    if (!lines.back().empty() && display_width(lines.back()) + 1 + width + tail > room) {
      lines.back() += " \\";
      lines.push_back(words[i]);
    } else {
      lines.back() += (lines.back().empty() ? "" : " ") + words[i];
    }
  }
  return lines;
}

Block needs_block(const PromotionPicture& picture, const Shape& shape) {
  Block block{.rank = 1, .least = 8, .gap = true};
  const char* label = "needs";
  for (const Need& need : picture.needs) {
    add_sentence(label, need.text, 2, Style::warn, shape, block.lines);
    label = "";
    if (need.command.empty()) continue;
    // What is copied must be whole: commands stand at the left edge and are never cut.
    auto lines = broken(need.command, shape.columns);
    if (lines.empty()) lines = broken(need.brief, shape.columns);
    if (lines.empty()) lines = {joined(need.brief)};
    for (std::string& line : lines) block.lines.push_back({{std::move(line), Style::strong}});
  }
  return block;
}

/// The cells of a clause besides its name; those that a narrow screen leaves out come last.
struct ClauseCells {
  std::string name, figure, harm, proof;
};

std::string level_words(const char* what, const std::optional<double>& value,
                        const std::optional<double>& needed) {
  if (!value) return {};
  if (!needed) return fmt::format("{} {}", what, figure_text(*value));
  return fmt::format("{} {} of {}", what, figure_text(*value), figure_text(*needed));
}

ClauseCells cells_of(const ClauseFigure& clause) {
  ClauseCells cells;
  cells.name =
      clause.clause + (clause.slice.empty() ? "" : " on " + clause.slice) + (clause.soft ? " (soft)" : "");
  if (clause.estimate) cells.figure = figure_text(*clause.estimate);
  if (!clause.limit.empty()) cells.figure += (cells.figure.empty() ? "" : " ") + clause.limit;
  cells.harm = level_words("harm e", clause.harm, clause.harm_needed);
  cells.proof = level_words("proof e", clause.proof, clause.proof_needed);
  return cells;
}

/// The widths of the columns, of which those that do not fit are 0.
struct ClauseColumns {
  std::size_t name = 0, figure = 0, harm = 0, proof = 0, bar = 0;
};

ClauseColumns columns_for(const std::vector<ClauseFigure>& clauses, std::size_t room) {
  constexpr std::size_t kLeastName = 16;
  ClauseColumns columns;
  bool any_level = false;
  for (const ClauseFigure& clause : clauses) {
    const ClauseCells cells = cells_of(clause);
    columns.name = std::max(columns.name, display_width(cells.name));
    columns.figure = std::max(columns.figure, display_width(cells.figure));
    columns.harm = std::max(columns.harm, display_width(cells.harm));
    columns.proof = std::max(columns.proof, display_width(cells.proof));
    any_level = any_level || (clause.harm && clause.harm_needed);
  }
  std::size_t left = room > kWordWidth + 2 + kLeastName ? room - kWordWidth - 2 - kLeastName : 0;
  const auto keep = [&left](std::size_t& width) {
    if (width > 0 && width + 2 <= left) {
      left -= width + 2;
    } else {
      width = 0;
    }
  };
  keep(columns.figure);
  keep(columns.harm);
  if (any_level && columns.harm > 0) columns.bar = kLevelBar;
  keep(columns.bar);
  keep(columns.proof);
  columns.name = std::min(columns.name, kLeastName + left);
  return columns;
}

Line clause_line(const ClauseFigure& clause, const ClauseColumns& columns) {
  const ClauseCells cells = cells_of(clause);
  Line line{{pad(clause.word, kWordWidth) + "  ", style_of_word(clause.word)}};
  const bool has_figures = clause.estimate || clause.harm || clause.proof;
  line.push_back({pad(cells.name, columns.name), Style::plain});
  if (!has_figures) {
    line.push_back({"  " + clause.message, Style::faint});
    return line;
  }
  if (columns.figure > 0) line.push_back({"  " + pad(cells.figure, columns.figure), Style::plain});
  if (columns.harm > 0) line.push_back({"  " + pad(cells.harm, columns.harm), Style::plain});
  if (columns.bar > 0) {
    const double level = clause.harm && clause.harm_needed ? level_of(*clause.harm, *clause.harm_needed) : 0;
    line.push_back({"  " + bar(level, columns.bar), level >= 1    ? Style::bad
                                                    : level > 0.5 ? Style::warn
                                                                  : Style::faint});
  }
  if (columns.proof > 0) line.push_back({"  " + cells.proof, Style::plain});
  return line;
}

Block clause_block(const PromotionPicture& picture, const Shape& shape) {
  Block block{.rank = 3, .least = 4, .counts_rest = true, .gap = true};
  const ClauseColumns columns = columns_for(picture.clauses, room_of(shape));
  for (const ClauseFigure& clause : picture.clauses)
    block.lines.push_back(labelled(block.lines.empty() ? "clauses" : "", clause_line(clause, columns)));
  return block;
}

Block event_block(const News& news) {
  Block block{.rank = 4, .least = 3, .keeps_last = true, .gap = true};
  constexpr std::size_t kMostEvents = 8;
  const std::size_t from = news.events.size() > kMostEvents ? news.events.size() - kMostEvents : 0;
  for (std::size_t i = from; i < news.events.size(); ++i)
    block.lines.push_back({{news.events[i], Style::faint}});
  return block;
}

Block footer(const PromotionPicture& picture, const News& news, std::int64_t now_us) {
  Block block{.rank = 1, .least = 1, .gap = true};
  const std::string age = duration_text(now_us - news.last_message_us);
  if (!news.lost.empty()) {
    block.lines.push_back(
        {{fmt::format("! no answer from the daemon for {}, trying again: {}", age, news.lost), Style::bad}});
  } else if (!picture.ended()) {
    block.lines.push_back(
        {{fmt::format("last message {} ago   Ctrl-C leaves; the promotion goes on", age), Style::faint}});
  }
  return block;
}

}  // namespace

std::vector<Line> promotion_lines(const PromotionPicture& picture, const News& news, const Shape& shape,
                                  std::int64_t now_us) {
  return lay_out({header(picture, shape, now_us), chips(picture, shape), ramp_block(picture, shape),
                  reasons(picture, news, shape), needs_block(picture, shape), clause_block(picture, shape),
                  event_block(news), footer(picture, news, now_us)},
                 shape.rows);
}

}  // namespace driftgate::cli::live
