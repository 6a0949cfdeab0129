#include "daemon/cli/drift/drift_command.hpp"

#include <fmt/format.h>

#include <utility>

#include "daemon/cli/contract/shortened_input.hpp"
#include "daemon/cli/drift/drift_certificate.hpp"
#include "daemon/cli/drift/drift_progress.hpp"
#include "daemon/cli/drift/drift_ranks.hpp"
#include "daemon/cli/drift/drift_reports.hpp"
#include "daemon/cli/drift/drift_rows.hpp"
#include "daemon/cli/drift/drift_text.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output_files.hpp"
#include "daemon/drift/make_report.hpp"
#include "gpu/drift.hpp"

namespace driftgate::cli {

namespace {

using schema::Result;

/// The table, at rank 0; nothing elsewhere.
Result<std::optional<gpu::MeasurementTable>> measure(const DriftArgs& args, const drift::Inputs& inputs,
                                                     gpu::RankSession& ranks) {
  std::optional<RowsFile> rows;
  if (!args.rows_out.empty() && ranks.root()) {
    auto created = TRY(RowsFile::create(args.rows_out, inputs.train, inputs.inf));
    rows.emplace(std::move(created));
  }
  DriftProgress progress;
  gpu::RowSink sink;
  if (rows) {
    sink = [&rows](std::uint64_t first, std::span<const driftgate_row> batch) {
      return rows->write(first, batch);
    };
  }
  auto table = ranks.measure(
      inputs.train, inputs.inf, inputs.slices(), drift::options_for(inputs.terms(), inputs.slices(), args),
      drift::bits_for(inputs.terms()),
      [&progress](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }, sink);
  if (!table || !rows) return table;
  TRY(rows->finish());
  return table;
}

/// Before anything is read: nobody waits for figures that cannot be written.
Result<void> check_files(const DriftArgs& args, const std::vector<ReportFile>& reports) {
  std::vector<std::string> inputs = drift::paths_of(args);
  inputs.insert(inputs.end(), {args.lm_head, args.checkpoint});
  std::vector<OutputFile> outputs{{"--json", args.json == "-" ? "" : args.json},
                                  {"--certificate", args.certificate},
                                  {"--rows-out", args.rows_out, true}};
  for (const ReportFile& report : reports) outputs.push_back(report.output);
  return check_outputs(outputs, inputs);
}

int run(const DriftArgs& args, gpu::RankSession& ranks) {
  const auto refuse = [&ranks](const schema::Error& error) {
    fail(ranks, error);
    return offline_exit_code_of(error.code);
  };
  const auto reports = report_files(args.reports);
  if (!reports) return refuse(reports.error());
  if (ranks.root()) {
    if (auto ok = check_files(args, *reports); !ok) return refuse(ok.error());
  }
  const auto inputs = drift::open_inputs(args, {args.lm_head, args.checkpoint}, !args.certificate.empty());
  if (!inputs) return refuse(inputs.error());
  const auto table = measure(args, *inputs, ranks);
  if (!table) return refuse(table.error());
  if (!*table) return kExitOk;  // a rank other than 0
  const drift::DriftReport report =
      drift::make_report(*inputs, **table, {args.core(), ranks.describe(), ranks.choice()});
  Result<void> written;
  if (args.json == "-") fmt::print("{}", drift::drift_json(report));
  if (!args.json.empty() && args.json != "-") written = write_file(args.json, drift::drift_json(report));
  if (!args.certificate.empty()) {
    auto page = write_certificate(args, report, inputs->train, inputs->inf);
    if (written) written = std::move(page);
  }
  if (auto pages = write_reports(*reports, report); written) written = std::move(pages);
  // The figures are printed even when a file could not be written, such as on a full disk.
  if (args.json != "-") fmt::print("{}", drift_text(report));
  return written ? drift::exit_code_of(report.verdict) : report_offline(written.error());
}

}  // namespace

int drift_command(const DriftArgs& args) {
  if (args.train.empty() || args.inf.empty()) {
    fmt::print(stderr, "driftgate: drift needs two captures: driftgate drift TRAIN INF\n");
    return kExitUsage;
  }
  explain_shortened_inputs();
  auto ranks = start_ranks(args);
  if (!ranks) return report_offline(ranks.error());
  const int exit_code = run(args, *ranks);
  return ranks->end(exit_code, kExitError, [](const schema::Error& error) { report(error); });
}

}  // namespace driftgate::cli
