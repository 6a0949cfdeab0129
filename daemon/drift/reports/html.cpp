#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "daemon/drift/reports/findings.hpp"
#include "daemon/drift/reports/html_style.hpp"
#include "daemon/drift/reports/plots.hpp"
#include "daemon/drift/reports/reports.hpp"
#include "daemon/drift/reports/words.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::drift {

namespace {

using schema::Metric;
using schema::Verdict;
using Cells = std::vector<std::string>;  // escaped

constexpr std::size_t kLinesDrawn = 40, kCardsShown = 40, kRowsListed = 50, kRemarksShown = 100;
constexpr double kNormal95 = 1.959963984540054;

std::string isolated(std::string_view text) {
  return "<bdi>" + markup_name(text) + "</bdi>";
}

/// The attributes of a sequence; lines may break between them.
std::string attributes(const schema::SliceWhere& where) {
  std::string out;
  for (const auto& [name, value] : where)
    out += (out.empty() ? "" : ";<wbr>") + markup(visible(name + "=" + value, kMaxNameBytes));
  return out.empty() ? out : "<bdi>" + out + "</bdi>";
}

std::string tone_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "good";
    case Verdict::violated:
    case Verdict::error:
      return "bad";
    case Verdict::inconclusive:
      break;
  }
  return "warn";
}

std::string chip(Verdict verdict) {
  return fmt::format(R"(<span class="chip {}">{}</span>)", tone_of(verdict), upper_text(verdict));
}

/// `numbers`: from which column on cells are numbers.
std::string table(std::string_view label, const Cells& head, const std::vector<Cells>& rows,
                  std::size_t numbers) {
  std::string out = fmt::format(
      R"(<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>)", label);
  for (std::size_t i = 0; i < head.size(); ++i)
    out += fmt::format(R"(<th scope="col"{}>{}</th>)", i >= numbers ? " class=\"n\"" : "", head[i]);
  out += "</tr></thead><tbody>";
  for (const Cells& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 0) {
        out += "<th scope=\"row\">" + row[i] + "</th>";
      } else {
        out += fmt::format("<td{}>{}</td>", i >= numbers ? " class=\"n\"" : "", row[i]);
      }
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string head_of_page(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; base-uri "
      "'none'; "
      "form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{} – {} against {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      kPageStyleDigest, report.has_contract ? upper_text(report.verdict) : "Drift",
      markup(kernel_text(t.inf)), markup(kernel_text(t.train)), kPageStyle);
}

std::string heading(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  std::string out = "<header>\n<p class=\"muted\">driftgate</p>\n<h1><bdi>" + markup(kernel_text(t.inf)) +
                    "</bdi> against <bdi>" + markup(kernel_text(t.train)) + "</bdi></h1>\n<p>";
  if (report.has_contract)
    out += chip(report.verdict) + " contract " + isolated(report.contract_name) + " · ";
  out +=
      fmt::format("{} of {} · {} · {} · measured on <bdi>{}</bdi></p>\n</header>\n", counted(t.rows, "row"),
                  counted(t.sequences.size(), "sequence"), mean_text(report.corpus, Metric::tv),
                  mean_text(report.corpus, Metric::kl_inf_train), markup_name(report.device));
  if (t.nonfinite_rows > 0) {
    out += fmt::format(
        "<p class=\"card bad\"><strong>{} of {} rows have NaN or infinite logits.</strong> Means over "
        "them do not exist.{}</p>\n",
        stages::count_text(t.nonfinite_rows), stages::count_text(t.rows),
        t.worst_rows.empty()
            ? ""
            : " The first is <bdi>" + markup(row_text(report, t.worst_rows.front())) + "</bdi>.");
  }
  return out;
}

std::string details(const std::vector<Advice>& advice) {
  if (advice.empty()) return {};
  std::string out = "<dl>";
  for (const Advice& item : advice)
    out += "<dt>" + item.label + "</dt><dd><bdi>" + markup(item.text) + "</bdi></dd>";
  return out + "</dl>\n";
}

