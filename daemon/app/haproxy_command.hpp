#pragma once

#include <string>

namespace driftgate::app {

struct HaproxyArgs {
  std::string config;    ///< the daemon's settings file; empty: defaults
  std::string data_dir;  ///< empty: as configured
};

/// `driftgate haproxy config`: writes the files that HAProxy starts with and prints the path of its
/// configuration. A running router keeps them current; then only the path is printed. Returns the exit code.
[[nodiscard]] int haproxy_command(const HaproxyArgs& args);

}  // namespace driftgate::app
