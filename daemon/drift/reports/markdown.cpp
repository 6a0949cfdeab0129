#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "daemon/drift/reports/findings.hpp"
#include "daemon/drift/reports/reports.hpp"
#include "daemon/drift/reports/words.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::drift {

namespace {

using schema::Metric;
using schema::Verdict;
using Cells = std::vector<std::string>;

constexpr std::size_t kFailuresShown = 8, kClausesShown = 60, kSlicesShown = 20, kRowsShown = 15;
constexpr std::size_t kFailuresBytes = kMaxMarkdownBytes / 4;  // room for the last one and for tables

/// A sentence: no markup, no link, and nobody is mentioned by a name in it.
std::string prose(std::string_view text) {
  constexpr std::string_view kJoiner = "\u2060";  // keeps @name, #1 and :// from becoming links
  const std::string shown = visible(text, 2 * kMaxSentenceBytes);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("|*_`[]\\#~>!@$").find(c) != std::string_view::npos) out += '\\';
      out += c;
      const bool joins = c == '@' || c == '#' || (c == ':' && shown.compare(i, 3, "://") == 0) ||
                         (c == '.' && i >= 3 && shown.compare(i - 3, 3, "www") == 0);
      if (joins) out += kJoiner;
    }
  }
  return out;
}

/// A name: a span of code, in which GitHub looks for nothing. In a table a pipe would end the cell even
/// there.
std::string code(std::string_view name, bool in_table = false) {
  std::string shown = visible(name, kMaxNameBytes);
  std::size_t longest = 0, run = 0;
  std::string text;
  for (const char c : shown) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|' && in_table) {
      text += "⟨U+007C⟩";
    } else {
      text += c;
    }
  }
  if (text.empty()) return "(none)";
  const std::string fence(longest + 1, '`');
  const bool padded = text.front() == '`' || text.back() == '`' || text.front() == ' ';
  return fence + (padded ? " " : "") + text + (padded ? " " : "") + fence;
}

std::string table(const Cells& head, const std::vector<Cells>& rows) {
  const auto line = [](const Cells& cells) {
    std::string out = "|";
    for (const std::string& cell : cells) out += " " + cell + " |";
    return out + "\n";
  };
  std::string out = line(head) + "|";
  for (std::size_t i = 0; i < head.size(); ++i) out += " --- |";
  out += "\n";
  for (const Cells& row : rows) out += line(row);
  return out;
}

std::string folded(const std::string& title, const std::string& body) {
  return "\n<details><summary>" + title + "</summary>\n\n" + body + "\n</details>\n";
}

std::string heading(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  std::string out = "<!-- driftgate -->\n";
  out += report.has_contract ? "## driftgate: " + upper_text(report.verdict) + "\n\n"
                             : std::string("## driftgate: drift without a contract\n\n");
  out += fmt::format("{} against {}", code(t.inf.kernel), code(t.train.kernel));
  if (report.has_contract) out += " under contract " + code(report.contract_name);
  return out + fmt::format(": {} of {}; {}, {}.\n", counted(t.rows, "row"),
                           counted(t.sequences.size(), "sequence"),
                           prose(mean_text(report.corpus, Metric::tv)),
                           prose(mean_text(report.corpus, Metric::kl_inf_train)));
}

std::string nonfinite(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  if (t.nonfinite_rows == 0) return {};
  return fmt::format(
      "\n**{} of {} rows have NaN or infinite logits{}.** Means over them do not exist.\n",
      stages::count_text(t.nonfinite_rows), stages::count_text(t.rows),
      t.worst_rows.empty() ? "" : "; the first is " + prose(row_text(report, t.worst_rows.front())));
}

std::string lines_of(const std::vector<Advice>& advice, const char* indent) {
  std::string out;
  for (const Advice& item : advice) out += indent + ("- " + item.label) + ": " + prose(item.text) + "\n";
  return out;
}

/// The clauses that do not pass, the gravest first, with the places of those that block.
std::string failures(const DriftReport& report, const std::vector<Finding>& findings, bool before_table) {
  std::string out;
  std::size_t shown = 0, all = 0;
  for (const Finding& finding : findings) {
    if (finding.gravest == Verdict::pass) continue;
    ++all;
    if (shown == kFailuresShown || out.size() > kFailuresBytes) continue;
    const schema::ClauseVerdict& lead = *finding.verdicts.front();
    out += fmt::format(
        "- **{}**{} {}{}: {}\n", upper_text(finding.blocks() ? finding.verdict : finding.gravest),
        finding.blocks() ? "" : " (does not block)", code(lead.clause),
        lead.where.empty() ? "" : " on " + code(schema::slice_text(lead.where)), prose(lead.message));
    if (finding.blocks() || shown == 0) out += lines_of(places_of(report, finding), "  ");
    ++shown;
  }
  if (out.empty()) return {};
  const std::string_view place = !before_table         ? "the JSON"
                                 : all > kClausesShown ? "the table below and the JSON"
                                                       : "the table below";
  if (all > shown) out += fmt::format("- {} more are in {}\n", all - shown, place);
  return "\n### What does not pass\n\n" + out + "\n### Where to look\n\n" +
         lines_of(diagnosis_of(report), "");
}

std::string without_contract(const DriftReport& report) {
  return "\n### Where to look\n\n" + lines_of(diagnosis_of(report), "");
}

