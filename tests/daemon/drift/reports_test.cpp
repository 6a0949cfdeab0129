#include "daemon/drift/reports/reports.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "daemon/base/base64.hpp"
#include "daemon/drift/reports/findings.hpp"
#include "daemon/drift/reports/html_style.hpp"
#include "daemon/drift/reports/words.hpp"
#include "schema/sha256.hpp"

using namespace driftgate;
using drift::DriftReport;
using schema::Verdict;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::string kMarkup = "<script>alert(1)</script>";
const std::string kReversed = "\u202Eabc\u2066";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// 40 sequences of one row each, every fourth of language `de` with ten times the tv.
struct Made {
  gpu::MeasurementTable table;
  DriftReport report;

  explicit Made(const std::string& bad = "de") {
    table.train.kernel = "k-train";
    table.inf.kernel = "k-inf";
    table.rows = 40;
    table.slices.emplace_back();
    table.slices.emplace_back().where = {{"language", bad}};
    for (std::int64_t i = 0; i < 40; ++i) add(i, i % 4 == 0 ? bad : "en");
    report.table = &table;
    report.device = "cpu";
    report.corpus = gpu::summarise(table);
    report.slices.push_back({gpu::summarise(table, {{"language", bad}}), schema::SliceRole::monitored});
    report.diagnosis.summary = "No known pattern.";
  }

  void add(std::int64_t sequence, const std::string& language) {
    const double drift = language == "en" ? 0.01 : 0.1;
    gpu::SequenceRow row;
    row.sequence = sequence;
    row.rows = 1;
    for (const schema::Metric metric : {schema::Metric::tv, schema::Metric::kl_inf_train}) {
      row.metrics[static_cast<std::size_t>(metric)].add(drift);
      table.slices[0].histograms[static_cast<std::size_t>(metric)].add(drift);
      if (language != "en") table.slices[1].histograms[static_cast<std::size_t>(metric)].add(drift);
    }
    table.sequences.push_back(row);
    gpu::SequenceInfo info;
    info.sequence = sequence;
    info.id = "doc-" + std::to_string(sequence);
    info.slices = {{"language", language}};
    table.infos.push_back(info);
    gpu::WorstRow worst;
    worst.row = static_cast<std::uint64_t>(sequence);
    worst.sequence = sequence;
    worst.values[static_cast<std::size_t>(schema::Metric::kl_inf_train)] = drift;
    table.worst_rows.push_back(worst);
    table.profile.by_position[3].rows += 1;
    table.profile.by_position[3].tv += drift;
  }

  void decide(Verdict verdict, const schema::SliceWhere& where = {},
              schema::Severity severity = schema::Severity::hard,
              const std::string& clause = "numerical.tv") {
    schema::ClauseVerdict made;
    made.clause = clause;
    made.where = where;
    made.role = where.empty() ? schema::SliceRole::corpus : schema::SliceRole::critical;
    made.severity = severity;
    made.verdict = verdict;
    made.estimate = 0.0325;
    made.lower = 0.03;
    made.upper = 0.035;
    made.threshold = 0.02;
    made.limit_kind = "max";
    made.message = "mean tv is 0.0325";
    report.verdicts.push_back(made);
    report.has_contract = true;
    report.contract_name = "c";
    report.verdict = schema::combine(report.verdicts);
  }

  void suspect() {
    report.diagnosis.suspicions.push_back({stages::Pattern::scaled_logits,
                                           "language=de",
                                           "a factor near 1.2",
                                           "it is sharper",
                                           "Check scales.",
                                           {}});
  }
};

}  // namespace

TEST_CASE("characters that cannot be seen are written, bytes that are no text replaced, and long names cut") {
  CHECK(drift::visible("a" + kReversed) == "a⟨U+202E⟩abc⟨U+2066⟩");
  CHECK(drift::visible(std::string("\0\n\x7f", 3)) == "⟨U+0000⟩⟨U+000A⟩⟨U+007F⟩");
  CHECK(drift::visible("\xc2\x85\xef\xbf\xbe\xf3\xa0\x81\x81") == "⟨U+0085⟩⟨U+FFFE⟩⟨U+E0041⟩");
  CHECK(drift::visible("Ger\xE4t") == "Ger\xEF\xBF\xBDt");
  CHECK(drift::visible("语言=de") == "语言=de");
  CHECK(drift::visible("abcdef", 3) == "abc…");
  CHECK(drift::visible("\n\n\n", 20) == "⟨U+000A⟩…");  // what is written is what is limited
  CHECK(drift::markup("<a href='x' b=\"&\">") == "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;");
  CHECK(drift::figure_text(kNan) == "–");
  CHECK(drift::counted(1, "row") == "1 row");
  CHECK(drift::counted(4160, "row") == "4,160 rows");
}

