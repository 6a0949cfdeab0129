#include "daemon/app/check_start.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "daemon/app/options.hpp"
#include "daemon/app/start_steps.hpp"
#include "daemon/auth/sessions.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/net/tls_files.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/notify/traces/trace_sender.hpp"
#include "daemon/store/store.hpp"
#include "schema/failf.hpp"

namespace driftgate::app {
namespace {

namespace fs = std::filesystem;
using schema::Result;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// That files can be made in the folder.
Result<void> check_writable(std::string_view whose, const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return schema::failf(schema::ErrorCode::io, "{}: cannot write to the folder {}: {}", whose, folder.string(),
                       std::strerror(errno));
}

/// That the folder can be made where it is missing, and files in it.
Result<void> check_folder(std::string_view whose, fs::path folder) {
  while (!is_there(folder) && folder.has_relative_path()) folder = folder.parent_path();
  return check_writable(whose, folder);
}

/// A key that is there can be used; another one is made at the start.
Result<void> check_key(std::string_view whose, const fs::path& file, const fs::path& data_dir) {
  if (is_there(file)) TRY(evidence::SigningKey::load(file.string()));
  if (is_there(file) || file.parent_path() == data_dir) return {};
  return check_writable(whose, file.parent_path());
}

Result<void> check_evidence(const Settings& settings) {
  const auto data = data_dir_of(settings);
  const auto head = head_options(settings);
  TRY(check_key("evidence.key_file", head.key_file, data));
  TRY(check_key("evidence.attestation_key_file", attestation_key_file(settings), data));
  if (head.head_file.parent_path() != data)
    TRY(check_writable("evidence.head_file", head.head_file.parent_path()));
  TRY(evidence::load_trust(data));
  if (is_there(session_key_file(settings))) TRY(auth::session_key(session_key_file(settings)));
  return {};
}

Result<void> check_folders(const Settings& settings) {
  const auto router = router_options(settings).router;
  TRY(check_folder("data_dir", data_dir_of(settings)));
  TRY(check_folder("router.spool_dir", router.spool_dir));
  const auto in_folder = [](std::string_view whose, const std::string& file) -> Result<void> {
    if (file.empty()) return {};
    return check_writable(whose, fs::absolute(expand_home(file)).parent_path());
  };
  TRY(in_folder("port_file", settings.port_file));
  TRY(in_folder("router.port_file", settings.router_port_file));
  return in_folder("router.socket", settings.router_socket);
}

/// A router that runs is adopted, which needs its data plane to be the one of the settings.
Result<void> check_router(const Settings& settings) {
  const auto path = router_options(settings).router.control_path;
  const auto found = route::adopt_router(path);
  return found ? check_data_plane(settings, found->info, path) : Result<void>();
}

}  // namespace

Result<void> check_settings(const Settings& settings) {
  const auto server = TRY(server_options(settings));
  TRY(net::check_tls(server.tls));
  TRY(check_router_settings(settings, router_options(settings).router));
  const auto jobs = TRY(runner_options(settings));
  TRY(check_slurm_programs(jobs));
  TRY(notify::load_endpoints(webhook_settings(settings), webhook_policy(settings)));
  if (const auto traces = trace_settings(settings); !traces.endpoint.empty())
    TRY(notify::check_traces(traces));
  TRY(check_folders(settings));
  return check_evidence(settings);
}

int report_unusable(const schema::Error& error) {
  cli::report(error);
  const int code = cli::exit_code_of(error.code);
  return code == cli::kExitIo ? code : cli::kExitUsage;
}

int check_start(const Settings& settings) {
  const auto data = data_dir_of(settings);
  const auto version = store::Store::look(data);
  if (version && *version)
    cli::print_line(fmt::format("In {} the database has schema version {}.", data.string(), **version));
  else if (version)
    cli::print_line(fmt::format("In {} there is no database yet.", data.string()));
  auto usable = check_settings(settings);
  if (usable) usable = check_router(settings);
  if (usable && version) usable = store::Store::check_room(data);
  // Both, since each may be repaired before the other is looked at again.
  if (!version) cli::report(version.error());
  if (!usable) return report_unusable(usable.error());
  if (!version) return cli::exit_code_of(version.error().code);
  cli::print_line("The daemon can start with these settings.");
  return cli::kExitOk;
}

}  // namespace driftgate::app
