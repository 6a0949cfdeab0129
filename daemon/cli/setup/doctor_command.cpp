#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "daemon/base/clock.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/setup/doctor_checks.hpp"
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

/// What asks the daemon: with the data folder's admin token where it may be read and no other was named.
ConnectionArgs asking(ConnectionArgs connection, const Deployment* deployment) {
  if (deployment == nullptr || !connection.token_file.empty()) return connection;
  const auto admin = deployment->data_dir / "admin.token";
  if (::access(admin.c_str(), R_OK) == 0) connection.token_file = admin.string();
  return connection;
}

void ask_daemon(const ConnectionArgs& connection, const Deployment* deployment, Findings& into) {
  auto client = Client::open(connection);
  if (!client) return into.skipped("what the daemon knows", client.error().message);
  check_daemon(*client, connection.url, connection.tls, deployment, into);
}

std::string text_in(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Looks at everything that can be reached. `deployment` is empty for a daemon that only its URL is known of.
void look(const Deployment* deployment, ConnectionArgs connection, Findings& into) {
  if (connection.tls.ca.empty()) connection.tls.ca = text_in("DRIFTGATE_CA");
  const bool is_running = !connection.url.empty() && answers(connection.url, connection.tls);
  if (deployment != nullptr) {
    check_files(*deployment, into);
    check_keys(*deployment, into);
    check_backups(*deployment, base::wall_clock_us(), into);
    check_processes(*deployment, is_running, into);
    if (!is_running) check_idle_head(*deployment, into);
  }
  if (is_running)
    ask_daemon(asking(std::move(connection), deployment), deployment, into);
  else if (deployment == nullptr)
    into.error("daemon", "none answers at " + connection.url, "start it, or give the right --url");
  else
    into.skipped("engines, clocks, schedules, webhooks", "no daemon answers at " + connection.url);
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
    if (deployment && connection.url.empty()) connection.url = deployment->url();
  }
  if (args.alive && findings.empty()) return say_whether_alive(connection.url);
  if (deployment || !connection.url.empty()) look(deployment ? &*deployment : nullptr, connection, findings);
  print_line(given.json ? findings.json() : findings.text().substr(0, findings.text().size() - 1));
  return findings.empty() ? kExitOk : kExitViolated;
}

}  // namespace driftgate::cli