std::string card(const DriftReport& report, const Finding& finding) {
  const schema::ClauseVerdict& lead = *finding.verdicts.front();
  const Verdict shown = finding.blocks() ? finding.verdict : finding.gravest;
  return fmt::format("<section class=\"card {}\">\n<h3>{} {}{}{}</h3>\n<p><bdi>{}</bdi></p>\n{}</section>\n",
                     finding.blocks() ? tone_of(shown) : "quiet", chip(shown), isolated(lead.clause),
                     lead.where.empty() ? "" : " on <bdi>" + markup(place_text(lead.where)) + "</bdi>",
                     finding.blocks() ? "" : " <small>does not block</small>", markup_name(lead.message),
                     details(places_of(report, finding)));
}

std::string failures(const DriftReport& report, const std::vector<Finding>& findings) {
  std::string out;
  std::size_t shown = 0;
  for (const Finding& finding : findings) {
    if (finding.gravest == Verdict::pass || shown++ >= kCardsShown) continue;
    out += card(report, finding);
  }
  if (out.empty()) return {};
  if (shown > kCardsShown)
    out += fmt::format("<p>{} more are in the table of clauses{}.</p>\n", shown - kCardsShown,
                       shown > kRowsListed ? " and the JSON" : "");
  return "<h2>What does not pass</h2>\n" + out;
}

std::string diagnosis(const DriftReport& report) {
  return "<h2>Where to look</h2>\n<section class=\"card\">\n" + details(diagnosis_of(report)) +
         "</section>\n";
}

