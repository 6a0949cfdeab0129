#pragma once

#include <cstdint>
#include <string_view>

namespace driftgate::fault {

/// How often a fault is tried: the CI column of the table in docs/reliability.md, or the nightly one when
/// DRIFTGATE_FAULT_COLUMN is "nightly" (scripts/soak sets it).
int rounds(int ci, int nightly);

/// DRIFTGATE_TEST_SEED, or a new one; print it with what fails.
std::uint64_t seed_of_run();

/// One line that scripts/soak collects: "fault: NAME: COUNT …".
void tell(std::string_view name, std::uint64_t seed, std::string_view result);

}  // namespace driftgate::fault