TEST_CASE("a finding names the slice that a clause fails on and the worst rows in it") {
  Made made;
  made.decide(Verdict::pass, {}, schema::Severity::hard, "numerical.kl");
  made.decide(Verdict::violated, {}, schema::Severity::soft, "numerical.soft");
  made.decide(Verdict::pass);
  made.decide(Verdict::violated, {{"language", "en"}});
  const auto findings = drift::findings_of(made.report);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].clause == "numerical.tv");
  CHECK(findings[0].blocks());
  CHECK(findings[0].verdict == Verdict::violated);
  REQUIRE(findings[0].slice);
  CHECK(findings[0].slice->where == schema::SliceWhere{{"language", "en"}});
  REQUIRE(findings[0].rows.size() == 3);
  CHECK(findings[0].rows[0]->row == 1);  // row 0 is of language de
  CHECK(findings[1].clause == "numerical.soft");
  CHECK_FALSE(findings[1].blocks());
  CHECK(findings[1].gravest == Verdict::violated);
  CHECK(findings[1].slice->where ==
        schema::SliceWhere{{"language", "de"}});  // of the corpus: what drifts most
  CHECK(findings[1].rows[0]->row == 0);
  CHECK(findings[2].gravest == Verdict::pass);
  CHECK_FALSE(findings[2].slice);
}

TEST_CASE("a clause on a quantile is limited by the share that may lie beyond, not by the quantile") {
  schema::ClauseVerdict verdict;
  verdict.threshold = 0.25;
  CHECK(drift::limit_of(verdict) == 0.25);
  verdict.details["tolerated_fraction"] = 0.03;
  CHECK(drift::limit_of(verdict) == 0.03);
}