/// The figures of clauses as multiples of their limits, so that one scale serves all.
std::string limits_plot(const std::vector<Finding>& findings) {
  std::vector<ForestRow> rows;
  for (const Finding& finding : findings) {
    for (const schema::ClauseVerdict* v : finding.verdicts) {
      const std::optional<double> limit = limit_of(*v);
      const bool drawable = v->estimate && limit && *limit > 0 && std::isfinite(*v->estimate) &&
                            (v->lower || v->upper) && v->limit_kind == "max";
      if (!drawable || rows.size() == kLinesDrawn) continue;
      ForestRow row{v->clause, place_text(v->where), tone_of(v->verdict), *v->estimate / *limit, {}, {}, 1.0};
      if (v->lower) row.lower = *v->lower / *limit;
      if (v->upper) row.upper = *v->upper / *limit;
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return {};
  return "<h2>Clauses as multiples of their limit</h2>\n" +
         forest_plot("Clauses as multiples of their limit", "clause", rows);
}

/// The mean over sequences of their mean tv, with the normal interval of independent sequences.
ForestRow slice_row(const DriftReport& report, const schema::SliceWhere& where, std::string detail) {
  std::vector<stages::ClusterSum> clusters;
  const gpu::MeasurementTable& t = *report.table;
  for (std::size_t i = 0; i < t.sequences.size(); ++i) {
    const gpu::Moments& tv = t.sequences[i].metrics[static_cast<std::size_t>(Metric::tv)];
    const bool inside =
        where.empty() || (i < t.infos.size() && std::ranges::all_of(where, [&](const auto& attribute) {
                            const auto found = t.infos[i].slices.find(attribute.first);
                            return found != t.infos[i].slices.end() && found->second == attribute.second;
                          }));
    if (inside && tv.n > 0) clusters.push_back({static_cast<double>(tv.n), tv.sum});
  }
  stages::count_once(clusters);
  ForestRow row{place_text(where), std::move(detail), "quiet", stages::ratio_mean(clusters), {}, {}, {}};
  const double error = kNormal95 * std::sqrt(stages::cluster_variance(clusters, row.estimate));
  if (std::isfinite(error)) {
    row.lower = std::max(0.0, row.estimate - error);
    row.upper = row.estimate + error;
  }
  return row;
}

std::string slices_plot(const DriftReport& report) {
  std::vector<ForestRow> rows;
  const auto add = [&](const gpu::Summary& s) {
    auto row = slice_row(report, s.where, counted(s.sequences, "sequence") + ", " + counted(s.rows, "row"));
    if (std::isfinite(row.estimate)) rows.push_back(std::move(row));
  };
  add(report.corpus);
  if (!rows.empty()) rows.front().tone = "good";
  const double corpus = rows.empty() ? 0 : rows.front().upper.value_or(rows.front().estimate);
  for (const DriftSlice* slice : worst_slices(report)) {
    if (rows.size() == kLinesDrawn) break;
    const std::size_t before = rows.size();
    add(slice->summary);
    if (rows.size() > before && rows.back().lower && *rows.back().lower > corpus) rows.back().tone = "bad";
  }
  if (rows.size() < 2) return {};
  return fmt::format(
             "<h2>Slices ({} of {})</h2>\n<p class=\"muted\">Mean tv of sequences, the largest mean "
             "kl_inf_train first, with "
             "approximate 95% intervals of independent sequences. Red: the whole interval is above the "
             "corpus's. These intervals decide nothing; clauses have limits of their own.</p>\n",
             rows.size() - 1, report.slices.size()) +
         forest_plot("Mean tv by slice", "slice", rows);
}

std::string clauses(const DriftReport& report, const std::vector<Finding>& findings) {
  std::vector<Cells> rows;
  for (const schema::ClauseVerdict* v : listed_verdicts(findings, kRowsListed)) {
    rows.push_back({isolated(v->clause),
                    chip(v->verdict) + (v->severity == schema::Severity::soft ? " soft" : ""),
                    "<bdi>" + markup(place_text(v->where)) + "</bdi>", markup_name(v->method),
                    figure_text(v->estimate), figure_text(v->lower) + " to " + figure_text(v->upper),
                    figure_text(limit_of(*v)), stages::count_text(v->clusters)});
  }
  if (rows.empty()) return {};
  std::string out = "<h2>Clauses</h2>\n" + table("Clauses",
                                                 {"clause", "verdict", "slice", "method", "figure",
                                                  "interval", "limit", "independent units"},
                                                 rows, 4);
  if (const std::size_t all = count_verdicts(findings); all > rows.size())
    out += fmt::format("<p>{} more are in the JSON.</p>\n", all - rows.size());
  if (!report.not_evaluated.empty()) {
    out += "<p>Not evaluated, since captures cannot decide them:";
    for (const std::string& clause : report.not_evaluated) out += " " + isolated(clause);
    out += "</p>\n";
  }
  return out;
}

std::string worst_rows(const DriftReport& report) {
  std::vector<Cells> rows;
  const gpu::MeasurementTable& t = *report.table;
  for (const gpu::WorstRow& row : t.worst_rows) {
    if (rows.size() == kRowsListed) break;
    const auto at = [&](Metric metric) { return figure_text(row.values[static_cast<std::size_t>(metric)]); };
    const gpu::SequenceInfo* info = info_of(t, row.sequence);
    rows.push_back({std::to_string(row.row), info == nullptr ? "" : isolated(info->id),
                    info == nullptr ? "" : attributes(info->slices), std::to_string(row.sequence),
                    std::to_string(row.position), t.has_tokens ? std::to_string(row.token) : "–",
                    at(Metric::kl_inf_train), figure_text(row.kl_before), figure_text(row.kl_after),
                    at(Metric::tv), at(Metric::logit_span), at(Metric::entropy_train)});
  }
  if (rows.empty()) return {};
  return "<h2>Worst rows</h2>\n" +
         table("Worst rows",
               {"row", "id", "slices", "sequence", "position", "token", "kl_inf_train", "before", "after",
                "tv", "logit_span", "entropy_train"},
               rows, 3);
}

std::string metrics(const DriftReport& report) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
    const gpu::MetricSummary& m = report.corpus.metrics[i];
    if (m.n == 0) continue;
    rows.push_back({std::string(schema::to_string(static_cast<Metric>(i))), figure_text(m.mean),
                    figure_text(m.sequence_mean), figure_text(m.min), figure_text(m.p50), figure_text(m.p90),
                    figure_text(m.p99), figure_text(m.p99_9), figure_text(m.max)});
  }
  if (rows.empty()) return {};
  return "<h2>Metrics of all rows</h2>\n" +
         table("Metrics of all rows",
               {"metric", "mean", "sequence_mean", "min", "p50", "p90", "p99", "p99_9", "max"}, rows, 1);
}

