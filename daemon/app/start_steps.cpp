#include "daemon/app/start_steps.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/app/options.hpp"
#include "daemon/auth/sessions.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/route/gateway/kube_api.hpp"
#include "daemon/route/gateway/target.hpp"
#include "daemon/route/http/operations.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/store/idempotency.hpp"

namespace driftgate::app {

using schema::Result;

namespace {

constexpr std::int64_t kRequestsKept_us = 7LL * 86'400 * 1'000'000;

}  // namespace

Result<evidence::AttestationSigner> open_attestations(store::Store& store, const Settings& settings,
                                                      std::int64_t now_us) {
  const evidence::KeyFile file{evidence::KeyUse::attestation, attestation_key_file(settings),
                               settings.evidence_origin};
  TRY(evidence::finish_rotation(store, file));
  auto signer = TRY(evidence::AttestationSigner::open(file.path.string(), file.name));
  const auto trust = TRY(evidence::load_trust(store.data_dir()));
  TRY(evidence::check_key(trust, file, signer.public_key()));
  TRY(evidence::note_key(store.data_dir(), file, signer.public_key(), 0, now_us));
  return signer;
}

Result<void> compare_tables(store::Store& store, const Log& log) {
  const auto found = TRY(evidence::compare_live_tables(store));
  if (found.empty()) return {};
  for (const auto& difference : found)
    log.error(fmt::format("differs from the log: {}", to_text(difference)));
  return schema::fail(
      schema::ErrorCode::corrupt,
      fmt::format(
          "the database differs from the signed log in {} places, the first is {}. Somebody changed it: "
          "restore a backup",
          found.size(), to_text(found.front())));
}

Result<void> admit_first_admin(store::Store& store, const Settings& settings, const Log& log,
                               std::int64_t now_us) {
  const auto file = data_dir_of(settings) / "admin.token";
  const bool first = TRY(auth::ensure_first_admin(store, file, now_us));
  if (first) log.info(fmt::format("the first admin token is in {}", file.string()));
  return {};
}

Result<void> forget_requests(store::Store& store, std::int64_t now_us) {
  TRY(store.write("forget old requests", [now_us](store::Tx& tx) -> Result<void> {
    TRY(auth::forget_sessions(tx, now_us));
    TRY(store::idempotency_forget(tx, now_us - kRequestsKept_us, true));
    return {};
  }));
  return {};
}

Result<void> check_router_settings(const Settings& settings, const route::RouterOptions& options) {
  if (auto paths = route::parse_further_paths(options.further_paths); !paths)
    return schema::wrap(paths.error(), "setting 'router.further_paths' cannot be used");
  const bool gateway = is_behind_gateway(settings);
  if (!is_behind_haproxy(settings) && !gateway) return {};
  const auto at = route::parse_authority(settings.router_listen);
  if (!at) return schema::wrap(at.error(), "setting 'router.listen' must be ADDRESS:PORT");
  if (at->port == 0)
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("with data_plane {} the setting 'router.listen' needs a fixed port: {} names it",
                    settings.data_plane, gateway ? "the router's Service" : "HAProxy's configuration"));
  if (!gateway) return {};
  TRY(route::gateway::target_of(options));
  TRY(route::gateway::KubeApi::open(options));
  return {};
}

Result<void> check_slurm_programs(const jobs::ChosenRunnerOptions& options) {
  if (options.choice == jobs::RunnerChoice::local) return {};
  TRY(jobs::check_resources(options.slurm.resources));
  const jobs::SlurmCommands commands(options.slurm.access);
  for (const auto* const program : {"sbatch", "squeue", "scancel"}) {
    if (auto found = commands.find(program); !found)
      return schema::wrap(found.error(), "jobs.runner sends jobs to Slurm");
  }
  return {};
}

Result<void> check_slurm(const jobs::ChosenRunnerOptions& options, const Log& log) {
  TRY(check_slurm_programs(options));
  if (options.choice == jobs::RunnerChoice::local) return {};
  const jobs::SlurmCommands commands(options.slurm.access);
  if (const auto answer = commands.ping(); !answer)
    log.warn(fmt::format("{}; jobs wait until it does", answer.error().describe()));
  return {};
}

Result<int> inherited_api_socket() {
  constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
  const char* const process = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  const bool ours = process != nullptr && count != nullptr && process == std::to_string(::getpid());
  if (!ours || std::string_view(count) == "0") return -1;
  if (std::string_view(count) != "1")
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("{} sockets were handed over (LISTEN_FDS); the API listens on one", count));
  ::fcntl(kFirst, F_SETFD, FD_CLOEXEC);
  return kFirst;
}

Result<void> check_data_plane(const Settings& settings, const route::RouterInfo& router,
                              const std::string& control_path) {
  if (router.plane == settings.data_plane) return {};
  return schema::fail(schema::ErrorCode::conflict,
                      fmt::format("the running router has data_plane {}, the settings say {}: stop it with "
                                  "'driftgate router-stop --socket {}', then start the daemon again",
                                  router.plane, settings.data_plane, control_path));
}

Result<std::unique_ptr<evidence::BackgroundCheck>> check_record(store::Store& store,
                                                                evidence::HeadPublisher& heads,
                                                                const Log& log) {
  const auto note = TRY(heads.signed_head());
  const auto head = TRY(evidence::read_checkpoint(note));
  return std::make_unique<evidence::BackgroundCheck>(
      store, head.checkpoint, [&log](const evidence::Difference& difference) {
        log.error(fmt::format("differs from the signed log: {}", to_text(difference)));
      });
}

}  // namespace driftgate::app
