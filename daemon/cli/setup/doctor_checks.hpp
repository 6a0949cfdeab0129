#pragma once

#include <cstdint>
#include <optional>

#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/deployment.hpp"
#include "daemon/cli/setup/findings.hpp"

namespace driftgate::cli {

// What `driftgate doctor` looks at. None of it changes anything.

/// Roots, adapters, folders with their permissions and space, webhooks' secrets, Slurm's programs.
void check_files(const Deployment& deployment, Findings& into);
/// Who may read keys and tokens, and whether the keys have copies (key_copies.hpp).
void check_keys(const Deployment& deployment, Findings& into);
/// The age of the newest backup.
void check_backups(const Deployment& deployment, std::int64_t now_us, Findings& into);
/// The router's socket, ports that others have taken, limits of descriptors. `is_running`: the daemon
/// answers.
void check_processes(const Deployment& deployment, bool is_running, Findings& into);
/// Whether the published head covers the log of a data folder that no daemon holds.
void check_idle_head(const Deployment& deployment, Findings& into);

/// Readiness, engines, clocks, page, schedules, webhooks of a daemon that answers; the published head where
/// the deployment is known. Answers of daemon and engines are untrusted.
void check_daemon(Client& client, const std::string& url, const net::TlsClientFiles& tls,
                  const Deployment* deployment, Findings& into);

/// The time of a Date header (RFC 9110), in seconds since the epoch; nothing for another form.
[[nodiscard]] std::optional<std::int64_t> date_from_header(std::string_view text);

}  // namespace driftgate::cli
