#include "daemon/app/deployment.hpp"

#include <algorithm>

#include "daemon/app/options.hpp"
#include "daemon/app/settings.hpp"

namespace driftgate::app {

namespace fs = std::filesystem;

schema::Result<cli::Deployment> deployment_of(const std::string& config, const std::string& data_dir) {
  const auto settings = TRY(load_settings(config, data_dir));
  const auto absolute = [](const std::string& path) { return fs::absolute(expand_home(path)); };
  const auto router = router_options(settings);
  const auto head = head_options(settings);
  cli::Deployment found;
  found.listen = settings.listen;
  found.router_listen = settings.router_listen;
  found.data_plane = settings.data_plane;
  found.tls = !settings.tls_cert_file.empty();
  found.data_dir = data_dir_of(settings);
  found.router_socket = router.router.control_path;
  found.spool_dir = router.router.spool_dir;
  found.head_file = head.head_file;
  found.head_key = head.key_file;
  found.attestation_key = attestation_key_file(settings);
  found.session_key = session_key_file(settings);
  found.backup_dir = backup_dir_of(settings);
  found.engine_files = settings.engines_files_dir.empty() ? found.data_dir / "engine-files"
                                                          : absolute(settings.engines_files_dir);
  found.jobs_dir = found.data_dir / "jobs";
  if (!settings.tls_key_file.empty()) found.secrets.push_back(absolute(settings.tls_key_file));
  for (const auto& root : settings.roots) found.roots.push_back(absolute(root));
  for (const auto& [name, words] : settings.adapters)
    found.adapters.push_back({name, words.empty() ? "" : words.front()});
  for (const auto& endpoint : webhook_settings(settings))
    found.webhooks.push_back({endpoint.name, endpoint.secret_file});
  // A user's stream takes the connection and one to its engine, a mirrored request one more.
  constexpr std::int64_t kForEachUser = 2, kBesides = 256;
  found.descriptors = static_cast<std::uint64_t>(
      std::max(kForEachUser * settings.router_max_connections, settings.http_max_connections) + kBesides);
  found.uses_slurm = settings.jobs_runner != "local";
  found.slurm = slurm_access(settings);
  found.slurm_jobs_dir = settings.slurm_jobs_dir.empty() ? found.jobs_dir : absolute(settings.slurm_jobs_dir);
  if (!settings.slurm_template.empty()) found.slurm_template = absolute(settings.slurm_template);
  return found;
}

}  // namespace driftgate::app
