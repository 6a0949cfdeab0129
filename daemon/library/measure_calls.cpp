#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "daemon/drift/make_report.hpp"
#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/measure_options.hpp"
#include "daemon/library/objects.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/ranks/rank_devices.hpp"

namespace driftgate::library {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::size_t kMaxDeviceBytes = 256;
constexpr std::uint32_t kDefaultTopRows = 20, kMaxThreads = 1'024;

/// The one device that is meant.
Result<std::string> device_of(const std::string& asked) {
  const auto devices = TRY(gpu::parse_devices(asked));
  if (devices.size() == 1 && asked != "cuda:all") return devices.front();
  return schema::fail(
      ErrorCode::unsupported,
      "device '" + asked + "': a call measures on one device; `driftgate drift` shares rows among several");
}

Result<void> check_numbers(const dg_options& options) {
  const auto refuse = [](const char* why) { return schema::fail(ErrorCode::invalid_argument, why); };
  if (options.threads > kMaxThreads) return refuse("threads is at most 1024");
  if (options.metrics > DG_METRICS_CORE) return refuse("metrics is DG_METRICS_ALL or DG_METRICS_CORE");
  if (options.keep_rows > 1) return refuse("keep_rows is 0 or 1");
  if (options.top_rows > gpu::kMaxWorstRows && options.top_rows != DG_NO_TOP_ROWS)
    return refuse("top_rows is at most 10000");
  return {};
}

}  // namespace

gpu::MeasureOptions Options::for_terms(const schema::Contract* contract, const gpu::Corpus* corpus) const {
  gpu::MeasureOptions out = drift::options_for(contract, corpus, args);
  out.device = device;
  return out;
}

Result<Options> read_options(const dg_options* given) {
  const dg_options read = TRY(read_optional(given, "the options"));
  TRY(check_numbers(read));
  Options out;
  std::string asked = TRY(text_of(read.device, "the device", kMaxDeviceBytes));
  if (!asked.empty()) out.args.device = std::move(asked);
  std::string device = TRY(device_of(out.args.device));
  out.device = std::move(device);
  out.args.threads = read.threads;
  out.args.metrics = read.metrics == DG_METRICS_CORE ? "core" : "all";
  if (read.top_k != 0) out.args.top_k = read.top_k;
  out.args.top_rows = read.top_rows == 0                ? kDefaultTopRows
                      : read.top_rows == DG_NO_TOP_ROWS ? 0
                                                        : read.top_rows;
  out.keep_rows = read.keep_rows == 1;
  if (read.progress != nullptr) {
    out.progress = [call = read.progress, user = read.user](std::uint64_t done, std::uint64_t total) {
      if (call(user, done, total) != 0) throw Cancelled{};
    };
  }
  return out;
}

void make_report(dg_result& result, const Options& options, const ReportOn& on) {
  result.report = drift::make_report({on.contract, result.floors, on.has_tokens, on.partial}, result.table,
                                     {options.args.core(), options.args.device, std::nullopt});
}

void append_figures(std::span<const driftgate_row> rows, std::vector<double>& figures) {
  for (const driftgate_row& row : rows)
    figures.insert(figures.end(), std::begin(row.values), std::end(row.values));
}

namespace {

std::vector<const gpu::Capture*> floor_of(const dg_capture* const (&given)[2]) {
  std::vector<const gpu::Capture*> out;
  for (const dg_capture* capture : given) {
    if (capture != nullptr) out.push_back(&capture->capture);
  }
  return out;
}

Result<std::unique_ptr<dg_result>> measure(const dg_inputs& inputs, const Options& options) {
  const gpu::Capture& train = inputs.train->capture;
  const gpu::Capture& inf = inputs.inf->capture;
  const gpu::Corpus* corpus = inputs.corpus == nullptr ? nullptr : inputs.corpus->corpus.get();
  const schema::Contract* contract = inputs.contract == nullptr ? nullptr : inputs.contract->contract.get();
  auto result = std::make_unique<dg_result>();
  const drift::FloorCaptures floors{floor_of(inputs.floor_train), floor_of(inputs.floor_inf)};
  // Floors have the rows of the drift: all of them count, those of the floors first.
  const std::uint64_t of_floors =
      train.rows() * ((floors.train.empty() ? 0 : 1) + (floors.inf.empty() ? 0 : 1));
  const std::uint64_t all = of_floors + train.rows();
  const auto behind = [&](std::uint64_t before) {
    gpu::Progress out;
    if (options.progress)
      out = [&options, before, all](std::uint64_t done, std::uint64_t) {
        options.progress(std::min(before + done, all), all);
      };
    return out;
  };
  auto measured = TRY(drift::measure_floors(
      {train, inf, corpus, contract}, floors,
      {.threads = options.args.threads, .device = options.device, .progress = behind(0)}));
  result->floors = std::move(measured);
  gpu::RowSink sink;
  if (options.keep_rows) {
    result->figures.emplace().reserve(static_cast<std::size_t>(train.rows()) * gpu::kRowMetricCount);
    sink = [&result](std::uint64_t, std::span<const driftgate_row> rows) -> Result<void> {
      append_figures(rows, *result->figures);
      return {};
    };
  }
  auto table = TRY(gpu::measure_with_bits(train, inf, corpus, options.for_terms(contract, corpus),
                                          drift::bits_for(contract), behind(of_floors), sink));
  result->table = std::move(table);
  // Captures with other tokens are not measured, and the table has NaN in their rows.
  if (result->figures && result->figures->empty())
    result->figures->assign(static_cast<std::size_t>(train.rows()) * gpu::kRowMetricCount,
                            std::numeric_limits<double>::quiet_NaN());
  make_report(*result, options, {contract, train.has_tokens(), gpu::is_partial(train.mode())});
  return result;
}

}  // namespace

}  // namespace driftgate::library

using namespace driftgate;
using namespace driftgate::library;

extern "C" {

dg_status dg_measure(const dg_inputs* inputs, const dg_options* options, dg_result** out, dg_error* error) {
  return guarded(error, [&]() -> schema::Result<void> {
    TRY(needed(out, "out"));
    const dg_inputs given = TRY(read_struct(inputs, "the inputs"));
    TRY(needed(given.train, "train"));
    TRY(needed(given.inf, "inf"));
    const Options how = TRY(read_options(options));
    auto result = TRY(measure(given, how));
    *out = result.release();
    return {};
  });
}

}  // extern "C"