TEST_CASE(
    "JUnit counts a violated clause as failure, an error as error, and what is not decided as skipped") {
  Made made;
  made.suspect();
  made.decide(Verdict::violated);
  made.decide(Verdict::error, {}, schema::Severity::hard, "numerical.error");
  made.decide(Verdict::inconclusive, {}, schema::Severity::hard, "numerical.few");
  made.decide(Verdict::violated, {}, schema::Severity::soft, "numerical.soft");
  made.decide(Verdict::pass, {}, schema::Severity::hard, "numerical.pass");
  made.report.not_evaluated = {"runtime.errors"};
  made.report.warnings = {"the contract names another kernel"};
  const std::string xml = drift::report_junit(made.report);
  CHECK(has(xml, R"(<testsuite name="driftgate.c" tests="8" failures="1" errors="1" skipped="4" time="0">)"));
  CHECK(count(xml, "<testcase ") == 8);
  CHECK(count(xml, "<failure ") == 1);
  CHECK(count(xml, "<error ") == 1);
  CHECK(count(xml, "<skipped ") == 4);
  CHECK(has(
      xml,
      R"(<failure type="violated" message="numerical.tv VIOLATED: mean tv is 0.0325 | Worst slice: language=de: 10 sequences, 10 rows, mean kl_inf_train 0.1, 3.08 times the corpus | Worst rows: row 0 (sequence 0, doc-0, position 0, kl_inf_train 0.1); row 4 )"));
  CHECK(has(xml, "| Pattern: scaled_logits (language=de)\">"));
  CHECK(has(xml, R"(type="not_evaluated")"));
  CHECK(has(drift::report_junit(Made().report), R"(tests="1" failures="0" errors="0" skipped="0")"));
}

TEST_CASE("names cannot end the element, the attribute, the cell or the line that they stand in") {
  const std::string name = kMarkup + "\"'&`|\n]]>" + kReversed;
  Made made(name);
  made.table.inf.kernel = name;
  made.table.infos[0].id = name;
  made.report.warnings = {name};
  made.report.notes = {name};
  made.decide(Verdict::violated, {{"language", name}});
  made.report.contract_name = name;
  made.report.verdicts[0].message = name;
  for (const std::string& text : {drift::report_junit(made.report), drift::report_html(made.report)}) {
    CHECK_FALSE(has(text, "<script"));
    CHECK(has(text, "&lt;script&gt;"));
    CHECK_FALSE(has(text, "\u202E"));
    CHECK(has(text, "⟨U+202E⟩"));
    CHECK_FALSE(has(text, "]]>"));
  }
  const std::string markdown = drift::report_markdown(made.report);
  CHECK_FALSE(has(markdown, "\u202E"));
  CHECK(has(markdown,
            "``" + std::string("<script>")));  // in a span of code, whose fence is longer than its text's
  CHECK_FALSE(has(markdown, "warning: <script"));
  CHECK(has(markdown, "warning: &lt;script\\>"));
  for (std::size_t at = markdown.find("\n| "); at != std::string::npos; at = markdown.find("\n| ", at + 1)) {
    const std::string line = markdown.substr(at + 1, markdown.find('\n', at + 1) - at - 1);
    if (has(line, "script")) CHECK_FALSE(has(line, "`|"));
  }
}

TEST_CASE("a name in Markdown mentions nobody and links nothing") {
  Made made;
  made.report.warnings = {"@team broke #12, see https://example.org and www.example.org"};
  const std::string text = drift::report_markdown(made.report);
  CHECK(
      has(text, "\\@\u2060team broke \\#\u206012, see https:\u2060//example.org and www.\u2060example.org"));
}

TEST_CASE("Markdown says the verdict first and stays within a comment's size") {
  Made made;
  made.decide(Verdict::violated);
  made.suspect();
  std::string text = drift::report_markdown(made.report);
  CHECK(text.starts_with("<!-- driftgate -->\n## driftgate: VIOLATED\n"));
  CHECK(has(text,
            "- **VIOLATED** `numerical.tv`: mean tv is 0.0325\n  - Worst slice: language=de: 10 sequences"));
  CHECK(has(text, "- Pattern: scaled\\_logits (language=de)\n"));
  const std::string name(5'000, '@');
  Made large(name);
  for (int i = 0; i < 300; ++i)
    large.decide(Verdict::violated, {{"language", name}}, schema::Severity::hard, name + std::to_string(i));
  for (auto& verdict : large.report.verdicts) verdict.message = name;
  for (auto& info : large.table.infos) info.id = name;
  large.report.notes.assign(500, name);
  large.report.not_evaluated.assign(500, name);
  large.report.diagnosis.summary = name;
  text = drift::report_markdown(large.report);
  CHECK(text.size() <= drift::kMaxMarkdownBytes);
  CHECK(has(text, "more are in the table below") == has(text, "<summary>Clauses (300)"));
  CHECK(has(text, "left out, since a comment is limited"));
  CHECK(drift::report_html(large.report).size() < 2'000'000);
}

TEST_CASE("the page forbids everything but its own style, whose digest is that of its bytes") {
  const auto digest = schema::sha256(drift::kPageStyle);
  CHECK(drift::kPageStyleDigest == "sha256-" + base::to_base64(schema::as_chars(digest)));
  Made made;
  made.decide(Verdict::violated);
  const std::string page = drift::report_html(made.report);
  CHECK(has(page, "content=\"default-src 'none'; style-src 'sha256-"));
  CHECK(has(page, "<style>" + std::string(drift::kPageStyle) + "</style>"));
  for (const char* absent : {"<script", " style=", "http:", "https:", "url(", "<img", "<link", "onload"}) {
    CAPTURE(absent);
    CHECK_FALSE(has(page, absent));
  }
  CHECK(page == drift::report_html(made.report));
}

TEST_CASE("the page draws slices with intervals and limits, the tail of tv and the profile, and names them") {
  Made made;
  made.decide(Verdict::violated);
  const std::string page = drift::report_html(made.report);
  CHECK(has(page, "aria-label=\"Mean tv by slice\""));
  CHECK(has(page, "aria-label=\"Clauses as multiples of their limit\""));
  CHECK(has(page, "<td>1.625</td><td>1.5 to 1.75</td><td>1</td>"));
  CHECK(count(page, "class=\"limit\"") == 1);
  CHECK(has(page, "<title id=\"tail-t\">Share of rows above each tv</title>"));
  CHECK(has(page, "from position 4: mean tv 0.0325, 40 rows"));
  CHECK(count(page, "class=\"curve c0\"") == 2);  // the corpus, drawn and in the legend
  CHECK(count(page, "class=\"curve c1\"") == 2);  // the slice
}

TEST_CASE("a report of nothing but rows that are not finite can be written in every form") {
  gpu::MeasurementTable table;
  table.rows = 3;
  table.nonfinite_rows = 3;
  table.slices.emplace_back();
  DriftReport report;
  report.table = &table;
  report.corpus = gpu::summarise(table);
  CHECK(has(drift::report_markdown(report), "**3 of 3 rows have NaN or infinite logits.**"));
  CHECK(has(drift::report_html(report), "3 of 3 rows have NaN or infinite logits."));
  CHECK(has(drift::report_junit(report), "3 rows with NaN or infinite logits"));
  CHECK_FALSE(has(drift::report_html(report), "nan"));
}

TEST_CASE(
    "of captures that hold a part of each distribution the lower bounds are shown, and their findings") {
  Made made;
  made.table.partial.mode = "realised";
  made.table.partial.findings = {
      {"rounded_to_bf16", "inf", false, 3, 40, "log-probabilities were rounded" + kMarkup}};
  gpu::BoundSummary bound{};
  bound.metric = schema::Metric::kl_inf_train;
  bound.mean_lower = 0.125;
  bound.mean_upper = std::numeric_limits<double>::infinity();
  made.report.corpus.bounds = {bound};
  CHECK(has(drift::report_markdown(made.report), "mean kl\\_inf\\_train at least 0.125."));
  CHECK(has(drift::report_markdown(made.report),
            "- `rounded_to_bf16`: log-probabilities were rounded&lt;script"));
  CHECK(has(drift::report_html(made.report), "mean kl_inf_train at least 0.125"));
  CHECK(has(drift::report_html(made.report), "are lower bounds"));
  CHECK(has(drift::report_html(made.report), "rounded_to_bf16: log-probabilities were rounded&lt;script"));
  CHECK(
      has(drift::report_junit(made.report), "<skipped type=\"warning\" message=\"rounded_to_bf16: log-prob"));
}

TEST_CASE(
    "a table of clauses that is cut keeps the gravest verdict of each clause and says what it leaves out") {
  Made made;
  for (int i = 0; i < 60; ++i) {  // a clause with more slices than a table has rows
    made.decide(Verdict::violated, {{"language", "l" + std::to_string(i)}}, schema::Severity::hard,
                "first.of.many");
  }
  for (int i = 0; i < 30; ++i)
    made.decide(Verdict::violated, {}, schema::Severity::hard, "other." + std::to_string(i) + ".");
  const std::string page = drift::report_html(made.report), text = drift::report_markdown(made.report);
  const std::string of_page = page.substr(page.find("<h2>Clauses</h2>"));
  const std::string of_text = text.substr(text.find("Clauses (90)"));
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    CHECK(has(of_page, "other." + std::to_string(i) + "."));
    CHECK(has(of_text, "other." + std::to_string(i) + "."));
  }
  CHECK(has(of_page, "more are in the JSON.</p>"));
  CHECK(has(of_text, "more are in the JSON."));
  Made many;
  for (int i = 0; i < 72; ++i)
    many.decide(Verdict::violated, {}, schema::Severity::hard, "clause." + std::to_string(i) + ".");
  CHECK(has(drift::report_html(many.report), "more are in the table of clauses and the JSON.</p>"));
  CHECK(has(drift::report_html(many.report), "<p>22 more are in the JSON.</p>"));
  CHECK(has(drift::report_markdown(many.report), "more are in the table below and the JSON"));
}

TEST_CASE("what passes is left out of a table before what does not") {
  Made made;
  made.decide(Verdict::violated);
  made.decide(Verdict::pass, {{"language", "a"}});
  made.decide(Verdict::inconclusive, {{"language", "b"}});
  made.decide(Verdict::pass, {}, schema::Severity::hard, "numerical.other");
  const auto findings = drift::findings_of(made.report);
  CHECK(drift::count_verdicts(findings) == 4);
  const auto wheres = [&](std::size_t most) {
    std::vector<std::string> out;
    for (const auto* v : drift::listed_verdicts(findings, most))
      out.push_back(v->clause + drift::place_text(v->where));
    return out;
  };
  const auto all = wheres(9);
  REQUIRE(all.size() == 4);
  CHECK(wheres(1) == std::vector{all[0]});
  CHECK(wheres(2) == std::vector{all[0], all[1]});
  CHECK(has(all[1], "language=b"));
  CHECK(wheres(3) == std::vector{all[0], all[1], all[3]});
}

TEST_CASE("lower bounds are told as such where a message stands alone, and no ratio of them is") {
  Made made;
  made.decide(Verdict::violated);
  CHECK(has(drift::report_junit(made.report), "mean kl_inf_train 0.1, 3.08 times the corpus"));
  made.table.partial.mode = "realised";
  const std::string xml = drift::report_junit(made.report);
  CHECK(has(xml,
            "rows, mean kl_inf_train at least 0.1 | Worst rows: row 0 (sequence 0, doc-0, position 0, "
            "kl_inf_train at least 0.1)"));
  CHECK_FALSE(has(xml, "times the corpus"));
}

TEST_CASE("Markdown says that clauses are in the JSON where their table is left out for its size") {
  Made made;
  for (int i = 0; i < 60; ++i) {  // as long as a table of them can be
    const std::string name = std::string(1'000, '|');
    made.decide(Verdict::violated, {{"language", name}, {"topic", name}}, schema::Severity::hard,
                std::to_string(i) + name);
  }
  for (auto& verdict : made.report.verdicts) verdict.message = std::string(4'000, '@');
  const std::string text = drift::report_markdown(made.report);
  CHECK(text.size() <= drift::kMaxMarkdownBytes);
  CHECK_FALSE(has(text, "Clauses (60)"));
  CHECK(has(text, "more are in the JSON"));
  CHECK_FALSE(has(text, "in the table below"));
}
