#include "daemon/cli/live/clause_figures.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/text.hpp"
#include "schema/json.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;

std::optional<double> maybe_number(const json& object, const char* member) {
  const json* found = base::member(object, member);
  if (found == nullptr) return std::nullopt;
  if (const auto number = schema::number_from_json(*found)) return number;
  const std::string word = found->is_string() ? found->get<std::string>() : "";
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::string limit_words(const json& clause) {
  const auto threshold = maybe_number(clause, "threshold");
  if (!threshold) return {};
  const std::string kind = shown(clause, "limit_kind");
  if (kind == "min") return "≥ " + figure_text(*threshold);
  if (kind.empty() || kind == "max") return "≤ " + figure_text(*threshold);
  return kind + " " + figure_text(*threshold);
}

/// A clause that is measured live, at its newest point.
ClauseFigure live_figure(const json& clause, bool running) {
  ClauseFigure figure;
  figure.clause = shown(clause, "clause");
  figure.slice = shown(clause, "slice");
  figure.soft = shown(clause, "severity") == "soft";
  figure.limit = limit_words(clause);
  figure.harm_needed = maybe_number(clause, "e_harm_needed");
  figure.proof_needed = maybe_number(clause, "e_proof_needed");
  const json points = member_of(clause, "points");
  const json newest = points.is_array() && !points.empty() ? json(points.back()) : json::object();
  figure.estimate = maybe_number(newest, "estimate");
  figure.harm = maybe_number(newest, "e_value");
  figure.proof = maybe_number(newest, "e_proof");
  figure.word = shown(newest, "verdict");
  // Undecided is where every clause begins; inconclusive is what a stage ends with that could not tell.
  if (figure.word.empty() || (running && figure.word == "inconclusive")) figure.word = "undecided";
  return figure;
}

/// Whether a series is of the run: the newest of its stage, by its number.
bool is_of(const json& series, const json& run) {
  return series.is_object() && shown(series, "stage") == shown(run, "stage") &&
         base::integer_at(series, "attempt", 1) == base::integer_at(run, "attempt", 1);
}

/// The newest run of each stage, in the order of the stages.
std::vector<const json*> newest_runs(const json& promotion) {
  std::vector<const json*> newest;
  const json* runs = base::member(promotion, "stages");
  if (runs == nullptr || !runs->is_array()) return newest;
  for (const json& run : *runs) {
    const auto same = std::ranges::find_if(newest, [&](const json* other) {
      return base::text_at(*other, "stage") == base::text_at(run, "stage");
    });
    if (same == newest.end()) {
      newest.push_back(&run);
    } else {
      *same = &run;
    }
  }
  return newest;
}

/// The clauses of a run that did not pass: into the figure of the same clause where there is one.
void add_open(const json& run, bool has_figures, std::vector<ClauseFigure>& figures) {
  const json summary = member_of(run, "summary");
  const json open = member_of(summary, "open");
  if (!open.is_array()) return;
  for (const json& item : open) {
    const std::string clause = shown(item, "clause"), slice = shown(item, "slice");
    const auto known_as = [&](bool any_verdict) {
      return std::ranges::find_if(figures, [&](const ClauseFigure& figure) {
        return has_figures && figure.clause == clause && figure.slice == slice &&
               (any_verdict || figure.word == shown(item, "verdict"));
      });
    };
    auto known = known_as(false);  // a clause with several limits has a figure for each
    if (known == figures.end()) known = known_as(true);
    if (known == figures.end()) known = figures.insert(figures.end(), ClauseFigure{});
    known->clause = clause;
    known->slice = slice;
    known->word = shown(item, "verdict");
    known->message = shown(item, "message");
    known->soft = known->soft || shown(item, "severity") == "soft";
  }
}

int rank_of(const ClauseFigure& figure) {
  const int soft = figure.soft ? 10 : 0;
  if (figure.word == "violated") return soft;
  if (figure.word == "error") return soft + 1;
  if (figure.word == "inconclusive") return soft + 2;
  return figure.word == "pass" ? 30 : 20;
}

/// How near a clause is to being found harmful, from 0 to 1.
double nearness_of(const ClauseFigure& figure) {
  return figure.harm && figure.harm_needed ? level_of(*figure.harm, *figure.harm_needed) : 0;
}

}  // namespace

std::vector<ClauseFigure> clause_figures(const json& promotion, const json& series) {
  std::vector<ClauseFigure> figures;
  for (const json* run : newest_runs(promotion)) {
    const bool has_figures = is_of(series, *run);
    if (has_figures) {
      const json clauses = member_of(series, "clauses");
      const bool running = base::text_at(*run, "state") == "running";
      for (const json& clause : clauses.is_array() ? clauses : json::array())
        figures.push_back(live_figure(clause, running));
    }
    add_open(*run, has_figures, figures);
  }
  std::ranges::stable_sort(figures, [](const ClauseFigure& one, const ClauseFigure& other) {
    return std::pair(rank_of(one), -nearness_of(one)) < std::pair(rank_of(other), -nearness_of(other));
  });
  return figures;
}

}  // namespace driftgate::cli::live