std::string bounds(const DriftReport& report) {
  if (report.bounds.empty()) return {};
  const stages::BoundChain& chain = report.bounds.front();
  if (!chain.refused.empty())
    return "<h2>Bounds on the corpus</h2>\n<p>No bound certificate: " + isolated(chain.refused) + "</p>\n";
  std::vector<Cells> rows;
  for (const stages::BoundLink& link : chain.links) {
    if (!link.value) continue;
    rows.push_back({isolated(link.name), std::string(stages::to_string(link.status)),
                    isolated(link.assumption), figure_text(link.value), figure_text(link.upper)});
  }
  if (rows.empty()) return {};
  return "<h2>Bounds on the corpus</h2>\n" +
         table("Bounds on the corpus", {"bound", "assumption", "it rests on", "value", "upper limit"}, rows,
               3);
}

std::string remarks(const DriftReport& report) {
  std::vector<std::string> items;
  if (!report.table->partial.mode.empty()) items.emplace_back(kPartialNote);
  for (const std::string& warning : report.warnings) items.push_back("Warning: " + warning);
  for (const gpu::CaptureFinding& finding : report.table->partial.findings)
    items.push_back(finding.name + ": " + finding.text);
  items.insert(items.end(), report.notes.begin(), report.notes.end());
  if (items.empty()) return {};
  std::string out = "<h2>Warnings and notes</h2>\n<ul>";
  for (std::size_t i = 0; i < std::min(items.size(), kRemarksShown); ++i)
    out += "<li>" + isolated(items[i]) + "</li>";
  return out + "</ul>\n";
}

std::string identity(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  const auto pair = [](const char* name, const std::string& train, const std::string& inf) {
    return Cells{name, train.empty() ? "not stated" : isolated(train),
                 inf.empty() ? "not stated" : isolated(inf)};
  };
  std::string out = "<h2>What was measured</h2>\n" +
                    table("What was measured", {"", "train", "inf"},
                          {pair("kernel", t.train.kernel, t.inf.kernel),
                           pair("checkpoint", t.train.checkpoint_digest, t.inf.checkpoint_digest),
                           pair("corpus", t.train.corpus_digest, t.inf.corpus_digest),
                           pair("tokens from", t.train.token_source, t.inf.token_source),
                           pair("sampling filter", t.train.sampling_filter, t.inf.sampling_filter)},
                          3);
  if (report.has_contract)
    out += "<p class=\"muted\">Contract " + isolated(report.contract_digest) + "</p>\n";
  return out;
}

}  // namespace

std::string report_html(const DriftReport& report) {
  const std::vector<Finding> findings = findings_of(report);
  std::string pictures = tail_plot(report) + position_plot(report);
  if (!pictures.empty())
    pictures = "<h2>Where the drift is</h2>\n<div class=\"pictures\">\n" + pictures + "</div>\n";
  return head_of_page(report) + heading(report) + failures(report, findings) + diagnosis(report) +
         limits_plot(findings) + slices_plot(report) + pictures + worst_rows(report) +
         clauses(report, findings) + metrics(report) + bounds(report) + remarks(report) + identity(report) +
         "</main>\n</body>\n</html>\n";
}

}  // namespace driftgate::drift