std::string clauses(const DriftReport& report, const std::vector<Finding>& findings) {
  std::vector<Cells> rows;
  const std::size_t all = count_verdicts(findings);
  for (const schema::ClauseVerdict* v : listed_verdicts(findings, kClausesShown)) {
    rows.push_back({upper_text(v->verdict) + (v->severity == schema::Severity::soft ? " (soft)" : ""),
                    code(v->clause, true),
                    v->where.empty() ? "corpus" : code(schema::slice_text(v->where), true),
                    figure_text(v->estimate), figure_text(v->lower) + " to " + figure_text(v->upper),
                    figure_text(limit_of(*v)), stages::count_text(v->clusters)});
  }
  if (rows.empty()) return {};
  std::string body =
      table({"verdict", "clause", "slice", "figure", "interval", "limit", "independent units"}, rows);
  if (all > rows.size()) body += fmt::format("\n{} more are in the JSON.\n", all - rows.size());
  if (!report.not_evaluated.empty()) {
    body += "\nNot evaluated, since captures cannot decide them:";
    for (std::size_t i = 0; i < std::min(report.not_evaluated.size(), kClausesShown); ++i)
      body += " " + code(report.not_evaluated[i]);
    body += "\n";
  }
  return folded(fmt::format("Clauses ({})", all), body);
}

std::string slices(const DriftReport& report) {
  std::vector<Cells> rows;
  for (const DriftSlice* slice : worst_slices(report)) {
    if (rows.size() == kSlicesShown) break;
    const gpu::Summary& s = slice->summary;
    rows.push_back({code(schema::slice_text(s.where), true), std::string(schema::to_string(slice->role)),
                    stages::count_text(s.sequences), stages::count_text(s.rows),
                    figure_text(least_mean(s, Metric::kl_inf_train)), figure_text(least_mean(s, Metric::tv)),
                    figure_text(least_mean(s, Metric::top1_flip))});
  }
  if (rows.empty()) return {};
  return folded(
      fmt::format("Slices, largest mean kl_inf_train first ({} of {})", rows.size(), report.slices.size()),
      table({"slice", "role", "sequences", "rows", "kl\\_inf\\_train", "tv", "top1\\_flip"}, rows));
}

std::string worst_rows(const DriftReport& report) {
  std::vector<Cells> rows;
  const gpu::MeasurementTable& t = *report.table;
  for (const gpu::WorstRow& row : t.worst_rows) {
    if (rows.size() == kRowsShown) break;
    const auto at = [&](Metric metric) { return figure_text(row.values[static_cast<std::size_t>(metric)]); };
    const gpu::SequenceInfo* info = info_of(t, row.sequence);
    rows.push_back(
        {std::to_string(row.row), std::to_string(row.sequence),
         info == nullptr || info->id.empty() ? "" : code(info->id, true),
         info == nullptr || info->slices.empty() ? "" : code(schema::slice_text(info->slices), true),
         std::to_string(row.position), t.has_tokens ? std::to_string(row.token) : "–",
         at(Metric::kl_inf_train), at(Metric::tv), at(Metric::logit_span)});
  }
  if (rows.empty()) return {};
  return folded(fmt::format("Worst rows ({} of {} kept)", rows.size(), t.worst_rows.size()),
                table({"row", "sequence", "id", "slices", "position", "token", "kl\\_inf\\_train", "tv",
                       "logit\\_span"},
                      rows));
}

std::string metrics(const DriftReport& report) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
    const gpu::MetricSummary& m = report.corpus.metrics[i];
    if (m.n == 0) continue;
    rows.push_back({code(schema::to_string(static_cast<Metric>(i))), figure_text(m.mean),
                    figure_text(m.sequence_mean), figure_text(m.p50), figure_text(m.p99),
                    figure_text(m.max)});
  }
  if (rows.empty()) return {};
  return folded("Metrics", table({"metric", "mean", "sequence\\_mean", "p50", "p99", "max"}, rows));
}

std::string remarks(const DriftReport& report) {
  std::string out;
  if (!report.table->partial.mode.empty()) out += "- " + prose(kPartialNote) + "\n";
  for (const std::string& warning : report.warnings) out += "- warning: " + prose(warning) + "\n";
  for (const gpu::CaptureFinding& finding : report.table->partial.findings)
    out += fmt::format("- {}: {}\n", code(finding.name), prose(finding.text));
  for (const std::string& note : report.notes) out += "- " + prose(note) + "\n";
  return out.empty() ? out : folded("Warnings and notes", out);
}

}  // namespace

std::string report_markdown(const DriftReport& report) {
  const std::vector<Finding> findings = findings_of(report);
  constexpr std::string_view kLeftOut =
      "\nSome tables were left out, since a comment is limited; the JSON has them.\n";
  const std::string head = heading(report), rows = nonfinite(report), listed = clauses(report, findings);
  std::string first = report.has_contract ? failures(report, findings, true) : without_contract(report);
  const std::size_t size = head.size() + rows.size() + first.size() + listed.size() + kLeftOut.size();
  if (report.has_contract && size > kMaxMarkdownBytes) first = failures(report, findings, false);
  const std::vector<std::string> sections{
      rows, first, listed, slices(report), worst_rows(report), metrics(report), remarks(report)};
  std::string out = head;
  bool left_out = false;
  for (const std::string& section : sections) {
    const bool fits = out.size() + section.size() + kLeftOut.size() <= kMaxMarkdownBytes;
    if (fits) out += section;
    left_out = left_out || !fits;
  }
  if (left_out) out += kLeftOut;
  return out;
}

}  // namespace driftgate::drift
