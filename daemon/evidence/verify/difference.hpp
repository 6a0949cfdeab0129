#pragma once

#include <functional>
#include <string>

namespace driftgate::evidence {

/// Something in the database that does not follow from the signed log, or in the log that its signature does
/// not cover.
struct Difference {
  std::string where;  ///< what is concerned, as an operator knows it: "route of model 'a'", "evidence entry 12"
  std::string what;   ///< what is stored, and what it should be: a main clause without a full stop
  bool unfinished = false;  ///< nobody changed anything: a daemon that starts finishes what is missing
  bool operator==(const Difference&) const = default;
};

/// "where: what".
[[nodiscard]] inline std::string to_text(const Difference& difference) {
  return difference.where + ": " + difference.what;
}

/// Called by a long check between its reads, each of which is a short transaction. It may sleep to bound the
/// speed. False: stop, and return what was found until now.
using GoOn = std::function<bool()>;

}  // namespace driftgate::evidence
