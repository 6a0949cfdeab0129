#pragma once

namespace driftgate::app {

/// The version that CMake's project() states.
inline constexpr const char* kVersion = DRIFTGATE_VERSION;

}  // namespace driftgate::app
