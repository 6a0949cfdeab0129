#pragma once

#include <memory>
#include <string>

#include "daemon/drift/inputs.hpp"
#include "daemon/library/driftgate.h"
#include "daemon/library/objects.hpp"
#include "gpu/drift.hpp"
#include "schema/error.hpp"

namespace driftgate::library {

/// The options of a call, read and checked.
struct Options {
  drift::MeasureArgs args;  ///< the device as asked for
  std::string device;       ///< as backends name it
  bool keep_rows = false;
  gpu::Progress progress;  ///< throws Cancelled; may be empty

  [[nodiscard]] gpu::MeasureOptions for_terms(const schema::Contract* contract,
                                              const gpu::Corpus* corpus) const;
};
/// `given` may be null. Errors: those of read_struct; invalid_argument and unsupported for a device.
[[nodiscard]] schema::Result<Options> read_options(const dg_options* given);

/// Turns the table of a result, which has its floors, into its report.
struct ReportOn {
  const schema::Contract* contract = nullptr;
  bool has_tokens = false, partial = false;
};
void make_report(dg_result& result, const Options& options, const ReportOn& on);

/// Appends the figures of rows to a list with all figures of a row after those of the row before.
void append_figures(std::span<const driftgate_row> rows, std::vector<double>& figures);

}  // namespace driftgate::library
