#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/slurm/slurm_commands.hpp"

namespace driftgate::cli {

inline constexpr std::size_t kMaxSocketPath = 107;  ///< bytes of the path of a socket (sockaddr_un)

/// What the commands of this folder know of a daemon from its settings, every path absolute. daemon/app fills
/// it in (Hooks::deployment), since settings are read there.
struct Deployment {
  /// An endpoint of `webhooks.endpoints`.
  struct Webhook {
    std::string name, secret_file;
  };
  /// A program of `adapters`.
  struct Adapter {
    std::string name, program;
  };

  std::string listen;         ///< ADDRESS:PORT of the API
  std::string router_listen;  ///< of users' traffic
  std::string data_plane;     ///< router, haproxy or gateway_api
  bool tls = false;           ///< the API speaks https
  std::filesystem::path data_dir, router_socket, spool_dir, head_file, head_key, attestation_key, session_key,
      backup_dir, engine_files, jobs_dir;
  std::vector<std::filesystem::path> secrets;  ///< further files that only the daemon's user may read
  std::vector<std::filesystem::path> roots;
  std::vector<Adapter> adapters;
  std::vector<Webhook> webhooks;
  std::uint64_t descriptors =
      0;  ///< that daemon and router take at their configured limits, the larger of both
  bool uses_slurm = false;
  jobs::SlurmAccess slurm;
  std::filesystem::path slurm_jobs_dir, slurm_template;  ///< the template may be empty

  /// "http://127.0.0.1:7433" of an API on this machine; empty where the port is chosen at the start.
  [[nodiscard]] std::string url() const;
};

/// The address and the port of "ADDRESS:PORT", with brackets around an IPv6 address; the port is 0 where the
/// text is none.
[[nodiscard]] std::pair<std::string, std::uint16_t> address_and_port(const std::string& listen);

}  // namespace driftgate::cli
