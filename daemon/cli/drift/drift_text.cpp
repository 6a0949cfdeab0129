#include "daemon/cli/drift/drift_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "daemon/cli/drift/drift_partial.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli {

namespace {

using schema::Metric;
using Cells = std::vector<std::string>;

constexpr std::size_t kSlicesShown = 12, kRowsShown = 10;

std::string figure(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.4g}", value);
}
std::string figure(const std::optional<double>& value) {
  return value ? figure(*value) : "-";
}

const gpu::MetricSummary& of(const gpu::Summary& summary, Metric metric) {
  return summary.metrics[static_cast<std::size_t>(metric)];
}

std::string place(const schema::SliceWhere& where) {
  return where.empty() ? "corpus" : printable(schema::slice_text(where));
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string name_of(const gpu::CaptureIdentity& identity) {
  return identity.kernel.empty() ? "(unnamed)" : printable(identity.kernel);
}

std::string head_text(const drift::DriftReport& report) {
  const gpu::MeasurementTable& table = *report.table;
  std::string out =
      fmt::format("{} (train) against {} (inf)\n{} rows, {} sequences, vocabulary {}, temperature {}, {}\n",
                  name_of(table.train), name_of(table.inf), table.rows, table.sequences.size(),
                  table.vocabulary == 0 ? "not stated" : std::to_string(table.vocabulary),
                  figure(table.train.temperature), report.device);
  if (report.shard)
    out += fmt::format("shard: {} ({})\n", gpu::to_string(report.shard->shard), report.shard->reason);
  if (table.rows_on_cpu == 0U) out += "All rows were measured on the device.\n";
  if (table.rows_on_cpu > 0U) {
    out += fmt::format(
        "{} of {} rows were measured on the CPU: the device could not compute them to within 1e-6.\n",
        *table.rows_on_cpu, table.rows);
  }
  if (table.nonfinite_rows > 0) {
    out += fmt::format(
        "\n!! {} of {} rows have NaN or infinite logits. Means over them do not exist (-); the other "
        "figures are of the finite rows.\n",
        table.nonfinite_rows, table.rows);
    if (!table.worst_rows.empty()) {
      const gpu::WorstRow& first = table.worst_rows.front();
      out += fmt::format("!! The first is row {}: sequence {}, position {}.\n", first.row, first.sequence,
                         first.position);
    }
  }
  for (const std::string& warning : report.warnings) out += "warning: " + printable(warning) + "\n";
  return out;
}

std::string metrics_text(const gpu::Summary& summary) {
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
    const gpu::MetricSummary& m = summary.metrics[i];
    if (m.n == 0) continue;
    rows.push_back({std::string(schema::to_string(static_cast<Metric>(i))), figure(m.mean),
                    figure(m.sequence_mean), figure(m.min), figure(m.p50), figure(m.p90), figure(m.p99),
                    figure(m.p99_9), figure(m.max)});
  }
  return format_table({"metric", "mean", "sequence_mean", "min", "p50", "p90", "p99", "p99_9", "max"}, rows);
}

/// Each distance beside the same distance of a kernel from itself: a drift below the floor is noise.
std::string floors_text(const drift::DriftReport& report) {
  if (report.floors.empty()) return {};
  Cells head{"metric", "drift"};
  for (const drift::DriftFloor& floor : report.floors) {
    head.push_back(fmt::format("{} floor", stages::to_string(floor.side)));
    head.push_back("drift / floor");
  }
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
    const auto metric = static_cast<Metric>(i);
    if (!schema::is_distance(metric) || report.corpus.metrics[i].n == 0) continue;
    const double drift = report.corpus.metrics[i].mean;
    Cells row{std::string(schema::to_string(metric)), figure(drift)};
    for (const drift::DriftFloor& floor : report.floors) {
      const double noise = floor.corpus.metrics[i].mean;
      row.push_back(figure(noise));
      row.push_back(noise > 0 ? fmt::format("{:.3g}x", drift / noise) : "-");
    }
    rows.push_back(std::move(row));
  }
  std::string out = "\nDrift beside the noise floor, means over rows\n" + format_table(head, rows);
  for (const drift::DriftFloor& floor : report.floors) {
    out += fmt::format("{} floor: {} against itself with another batch size, {} rows of {} sequences{}.\n",
                       stages::to_string(floor.side), printable(floor.kernel), floor.corpus.rows,
                       floor.corpus.sequences,
                       floor.nonfinite_rows > 0
                           ? fmt::format(", {} of them with NaN or infinite logits", floor.nonfinite_rows)
                           : "");
  }
  return out;
}

