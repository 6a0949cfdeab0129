#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/sessions.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/audit/audit.hpp"
#include "daemon/evidence/bundle/bundle_export.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/net/response.hpp"
#include "daemon/store/idempotency.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

using schema::Result;

/// What the daemon says of itself. By the version and the start of its process, clients tell one server from
/// another.
struct ServerFacts {
  std::string version{};
  std::int64_t started_us = 0;
  bool tls = false;  ///< the API's port speaks TLS
};

/// Who may come in. The daemon's is over the store, the tests' is in memory.
class TokenPort {
 public:
  virtual ~TokenPort() = default;
  virtual Result<auth::Principal> authenticate(std::string_view bearer) = 0;
  /// The same of a session's cookie; see daemon/auth/sessions.hpp for the errors of these three.
  virtual Result<auth::Principal> authenticate_session(std::string_view cookie) = 0;
  virtual Result<auth::OpenedSession> open_session(const auth::Principal& principal) = 0;
  /// Ends the session with which `principal` came in.
  virtual Result<void> end_session(const auth::Principal& principal) = 0;
  /// `unauthenticated` when the token or session with which `principal` came in has ended since.
  virtual Result<void> check(const auth::Principal& principal) = 0;
  /// The same as of the transaction of `reader`.
  virtual Result<void> check_in(store::Reader& reader, const auth::Principal& principal) = 0;
  virtual Result<auth::IssuedToken> issue(const auth::TokenRequest& request) = 0;
  virtual Result<std::vector<auth::TokenInfo>> list() = 0;
  virtual Result<void> revoke(std::string_view id, std::string_view revoked_by) = 0;
};

/// An inclusion proof for one entry in the tree of a signed head.
struct EntryProof {
  std::uint64_t seq = 0, tree_size = 0;
  std::string leaf_hash, root_hash;  ///< hex
  std::vector<std::string> path;     ///< hex, leaf to root
  std::string checkpoint;            ///< the signed note of `tree_size`
};

/// What shows the root of a tree to be that of the log: the signed note of its size, or, where the key of that
/// size is retired, the newest one with the consistency proof from that size to the note's.
struct SignedRoot {
  std::string root;                       ///< hex
  std::string checkpoint;                 ///< signed note
  std::vector<std::string> continuation;  ///< hex; empty when the note is of that size
};

struct ConsistencyProof {
  std::uint64_t from = 0, to = 0;
  std::vector<std::string> path;  ///< hex
  SignedRoot head;                ///< of `to`
};

/// What came to serve in a time, with what shows that nothing is left out.
struct AuditedPopulation {
  evidence::Population found{};
  SignedRoot from, to;            ///< of both ends of the span
  std::vector<std::string> path;  ///< hex; the consistency proof between them
};

/// The log, for those who read it.
class EvidencePort {
 public:
  virtual ~EvidencePort() = default;
  virtual Result<evidence::EntryPage> page(const evidence::EntryFilter& filter) = 0;
  /// `not_found` when the log is shorter.
  virtual Result<std::string> entry(std::uint64_t seq) = 0;
  virtual Result<std::string> checkpoint() = 0;
  virtual Result<EntryProof> proof(std::uint64_t seq) = 0;
  virtual Result<ConsistencyProof> consistency(std::uint64_t from, std::uint64_t to) = 0;
  virtual std::string verifier_key() = 0;
  /// Whether there is such a bundle. Errors of BundleExport::open.
  virtual Result<void> find_bundle(const evidence::BundleRequest& request) = 0;
  /// A bundle that was verified, made as it is sent. Errors of VerifiedBundles::open.
  virtual Result<std::shared_ptr<net::BodySource>> bundle(const evidence::BundleRequest& request) = 0;
  // What auditors ask; see daemon/evidence/audit/audit.hpp.
  virtual Result<std::string> served_at(const std::string& model, std::int64_t time_us) = 0;
  virtual Result<AuditedPopulation> population(const evidence::PopulationRequest& request) = 0;
  virtual Result<std::string> sample(const evidence::SampleRequest& request) = 0;
  virtual Result<evidence::EntryPage> exceptions(const evidence::ExceptionsRequest& request) = 0;
  /// Records that `actor` read the log (entry `evidence_read`); what a person repeats
  /// or reads in quick succession is counted, not recorded one by one: see read_notes.hpp. On a full disk it succeeds
  /// and the entry is owed, since reads are served then.
  virtual Result<void> note_read(const std::string& actor, const std::string& what) = 0;
  /// Records reads whose entries are owed, if there is space by now.
  virtual void settle_reads() = 0;
};

/// Answers kept under idempotency keys; see daemon/store/idempotency.hpp for the rules and errors.
class IdempotencyPort {
 public:
  virtual ~IdempotencyPort() = default;
  virtual Result<std::optional<store::StoredResponse>> find(const store::KeyedRequest& request) = 0;
  /// Keeps an answer whose request made nothing. What made something is kept by its own transaction
  /// (request_scope.hpp).
  virtual Result<void> keep(const store::KeyedRequest& request, const store::StoredResponse& response) = 0;
  /// Puts a newer answer in the place of the one that is kept.
  virtual Result<void> replace(const store::KeyedRequest& request, const store::StoredResponse& response) = 0;
};

}  // namespace driftgate::api
