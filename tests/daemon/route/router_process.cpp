#include <string>
#include <vector>

#include "daemon/route/control/launcher.hpp"
#include "daemon/route/worker/router.hpp"

/// `router OPTIONS…`, as the product's binary runs it.
int main(int count, char** words) {
  const std::vector<std::string> arguments(words + (count > 1 ? 2 : 1), words + count);
  if (arguments.size() == 1 && arguments[0] == "--launched")
    return driftgate::route::become_launched_router();
  const auto options = driftgate::route::parse_router_arguments(arguments);
  return options ? driftgate::route::run_router(*options) : 64;
}
