#pragma once

namespace driftgate::simulation {

/// Prints one JSON object a line: a method's name, its inputs, and what driftgate makes of them, for a
/// program that computes the same by other means (independent_check.py).
void print_cases();

}  // namespace driftgate::simulation
