#pragma once

#include <cstdint>
#include <string>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {

/// What the commands of `driftgate audit` take that ask a running daemon; each uses some of it.
struct AuditArgs {
  std::string model, promotion, stage, checkpoint, contract, kernel, kind, actor, clause, verdict;
  std::string from, to;  ///< times, see parse_time
  std::string at;        ///< time of `audit at`
  std::string seed;      ///< of a sample
  std::uint64_t count = 25;
  std::uint64_t size = 0;  ///< of the log that a sample is drawn from; 0: as it is
  std::uint64_t limit = 100;
  bool newest = false;
};

int audit_query(const ConnectionArgs& connection, const AuditArgs& args);
int audit_at(const ConnectionArgs& connection, const AuditArgs& args);
int audit_population(const ConnectionArgs& connection, const AuditArgs& args);
int audit_sample(const ConnectionArgs& connection, const AuditArgs& args);
int audit_exceptions(const ConnectionArgs& connection, const AuditArgs& args);

}  // namespace driftgate::cli
