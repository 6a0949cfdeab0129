#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "daemon/base/clock.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/setup/as_owner.hpp"
#include "daemon/cli/setup/doctor_checks.hpp"
#include "daemon/cli/setup/ports.hpp"
#include "daemon/cli/setup/setup_commands.hpp"

namespace driftgate::cli {
namespace {

constexpr const char* kInstalledSettings = "/etc/driftgate/driftgate.yaml";
constexpr std::chrono::milliseconds kHealthTime{3'000};

/// Whether a daemon answers under a URL.
bool answers(const std::string& url, const net::TlsClientFiles& tls) {
  const auto parsed = net::parse_url(url);
  if (!parsed) return false;
  const auto answer = net::HttpClient(*parsed, {.total_timeout = kHealthTime, .tls = tls})
                          .send({.target = net::join_target(parsed->target, "/healthz")});
  return answer && answer->status == 200 && answer->body.find("\"ok\"") != std::string::npos;
}

/// Whether something speaks HTTP there, whatever it says. To a request without TLS a daemon with TLS answers
/// that it wants it: no certificate has to be trusted, and none shown.
int say_whether_alive(const std::string& url) {
  auto parsed = net::parse_url(url);
  if (!parsed) return report(parsed.error());
  parsed->tls = false;
  const auto answer = net::HttpClient(*parsed, {.connect_timeout = kHealthTime, .total_timeout = kHealthTime})
                          .send({.target = net::join_target(parsed->target, "/healthz")});
  if (!answer) {
    report(schema::wrap(answer.error(), fmt::format("no daemon answers at {}", url)).error());
    return kExitUnreachable;
  }
  print_line(fmt::format("a daemon answers at {}", url));
  return kExitOk;
}

/// The settings of this machine: those that were named, else the package's, else the defaults.
schema::Result<Deployment> local_deployment(const DoctorArgs& args, const ReadDeployment& read) {
  std::string config = args.config;
  if (config.empty() && args.data_dir.empty() && ::access(kInstalledSettings, F_OK) == 0)
    config = kInstalledSettings;
  return read(config, args.data_dir);
}

std::string text_in(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Who listens at a deployment's own address. Anybody may listen on the port of a daemon that does not run,
/// and must not be given its tokens.
enum class Answerer {
  none,    ///< nobody, or somebody else than the daemon
  ours,    ///< the user whom the data folder belongs to, or root, who could read it anyway
  unknown  ///< this user may not see who
};

Answerer answerer_of(const Deployment& deployment) {
  struct stat folder {};
  if (::stat(deployment.data_dir.c_str(), &folder) != 0)
    return errno == ENOENT ? Answerer::none : Answerer::unknown;
  const auto listener = find_listener(address_and_port(deployment.listen).second);
  if (listener.users == std::set<uid_t>{folder.st_uid}) return Answerer::ours;
  // A request would start the service that is stopped.
  if (listener.is_waiting()) return Answerer::none;
  if (listener.users == std::set<uid_t>{0} && listener.pid != 0) {
    const bool trusted = listener.holder == 0 || listener.holder == folder.st_uid;
    return trusted ? Answerer::ours : Answerer::none;
  }
  return listener.is_hidden() ? Answerer::unknown : Answerer::none;
}

/// With the data folder's admin token. Root reads it as the folder's owner, who could have put a link to
/// another file in its place.
schema::Result<Client> own_client(ConnectionArgs connection, const Deployment& deployment) {
  connection.token_file = (deployment.data_dir / "admin.token").string();
  const AsOwner owner(deployment.data_dir);
  if (owner.failed())
    return schema::fail(schema::ErrorCode::forbidden, "root may not become the owner of the data folder");
  return Client::open(connection);
}

/// `own`: the URL is that of the deployment's settings, and who answers is known. A token in the environment
/// belongs to the daemon in the environment and is not sent there.
void ask_daemon(const ConnectionArgs& connection, const Deployment* deployment, bool own, Findings& into) {
  const bool named = !own || !connection.token_file.empty();
  auto client = named ? Client::open(connection) : own_client(connection, *deployment);
  if (!client)
    return into.skipped("what the daemon knows",
                        client.error().message + (named ? "" : "; give a token with --token-file"));
  check_daemon(*client, connection.url, connection.tls, deployment, into);
}

/// Files as the daemon's user sees them: what root may read says nothing about the daemon.
void look_at_files(const Deployment& deployment, bool is_running, Findings& into) {
  std::error_code error;
  const AsOwner daemon(deployment.data_dir);
  if (daemon.failed() || (::geteuid() == 0 && !std::filesystem::exists(deployment.data_dir, error)))
    into.skipped("what root may read and the daemon's user may not", "run doctor as the daemon's user");
  check_files(deployment, into);
  check_keys(deployment, into);
  check_backups(deployment, base::wall_clock_us(), into);
  if (!is_running) check_idle_head(deployment, into);
}

/// Looks at everything that can be reached. `deployment` is empty for a daemon that only its URL is known of.
void look(const Deployment* deployment, ConnectionArgs connection, Findings& into) {
  if (connection.tls.ca.empty()) connection.tls.ca = text_in("DRIFTGATE_CA");
  const bool own = deployment != nullptr && connection.url.empty();
  if (own) connection.url = deployment->url();
  const auto answerer = own ? answerer_of(*deployment) : Answerer::ours;
  const bool is_running =
      answerer == Answerer::ours && !connection.url.empty() && answers(connection.url, connection.tls);
  if (deployment != nullptr) {
    look_at_files(*deployment, is_running, into);
    check_processes(*deployment, is_running, into);
  }
  if (is_running) return ask_daemon(connection, deployment, own, into);
  if (deployment == nullptr)
    return into.error("daemon", "none answers at " + connection.url, "start it, or give the right --url");
  into.skipped("engines, clocks, schedules, webhooks",
               answerer == Answerer::unknown
                   ? "this user cannot tell who listens at " + connection.url +
                         "; run doctor as the daemon's user, or name the daemon with --url"
                   : "no daemon answers at " + connection.url);
}

}  // namespace

int doctor_command(const DoctorArgs& args, const ConnectionArgs& given, const ReadDeployment& read) {
  ConnectionArgs connection = given;
  const bool named = !args.config.empty() || !args.data_dir.empty();
  if (connection.url.empty() && !named) connection.url = text_in("DRIFTGATE_URL");
  Findings findings;
  std::optional<Deployment> deployment;
  if (named || connection.url.empty()) {
    auto read_here = local_deployment(args, read);
    if (read_here)
      deployment = std::move(*read_here);
    else
      findings.error("settings", read_here.error().message,
                     "correct the file; 'driftgate settings' prints every setting");
  }
  if (args.alive && findings.empty())
    return say_whether_alive(connection.url.empty() ? deployment->url() : connection.url);
  if (deployment || !connection.url.empty()) look(deployment ? &*deployment : nullptr, connection, findings);
  print_line(given.json ? findings.json() : findings.text().substr(0, findings.text().size() - 1));
  return findings.empty() ? kExitOk : kExitViolated;
}

}  // namespace driftgate::cli
