#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// What ends with a program: nothing else, or all that it has started. Engines are often launchers of others;
/// the daemon ends its jobs itself, and leaves its router.
enum class Keep : std::uint8_t { program, all };

/// A program that `driftgate dev` runs: in a process group of its own, so that Ctrl-C of the terminal reaches
/// `dev` alone, and told to end when `dev` dies without ending it. Killed by the destructor if it still runs.
class Child {
 public:
  Child() = default;
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  /// Starts a program with standard output and error in `log` (0600), replaced. `io`, `not_found` without the
  /// program.
  [[nodiscard]] static schema::Result<Child> start(std::string name, const std::vector<std::string>& words,
                                                   const std::filesystem::path& log,
                                                   Keep keeping = Keep::program);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& log() const { return log_; }
  /// Readable once it has ended, with Keep::all once all of it has.
  [[nodiscard]] int fd() const { return process_.get(); }
  /// "with exit code 4" or "by signal 9" once it has ended.
  [[nodiscard]] std::optional<std::string> ended();
  /// Asks it to end and waits; what does not end in time is killed. False when something had to be.
  bool stop(std::chrono::milliseconds patience);

 private:
  std::string name_;
  std::filesystem::path log_;
  pid_t pid_ = -1;  ///< the keeper's for Keep::all
  int kill_signal_ = SIGKILL;
  base::UniqueFd process_;
  std::optional<std::string> end_;
};

/// The last lines of a file, for messages; at most 2,000 bytes.
[[nodiscard]] std::string tail_of(const std::filesystem::path& file);

}  // namespace driftgate::cli
