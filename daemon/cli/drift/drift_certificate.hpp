#pragma once

#include "daemon/cli/drift/drift_command.hpp"
#include "daemon/drift/drift_report.hpp"
#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// Writes the certificate of `report` to args.certificate as a page of Markdown. Digests of the captures and
/// of the corpus are taken here, so that others need not wait for them. Errors: io.
[[nodiscard]] schema::Result<void> write_certificate(const DriftArgs& args, const drift::DriftReport& report,
                                                     const gpu::Capture& train, const gpu::Capture& inf);

}  // namespace driftgate::cli
