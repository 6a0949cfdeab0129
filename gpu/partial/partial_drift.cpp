#include "gpu/partial/partial_drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/capture/capture_modes.hpp"
#include "gpu/capture/ingest_checks.hpp"
#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/partial/partial_row.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::uint64_t kRowsBetweenChecks = 8'192;

/// The data of one kernel for a row, as read from its capture.
struct ReadSide {
  std::vector<ListedToken> list;
  std::optional<double> target_logprob;
  std::uint64_t nonfinite = 0;
};

void read_side(const Capture& capture, std::uint64_t row, ReadSide& out) {
  capture.list(row, out.list);
  out.nonfinite = static_cast<std::uint64_t>(
      std::ranges::count_if(out.list, [](const ListedToken& t) { return std::isnan(t.logprob); }));
  // A value above 0 is a rounding error of 0, or else a deciding finding.
  for (ListedToken& token : out.list) token.logprob = std::min(token.logprob, 0.0F);
  out.target_logprob.reset();
  if (capture.logprobs().empty()) return;
  const double value = capture.logprobs()[static_cast<std::size_t>(row)];
  if (is_unknown_logprob(value)) return;
  if (!std::isfinite(value)) {
    ++out.nonfinite;
  } else {
    out.target_logprob = std::min(value, 0.0);
  }
}

/// Fills in mode, length of the lists, bounded metrics and the findings of the checks.
Result<PartialInfo> partial_info(const Capture& train, const Capture& inf, const std::string& device,
                                 std::uint32_t top_k, bool wants_rows) {
  const std::string_view mode = to_string(train.mode());
  if (device != "cpu") {
    return schema::fail(
        ErrorCode::unsupported,
        fmt::format("captures in {} mode are measured on the cpu only, but the device is {}", mode, device));
  }
  if (wants_rows) {
    return schema::fail(
        ErrorCode::unsupported,
        fmt::format("captures in {} mode give bounds instead of figures of each row, so the rows "
                    "cannot be written; capture full logits",
                    mode));
  }
  if (top_k == 0 || top_k > cpu::kMaxTopK)
    return schema::fail(ErrorCode::invalid_argument, "top_k must be between 1 and 1,024");
  PartialInfo out;
  out.mode = std::string(to_string(train.mode()));
  out.listed = std::max(train.columns(), inf.columns());
  out.metrics = bounded_metrics(train.mode());
  out.findings = check_logprobs(train, inf);
  return out;
}

/// Adds every row to the accumulator, whose table holds the PartialInfo.
Result<void> run_partial(const Capture& train, const Capture& inf, std::uint32_t top_k,
                         Accumulator& accumulator, const Progress& progress) {
  const auto train_error = TRY(logprob_error(train));
  const auto inf_error = TRY(logprob_error(inf));
  ReadSide a, b;
  for (std::uint64_t row = 0; row < train.rows(); ++row) {
    if (row % kRowsBetweenChecks == 0) {
      for (const Capture* capture : {&train, &inf}) {
        TRY(capture->check_unchanged());
      }
      if (progress) progress(row, train.rows());
    }
    const auto at = static_cast<std::size_t>(row);
    read_side(train, row, a);
    read_side(inf, row, b);
    PartialInput input;
    input.mode = train.mode();
    input.columns = std::max(train.columns(), inf.columns());
    input.vocabulary = train.vocabulary();
    input.top_k = top_k;
    if (train.has_tokens()) input.token = train.token_ids()[at];
    input.train = {a.list, a.target_logprob, train_error};
    input.inf = {b.list, b.target_logprob, inf_error};
    const std::uint64_t nonfinite = a.nonfinite + b.nonfinite;
    const PartialRow figures = nonfinite == 0 ? measure_partial_row(input) : PartialRow{};
    accumulator.add_partial(train.positions()[at], input.token.value_or(-1), figures, nonfinite);
  }
  if (progress) progress(train.rows(), train.rows());
  return {};
}

void note_unknown_rows(MeasurementTable& table) {
  if (table.partial.unknown_rows == 0) return;
  table.partial.findings.push_back(
      {kUnknownRows, "both", false, table.partial.unknown_rows, table.rows,
       fmt::format(
           "in {} of {} rows the kernels reported no token in common: nothing is known of these rows, and "
           "unknown is not zero",
           table.partial.unknown_rows, table.rows)});
}

}  // namespace

Result<MeasurementTable> measure_partial(const Capture& train, const Capture& inf, const Corpus* corpus,
                                         const MeasureOptions& options, const Progress& progress,
                                         bool wants_rows) {
  auto known = TRY(partial_info(train, inf, options.device, options.top_k, wants_rows));
  MeasurementTable table = empty_table(train, inf, options);
  table.partial = std::move(known);
  Accumulator accumulator(std::move(table), train.sequence_ids());
  if (corpus != nullptr) {
    TRY(attach_corpus(*corpus, accumulator.infos()));
  }
  accumulator.set_slices(options.slices ? *options.slices : described_slices(accumulator.infos()));
  accumulator.set_top_rows(options.top_rows);
  if (auto ok = run_partial(train, inf, options.top_k, accumulator, progress); !ok) {
    return std::unexpected(ok.error());
  }
  auto out = accumulator.finish();
  note_unknown_rows(out);
  return out;
}

}  // namespace driftgate::gpu
