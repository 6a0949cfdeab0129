#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/pipeline/harness.hpp"

namespace driftgate::fault {

/// Ends the daemon in the middle of what it does. Not a std::exception, so that nothing takes it for a
/// failure.
struct Killed {};

/// Numbers the durable steps (each COMMIT by its name, each route that is applied, each job that is started,
/// each window that is acknowledged) and kills before or after the chosen one.
class Failpoints {
 public:
  Failpoints(std::int64_t at, bool after) : at_(at), after_(after) {}

  void attach(pipeline::fakes::Harness& harness) {
    harness.on_commit = [this](const std::string& what, bool done) { step("commit: " + what, done); };
    harness.committer->on_step = harness.on_commit;
    harness.driver.on_step =
        harness.runner.on_step = [this](const std::string& what, bool done) { step(what, done); };
  }

  std::vector<std::string> names;

 private:
  void step(const std::string& what, bool done) {
    if (!done) names.push_back(what);
    const bool here = static_cast<std::int64_t>(names.size()) - 1 == at_;
    if (here && done == after_ && !killed_) {
      killed_ = true;
      throw Killed{};
    }
  }

  const std::int64_t at_;
  const bool after_;
  bool killed_ = false;
};

/// Starts what was killed, as often as it is killed while it starts.
inline void boot(pipeline::fakes::Harness& h) {
  while (true) {
    try {
      h.kill();
      h.boot();
      return;
    } catch (const Killed&) {
    }
  }
}

}  // namespace driftgate::fault
