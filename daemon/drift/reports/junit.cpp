#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/drift/reports/findings.hpp"
#include "daemon/drift/reports/reports.hpp"
#include "daemon/drift/reports/words.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::drift {

namespace {

using schema::Verdict;

/// What one test case came to, in the words of JUnit.
enum class Outcome : std::uint8_t { pass, failure, error, skipped };

struct TestCase {
  std::string name;  ///< visible, not escaped, as everything here
  Outcome outcome = Outcome::pass;
  std::string type, message, text;  ///< `message` is one line; `text` has lines
};

std::string_view element_of(Outcome outcome) {
  constexpr std::array<std::string_view, 4> kElements{"system-out", "failure", "error", "skipped"};
  return kElements[static_cast<std::size_t>(outcome)];
}

Outcome outcome_of(const Finding& finding) {
  switch (finding.verdict) {
    case Verdict::violated:
      return Outcome::failure;
    case Verdict::error:
      return Outcome::error;
    case Verdict::inconclusive:
      return Outcome::skipped;
    case Verdict::pass:
      break;
  }
  // Soft clauses; of a clause that passes on the corpus, what was found on slices is told in the text.
  const auto corpus = std::ranges::find_if(finding.verdicts, [](const auto* v) { return v->where.empty(); });
  const bool soft = corpus != finding.verdicts.end() && (*corpus)->verdict != Verdict::pass;
  return soft ? Outcome::skipped : Outcome::pass;
}

/// One line: the verdict, the clause, the slice, its rows and the pattern.
std::string message_of(const DriftReport& report, const Finding& finding) {
  const schema::ClauseVerdict& lead = *finding.verdicts.front();
  std::string out =
      fmt::format("{} {}{}{}: {}", visible(finding.clause, kMaxNameBytes), upper_text(lead.verdict),
                  finding.blocks() ? "" : " (does not block)",
                  lead.where.empty() ? "" : " on " + place_text(lead.where), visible(lead.message));
  for (const Advice& item : places_of(report, finding))
    out += fmt::format(" | {}: {}", item.label, item.text);
  const std::string pattern = pattern_text(report);
  return pattern.empty() ? out : out + " | Pattern: " + pattern;
}

std::string text_of(const DriftReport& report, const Finding& finding) {
  std::string out;
  for (const schema::ClauseVerdict* v : finding.verdicts) {
    out += fmt::format("{}{} on {}: {}\n", upper_text(v->verdict),
                       v->severity == schema::Severity::soft ? " (soft)" : "", place_text(v->where),
                       visible(v->message));
  }
  if (finding.gravest == Verdict::pass) return out;
  for (const Advice& item : places_of(report, finding)) out += fmt::format("{}: {}\n", item.label, item.text);
  for (const Advice& item : diagnosis_of(report)) out += fmt::format("{}: {}\n", item.label, item.text);
  return out;
}

TestCase case_of(const DriftReport& report, const Finding& finding) {
  TestCase out;
  out.name = visible(finding.clause, kMaxNameBytes);
  out.outcome = outcome_of(finding);
  out.type = schema::to_string(finding.blocks() ? finding.verdict : finding.gravest);
  out.text = text_of(report, finding);
  if (out.outcome != Outcome::pass) out.message = message_of(report, finding);
  return out;
}

/// The head of the report and the diagnosis: it passes, since a measurement without a contract demands
/// nothing.
TestCase measurement(const DriftReport& report) {
  const gpu::MeasurementTable& t = *report.table;
  TestCase out;
  out.name = "measurement";
  out.text =
      fmt::format("{} (train) against {} (inf): {} of {}, {}\n", kernel_text(t.train), kernel_text(t.inf),
                  counted(t.rows, "row"), counted(t.sequences.size(), "sequence"), visible(report.device));
  if (t.nonfinite_rows > 0) out.text += counted(t.nonfinite_rows, "row") + " with NaN or infinite logits\n";
  for (const schema::Metric metric :
       {schema::Metric::tv, schema::Metric::kl_inf_train, schema::Metric::top1_flip})
    out.text += fmt::format("mean {} {}\n", schema::to_string(metric),
                            figure_text(least_mean(report.corpus, metric)));
  for (const Advice& item : diagnosis_of(report)) out.text += fmt::format("{}: {}\n", item.label, item.text);
  for (const std::string& note : report.notes) out.text += "note: " + visible(note) + "\n";
  return out;
}

std::vector<TestCase> cases_of(const DriftReport& report) {
  std::vector<TestCase> out;
  for (const Finding& finding : findings_of(report)) out.push_back(case_of(report, finding));
  for (const std::string& clause : report.not_evaluated) {
    out.push_back({visible(clause, kMaxNameBytes),
                   Outcome::skipped,
                   "not_evaluated",
                   "captures cannot decide this clause; it is decided on traffic",
                   {}});
  }
  out.push_back(measurement(report));
  std::vector<std::string> warnings = report.warnings;
  for (const gpu::CaptureFinding& finding : report.table->partial.findings)
    warnings.push_back(finding.name + ": " + finding.text);
  if (!warnings.empty()) {
    TestCase& item =
        out.emplace_back(TestCase{"warnings", Outcome::skipped, "warning", visible(warnings.front()), {}});
    for (const std::string& warning : warnings) item.text += visible(warning) + "\n";
  }
  return out;
}

std::string xml_of(const TestCase& item, const std::string& suite) {
  std::string out =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\">\n", suite, markup(item.name));
  const std::string_view element = element_of(item.outcome);
  out += fmt::format("      <{}", element);
  if (item.outcome != Outcome::pass)
    out += fmt::format(" type=\"{}\" message=\"{}\"", markup(item.type), markup(item.message));
  return out + fmt::format(">{}</{}>\n    </testcase>\n", markup(item.text), element);
}

std::string property(std::string_view name, const std::string& value) {
  return fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", name, markup(value));
}

std::string properties(const DriftReport& report) {
  std::string out = "    <properties>\n" + property("kernel.train", kernel_text(report.table->train)) +
                    property("kernel.inf", kernel_text(report.table->inf)) +
                    property("rows", std::to_string(report.table->rows)) +
                    property("sequences", std::to_string(report.table->sequences.size()));
  if (report.has_contract) {
    out += property("contract.digest", visible(report.contract_digest)) +
           property("verdict", std::string(schema::to_string(report.verdict)));
  }
  if (const std::string pattern = pattern_text(report); !pattern.empty()) out += property("pattern", pattern);
  return out + "    </properties>\n";
}

}  // namespace

std::string report_junit(const DriftReport& report) {
  const std::vector<TestCase> cases = cases_of(report);
  const auto count = [&cases](Outcome outcome) {
    return std::ranges::count(cases, outcome, &TestCase::outcome);
  };
  const std::string suite =
      report.has_contract ? "driftgate." + markup(visible(report.contract_name, kMaxNameBytes)) : "driftgate";
  const std::string totals = fmt::format("name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\"", suite,
                                         cases.size(), count(Outcome::failure), count(Outcome::error));
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites " + totals + ">\n";
  out += fmt::format("  <testsuite {} skipped=\"{}\" time=\"0\">\n", totals, count(Outcome::skipped));
  out += properties(report);
  for (const TestCase& item : cases) out += xml_of(item, suite);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace driftgate::drift
