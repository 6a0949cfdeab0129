#include "daemon/app/haproxy_command.hpp"

#include <fmt/core.h>

#include "daemon/app/options.hpp"
#include "daemon/app/settings.hpp"
#include "daemon/app/start_steps.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/haproxy/files.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/table/state_file.hpp"

namespace driftgate::app {
namespace {

namespace haproxy = route::haproxy;

schema::Result<std::string> write_files(const HaproxyArgs& args) {
  const auto settings = TRY(load_settings(args.config, args.data_dir));
  if (!is_behind_haproxy(settings))
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("the settings say data_plane: {}; set data_plane: haproxy to put HAProxy in "
                    "front of the router",
                    settings.data_plane));
  const auto options = router_options(settings).router;
  TRY(check_router_settings(settings, options));
  const auto at = TRY(route::parse_authority(options.listen));
  auto address = TRY(haproxy::router_address(options.listen, at.port));
  auto files = TRY(haproxy::StartFiles::open(options, std::move(address)));
  const auto path = files.files().config();
  const auto lock = route::lock_file(files.files().lock());
  if (!lock && lock.error().code == schema::ErrorCode::conflict) return path;
  if (!lock) return std::unexpected(lock.error());
  auto slots = TRY(haproxy::Slots::load(files.files().slots(), options.haproxy_models));
  const auto routes = TRY(route::load_state(options.state_path));
  const auto placed =
      haproxy::place_all(routes, slots, [](const std::string& model, const schema::Error& why) {
        fmt::print(stderr, "driftgate: HAProxy begins without model {}: {}\n", model, why.describe());
      });
  TRY(files.write(placed, slots));
  return path;
}

}  // namespace

int haproxy_command(const HaproxyArgs& args) {
  const auto path = write_files(args);
  if (!path) return cli::report(path.error());
  cli::print_line(*path);
  return cli::finish_output(cli::kExitOk);
}

}  // namespace driftgate::app
