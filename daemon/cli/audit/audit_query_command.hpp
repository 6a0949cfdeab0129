#pragma once

#include <cstdint>
#include <string>

#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {

/// The options of `driftgate evidence` and of the commands of `driftgate audit` that query a running daemon;
/// each uses some of them.
struct AuditArgs {
  std::string model, promotion, stage, checkpoint, contract, kernel, kind, actor, clause, verdict;
  std::string from, to;  ///< times, see parse_time
  std::string at;        ///< time of `audit at`
  std::string seed;      ///< of a sample
  std::uint64_t count = 25;
  std::uint64_t size = 0;  ///< of the log that a sample is drawn from; 0: the whole log
  std::uint64_t limit = 100;
  bool newest = false;
};

/// A filter of entries: its option, --NAME, and the parameter of the API.
struct EntryFilter {
  const char* name;
  std::string AuditArgs::*member;
  const char* text;
};
inline constexpr EntryFilter kEntryFilters[] = {
    {"model", &AuditArgs::model, "About this model"},
    {"promotion", &AuditArgs::promotion, "About this promotion"},
    {"stage", &AuditArgs::stage, "Of this stage"},
    {"checkpoint", &AuditArgs::checkpoint, "About this checkpoint, sha256:…"},
    {"contract", &AuditArgs::contract, "Under this contract, sha256:…"},
    {"kernel", &AuditArgs::kernel, "About this kernel, name or digest"},
    {"kind", &AuditArgs::kind, "Of this kind"},
    {"actor", &AuditArgs::actor, "By this actor"},
    {"clause", &AuditArgs::clause, "Of this clause, family.id"},
    {"verdict", &AuditArgs::verdict, "With this verdict"},
};

/// `driftgate evidence`: the exact bytes of entry `seq`, or one line for each entry that the filters leave.
int evidence(const ConnectionArgs& connection, const std::string& seq, const AuditArgs& args);
int audit_query(const ConnectionArgs& connection, const AuditArgs& args);
int audit_at(const ConnectionArgs& connection, const AuditArgs& args);
int audit_population(const ConnectionArgs& connection, const AuditArgs& args);
int audit_sample(const ConnectionArgs& connection, const AuditArgs& args);
int audit_exceptions(const ConnectionArgs& connection, const AuditArgs& args);

}  // namespace driftgate::cli
