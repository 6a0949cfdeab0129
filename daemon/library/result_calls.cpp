#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "daemon/drift/drift_report.hpp"
#include "daemon/drift/reports/reports.hpp"
#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/objects.hpp"
#include "schema/metrics.hpp"

using namespace driftgate;
using namespace driftgate::library;
using schema::ErrorCode;
using schema::Result;

namespace {

Result<std::string> formatted(const drift::DriftReport& report, std::uint32_t format) {
  switch (format) {
    case DG_FORMAT_JSON:
      return drift::drift_json(report);
    case DG_FORMAT_MARKDOWN:
      return drift::report_markdown(report);
    case DG_FORMAT_JUNIT:
      return drift::report_junit(report);
    case DG_FORMAT_HTML:
      return schema::fail(ErrorCode::unsupported, "this library does not write pages of HTML");
    default:
      return schema::fail(ErrorCode::invalid_argument, fmt::format("there is no format {}", format));
  }
}

}  // namespace

extern "C" {

int32_t dg_result_verdict(const dg_result* result) {
  if (!result->report.has_contract) return DG_VERDICT_NONE;
  switch (result->report.verdict) {
    case schema::Verdict::pass:
      return DG_VERDICT_PASS;
    case schema::Verdict::inconclusive:
      return DG_VERDICT_INCONCLUSIVE;
    case schema::Verdict::violated:
      return DG_VERDICT_VIOLATED;
    case schema::Verdict::error:
      break;
  }
  return DG_VERDICT_ERROR;
}

int32_t dg_result_exit_code(const dg_result* result) {
  return drift::exit_code_of(result->report.verdict);
}

dg_status dg_result_format(const dg_result* result, uint32_t format, dg_text* text, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(result, "result"));
    TRY(needed(text, "text"));
    const std::lock_guard lock(result->mutex);
    auto found = result->texts.find(format);
    if (found == result->texts.end()) {
      std::string made = TRY(formatted(result->report, format));
      found = result->texts.emplace(format, std::move(made)).first;
    }
    *text = text_view(found->second);
    return {};
  });
}

uint64_t dg_result_rows(const dg_result* result) {
  return result->table.rows;
}

uint32_t dg_metric_count(void) {
  return gpu::kRowMetricCount;
}

const char* dg_metric_name(uint32_t metric) {
  // The names are literals, which end with NUL.
  return metric < gpu::kRowMetricCount ? schema::to_string(static_cast<schema::Metric>(metric)).data()
                                       : nullptr;
}

dg_status dg_result_column(const dg_result* result, uint32_t metric, uint64_t first, uint64_t count,
                           double* values, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(result, "result"));
    if (!result->figures)
      return schema::fail(ErrorCode::conflict,
                          "the figures of the rows were not kept: set keep_rows in the options");
    const std::uint64_t rows = result->figures->size() / gpu::kRowMetricCount;
    if (metric >= gpu::kRowMetricCount)
      return schema::fail(ErrorCode::invalid_argument, fmt::format("there is no figure {}", metric));
    if (first > rows || count > rows - first)
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("{} rows from {} on were asked for; there are {}", count, first, rows));
    if (count > 0) TRY(needed(values, "values"));
    for (std::uint64_t i = 0; i < count; ++i) {
      values[i] = (*result->figures)[static_cast<std::size_t>(first + i) * gpu::kRowMetricCount + metric];
    }
    return {};
  });
}

void dg_result_close(dg_result* result) {
  delete result;
}

}  // extern "C"