std::string derived_text(const drift::DriftReport& report) {
  if (report.corpus.derived.empty()) return {};
  std::vector<Cells> rows;
  bool descriptive = false;
  for (const gpu::DerivedSummary& derived : report.corpus.derived) {
    for (const auto& [path, value] : derived.figures) {
      const std::string name(schema::to_string(derived.metric));
      rows.push_back({path == "value" ? name : name + "." + path, figure(value),
                      derived.descriptive ? "descriptive" : ""});
    }
    descriptive = descriptive || derived.descriptive;
  }
  std::string out = "\nFrom the target tokens\n" + format_table({"metric", "value", ""}, rows);
  if (descriptive) {
    out += fmt::format(
        "descriptive: the tokens come from '{}', not from the inference kernel, so these figures are not "
        "estimates.\n",
        printable(report.table->inf.token_source));
  }
  return out;
}

std::string slices_text(const drift::DriftReport& report) {
  if (report.slices.empty()) return {};
  std::vector<const drift::DriftSlice*> order;
  for (const drift::DriftSlice& slice : report.slices) order.push_back(&slice);
  const auto kl = [](const drift::DriftSlice* slice) {
    const double mean = mean_at_least(slice->summary, Metric::kl_inf_train);
    return std::isnan(mean) ? HUGE_VAL : mean;  // a slice with rows that are not finite comes first
  };
  std::ranges::stable_sort(
      order, [&](const drift::DriftSlice* a, const drift::DriftSlice* b) { return kl(a) > kl(b); });
  const double corpus = mean_at_least(report.corpus, Metric::kl_inf_train);
  std::vector<Cells> rows;
  for (const drift::DriftSlice* slice : order) {
    if (rows.size() == kSlicesShown) break;
    const gpu::Summary& s = slice->summary;
    const double mean = mean_at_least(s, Metric::kl_inf_train);
    rows.push_back({place(s.where), std::string(schema::to_string(slice->role)), std::to_string(s.sequences),
                    std::to_string(s.rows), figure(mean),
                    std::isnan(mean / corpus) ? "-" : fmt::format("{:.2f}x", mean / corpus),
                    figure(mean_at_least(s, Metric::tv)), figure(mean_at_least(s, Metric::top1_flip)),
                    figure(of(s, Metric::logit_span).max)});
  }
  std::string out =
      fmt::format("\nSlices, largest mean kl_inf_train first ({} of {})\n", rows.size(), order.size());
  return out + format_table({"slice", "role", "sequences", "rows", "kl_inf_train", "of corpus", "tv",
                             "top1_flip", "max logit_span"},
                            rows);
}

std::string ranking_text(const drift::DriftReport& report) {
  if (report.ranking.empty()) return {};
  std::vector<Cells> rows;
  bool hidden = false;
  for (const stages::SliceRank& rank : report.ranking) {
    if (rows.size() == kSlicesShown) break;
    rows.push_back({place(rank.where), std::string(schema::to_string(rank.role)), rank.clause,
                    figure(rank.estimate), fmt::format("{} to {}", figure(rank.lower), figure(rank.upper)),
                    figure(rank.limit), fmt::format("{:+.0f}%", 100 * rank.excess),
                    figure(rank.corpus_estimate), upper_case(schema::to_string(rank.verdict)),
                    rank.hidden_by_mean ? "hidden" : ""});
    hidden = hidden || rank.hidden_by_mean;
  }
  std::string out = fmt::format("\nSlices, largest excess over their limit first ({} of {})\n", rows.size(),
                                report.ranking.size());
  out += format_table(
      {"slice", "role", "clause", "figure", "interval", "limit", "excess", "corpus", "verdict", ""}, rows);
  if (hidden) out += "hidden: beyond the limit while the corpus as a whole is within it.\n";
  return out;
}

std::string verdicts_text(const drift::DriftReport& report) {
  if (!report.has_contract) return {};
  std::string out = fmt::format("\nContract {}: {}\n", printable(report.contract_name),
                                upper_case(schema::to_string(report.verdict)));
  for (const schema::ClauseVerdict& verdict : report.verdicts) {
    out +=
        fmt::format("  {:<12}  {}{}{}\n                {}\n", upper_case(schema::to_string(verdict.verdict)),
                    verdict.clause, verdict.where.empty() ? "" : " on " + place(verdict.where),
                    verdict.severity == schema::Severity::soft ? " (soft)" : "", printable(verdict.message));
  }
  if (!report.not_evaluated.empty()) {
    out += fmt::format("  not evaluated, since captures cannot decide them: {}\n",
                       fmt::join(report.not_evaluated, ", "));
  }
  return out;
}

