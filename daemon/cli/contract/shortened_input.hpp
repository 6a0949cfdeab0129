#pragma once

namespace driftgate::cli {

/// Captures are mapped; one that somebody shortens meanwhile ends the process by SIGBUS. From here on that is
/// exit 74 with a line on standard error which says so.
void explain_shortened_inputs();

}  // namespace driftgate::cli