std::string bounds_text(const drift::DriftReport& report) {
  if (report.bounds.empty()) return {};
  const stages::BoundChain& chain = report.bounds.front();
  if (!chain.refused.empty()) return "\nNo bound certificate: " + printable(chain.refused) + "\n";
  Cells head{"link", "bound", "value", "upper limit"};
  for (const drift::DriftFloor& floor : report.floors)
    head.push_back(fmt::format("at the {} floor", stages::to_string(floor.side)));
  head.insert(head.end(), {"assumption", ""});
  std::vector<Cells> rows;
  for (const stages::BoundLink& link : chain.links) {
    Cells row{std::to_string(link.number), link.name, figure(link.value), figure(link.upper)};
    for (const drift::DriftFloor& floor : report.floors) {
      const auto found = link.floors.find(std::string(stages::to_string(floor.side)));
      row.push_back(found == link.floors.end() ? "-" : figure(found->second));
    }
    const std::string from = link.from.empty() ? "" : "from " + link.from + "; ";
    row.insert(row.end(), {std::string(stages::to_string(link.status)), from + printable(link.value ? link.assumption : link.method)});
    rows.push_back(std::move(row));
  }
  return "\nBounds on the corpus\n" + format_table(head, rows);
}

/// Mean tv and flips by position, entropy and probability; buckets without rows are left out.
std::string profile_text(const gpu::DriftProfile& profile) {
  std::vector<Cells> rows;
  const auto add = [&rows](const char* what, const auto& buckets, const auto& from) {
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const gpu::ProfileBucket& b = buckets[i];
      if (b.rows == 0) continue;
      const auto n = static_cast<double>(b.rows);
      rows.push_back({what, figure(from(i)), std::to_string(b.rows), figure(b.tv / n),
                      figure(b.kl_inf_train / n), figure(b.logit_rms / n),
                      figure(static_cast<double>(b.top1_flips) / n)});
    }
  };
  const auto edge = [](const auto& edges) {
    return [&edges](std::size_t i) { return i == 0 ? 0.0 : edges[i - 1]; };
  };
  add("position", profile.by_position,
      [](std::size_t i) { return static_cast<double>(gpu::first_position(i)); });
  add("entropy_train", profile.by_entropy, edge(gpu::kEntropyEdges));
  add("probability", profile.by_probability, edge(gpu::kProbabilityEdges));
  if (rows.empty()) return {};
  return "\nWhere the drift is, means by bucket\n" +
         format_table({"by", "from", "rows", "tv", "kl_inf_train", "logit_rms", "top1_flip"}, rows);
}

std::string diagnosis_text(const drift::DriftReport& report) {
  std::string out = "\nDiagnosis: " + printable(report.diagnosis.summary) + "\n";
  for (const stages::Suspicion& s : report.diagnosis.suspicions) {
    out += fmt::format("  {} ({}): looks like {}, because {}.\n    Next: {}\n", stages::to_string(s.pattern),
                       printable(s.where), printable(s.looks_like), printable(s.because), printable(s.next));
  }
  return out + profile_text(report.table->profile);
}

std::string worst_text(const gpu::MeasurementTable& table) {
  std::vector<Cells> rows;
  for (const gpu::WorstRow& row : table.worst_rows) {
    if (rows.size() == kRowsShown) break;
    const auto at = [&](Metric metric) { return row.values[static_cast<std::size_t>(metric)]; };
    rows.push_back({std::to_string(row.row), std::to_string(row.sequence), std::to_string(row.position),
                    table.has_tokens ? std::to_string(row.token) : "-", figure(at(Metric::kl_inf_train)),
                    figure(row.kl_before), figure(row.kl_after), figure(at(Metric::entropy_train)),
                    figure(at(Metric::tv)), figure(at(Metric::logit_span)), figure(at(Metric::log_ratio)),
                    at(Metric::top1_flip) > 0 ? "flips" : "", at(Metric::nonfinite) > 0 ? "not finite" : ""});
  }
  if (rows.empty()) return {};
  return fmt::format("\nWorst rows ({} of {} kept)\n", rows.size(), table.worst_rows.size()) +
         format_table({"row", "sequence", "position", "token", "kl_inf_train", "before", "after",
                       "entropy_train", "tv", "logit_span", "log_ratio", "top1", ""},
                      rows);
}

}  // namespace

std::string drift_text(const drift::DriftReport& report) {
  std::string out = head_text(report) + partial_text(report) + "\n" + metrics_text(report.corpus) +
                    bounded_text(report.corpus) + floors_text(report) + derived_text(report) +
                    slices_text(report) + bounds_text(report) + worst_text(*report.table) +
                    diagnosis_text(report) + ranking_text(report) + verdicts_text(report);
  for (const std::string& note : report.notes) out += "note: " + printable(note) + "\n";
  return out;
}

}  // namespace driftgate::cli
