#include "daemon/api/stored_ports.hpp"

#include <fmt/core.h>

#include "daemon/api/read_notes.hpp"
#include "daemon/evidence/bundle/verified_bundles.hpp"
#include "daemon/evidence/log/log.hpp"
#include "schema/sha256.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;
using schema::fail;
using store::Reader;
using store::Store;
using store::Tx;

std::string hex(const evidence::Hash& hash) {
  return schema::to_hex(hash);
}

std::vector<std::string> hex(const std::vector<evidence::Hash>& path) {
  std::vector<std::string> out;
  for (const evidence::Hash& hash : path) out.push_back(hex(hash));
  return out;
}

class StoredTokens final : public TokenPort {
 public:
  StoredTokens(Store& store, NowFunction now_us, std::function<void()> on_revoked,
               const auth::SessionOptions& sessions)
      : store_(store), now_us_(std::move(now_us)), on_revoked_(std::move(on_revoked)), sessions_(sessions) {}

  Result<auth::Principal> authenticate(std::string_view bearer) override {
    const std::int64_t now = now_us_();
    return store_.read([&](Reader& reader) { return auth::authenticate(reader, bearer, now); });
  }
  Result<void> check(const auth::Principal& principal) override {
    return store_.read([&](Reader& reader) { return check_in(reader, principal); });
  }
  Result<void> check_in(Reader& reader, const auth::Principal& principal) override {
    if (principal.session_id.empty()) return auth::check_token(reader, principal.token_id, now_us_());
    return auth::check_session(reader, sessions_, principal.session_id, now_us_());
  }
  Result<auth::Principal> authenticate_session(std::string_view cookie) override {
    const std::int64_t now = now_us_();
    return store_.read(
        [&](Reader& reader) { return auth::authenticate_session(reader, sessions_, cookie, now); });
  }
  Result<auth::OpenedSession> open_session(const auth::Principal& principal) override {
    const auth::TokenSecret secret = auth::random_secret();
    const std::int64_t now = now_us_();
    return store_.write("open session",
                        [&](Tx& tx) { return auth::open_session(tx, sessions_, principal, secret, now); });
  }
  Result<void> end_session(const auth::Principal& principal) override {
    auto ended =
        store_.write("end session", [&](Tx& tx) { return auth::end_session(tx, principal.session_id); });
    if (ended && on_revoked_) on_revoked_();
    return ended;
  }
  Result<auth::IssuedToken> issue(const auth::TokenRequest& request) override {
    const auth::TokenSecret secret = auth::random_secret();
    const std::int64_t now = now_us_();
    return store_.write("issue token", [&](Tx& tx) { return auth::issue_token(tx, request, secret, now); });
  }
  Result<std::vector<auth::TokenInfo>> list() override {
    return store_.read([](Reader& reader) { return auth::list_tokens(reader); });
  }
  Result<void> revoke(std::string_view id, std::string_view revoked_by) override {
    const std::int64_t now = now_us_();
    auto revoked =
        store_.write("revoke token", [&](Tx& tx) { return auth::revoke_token(tx, id, revoked_by, now); });
    if (revoked && on_revoked_) on_revoked_();
    return revoked;
  }

 private:
  Store& store_;
  NowFunction now_us_;
  std::function<void()> on_revoked_;
  const auth::SessionOptions sessions_;
};

class BundleBody final : public net::BodySource {
 public:
  explicit BundleBody(std::unique_ptr<evidence::BundleExport> bundle) : bundle_(std::move(bundle)) {}
  Result<std::string> next() override { return bundle_->next(); }

 private:
  std::unique_ptr<evidence::BundleExport> bundle_;
};

class StoredEvidence final : public EvidencePort {
 public:
  StoredEvidence(Store& store, evidence::HeadPublisher& heads, const evidence::AttestationSigner& attestations,
                 NowFunction now_us, LogFunction warn, LogFunction log_error)
      : store_(store),
        heads_(heads),
        bundles_(store, heads, attestations, std::move(log_error)),
        now_us_(std::move(now_us)),
        warn_(std::move(warn)) {}

  Result<evidence::EntryPage> page(const evidence::EntryFilter& filter) override {
    return store_.read([&](Reader& reader) { return evidence::query_entries(reader, filter); });
  }
  Result<std::string> entry(std::uint64_t seq) override {
    auto found = TRY(store_.read(
        [&](Reader& reader) { return evidence::find_entry(reader, static_cast<std::int64_t>(seq)); }));
    if (!found) return fail(ErrorCode::not_found, fmt::format("the log has no entry {}", seq));
    return std::move(found->bytes);
  }
  Result<std::string> checkpoint() override { return heads_.signed_head(); }

  Result<EntryProof> proof(std::uint64_t seq) override {
    auto proof = store_.read([&](Reader& reader) { return proof_of(reader, seq); });
    if (!proof) return proof;
    auto note = TRY(heads_.signed_head_at(proof->tree_size));
    proof->checkpoint = std::move(note);
    return proof;
  }
  Result<ConsistencyProof> consistency(std::uint64_t from, std::uint64_t to) override {
    const auto path =
        TRY(store_.read([&](Reader& reader) { return evidence::consistency_proof(reader, from, to); }));
    auto head = TRY(signed_root(to));
    return ConsistencyProof{from, to, hex(path), std::move(head)};
  }
  std::string verifier_key() override { return heads_.verifier_key(); }

  Result<void> find_bundle(const evidence::BundleRequest& request) override { return bundles_.find(request); }
  Result<std::shared_ptr<net::BodySource>> bundle(const evidence::BundleRequest& request) override {
    auto opened = TRY(bundles_.open(request));
    return std::make_shared<BundleBody>(std::move(opened));
  }

  Result<std::string> served_at(const std::string& model, std::int64_t time_us) override {
    return store_.read([&](Reader& reader) { return evidence::served_at(reader, model, time_us); });
  }
  Result<AuditedPopulation> population(const evidence::PopulationRequest& request) override {
    auto audited = store_.read([&](Reader& reader) -> Result<AuditedPopulation> {
      auto found = TRY(evidence::population(reader, request));
      auto path = TRY(evidence::consistency_proof(reader, found.span.from_size, found.span.to_size));
      return AuditedPopulation{std::move(found), {}, {}, hex(path)};
    });
    if (!audited) return audited;
    auto from = TRY(signed_root(audited->found.span.from_size));
    auto to = TRY(signed_root(audited->found.span.to_size));
    audited->from = std::move(from);
    audited->to = std::move(to);
    return audited;
  }
  Result<std::string> sample(const evidence::SampleRequest& request) override {
    return store_.read([&](Reader& reader) { return evidence::sample(reader, request); });
  }
  Result<evidence::EntryPage> exceptions(const evidence::ExceptionsRequest& request) override {
    return store_.read([&](Reader& reader) { return evidence::exceptions(reader, request); });
  }

  Result<void> note_read(const std::string& actor, const std::string& what) override {
    const auto uncounted = notes_.admit(actor, what, now_us_());
    if (!uncounted) return {};
    const auto done = record_reads({{actor, {what, *uncounted + 1}}});
    if (done || done.error().code != ErrorCode::storage_full) return done;
    notes_.owe(actor, {what, *uncounted + 1});
    warn_(fmt::format(
        "{} read the log ({}); the disk is full, so the entry will be written once there is space", actor,
        what));
    return {};
  }
  void settle_reads() override {
    const auto owed = notes_.take_owed();
    if (owed.empty() || record_reads(owed)) return;
    for (const auto& [actor, reads] : owed) notes_.owe(actor, reads);
  }

 private:
  Result<SignedRoot> signed_root(std::uint64_t size) {
    auto head = TRY(heads_.head_of(size));
    return SignedRoot{hex(head.root), std::move(head.note), hex(head.continuation)};
  }

  static Result<EntryProof> proof_of(Reader& reader, std::uint64_t seq) {
    const auto size = TRY(evidence::tree_size(reader));
    if (seq >= size) return fail(ErrorCode::not_found, fmt::format("the log has no entry {}", seq));
    const auto entry = TRY(evidence::find_entry(reader, static_cast<std::int64_t>(seq)));
    if (!entry) return fail(ErrorCode::corrupt, fmt::format("entry {} is missing from the log", seq));
    const auto root = TRY(evidence::root_at(reader, size));
    const auto path = TRY(evidence::inclusion_proof(reader, seq, size));
    return EntryProof{seq, size, hex(evidence::leaf_hash(entry->bytes)), hex(root), hex(path), {}};
  }

  /// One entry for each person; `uncounted` are the reads beside the one that it names.
  Result<void> record_reads(const ReadNotes::OwedBy& reads) {
    return store_.write("note reads", [&](Tx& tx) -> Result<void> {
      for (const auto& [actor, read] : reads) {
        schema::EntryDraft draft;
        draft.time_us = now_us_();
        draft.kind = schema::EvidenceKind::evidence_read;
        draft.actor = actor;
        draft.body.emplace("what", schema::EntryValue(read.what));
        if (read.reads > 1) draft.body.emplace("uncounted", schema::EntryValue(read.reads - 1));
        TRY(evidence::append(tx, draft));
      }
      return {};
    });
  }

  Store& store_;
  evidence::HeadPublisher& heads_;
  evidence::VerifiedBundles bundles_;
  NowFunction now_us_;
  const LogFunction warn_;
  ReadNotes notes_;
};

class StoredIdempotency final : public IdempotencyPort {
 public:
  StoredIdempotency(Store& store, NowFunction now_us) : store_(store), now_us_(std::move(now_us)) {}

  Result<std::optional<store::StoredResponse>> find(const store::KeyedRequest& request) override {
    return store_.read([&](Reader& reader) { return store::idempotency_find(reader, request); });
  }
  Result<void> keep(const store::KeyedRequest& request, const store::StoredResponse& response) override {
    const std::int64_t now = now_us_();
    return store_.write("keep idempotent answer", [&](Tx& tx) {
      return store::idempotency_keep(tx, request, response, now);
    });
  }
  Result<void> replace(const store::KeyedRequest& request, const store::StoredResponse& response) override {
    return store_.write("replace idempotent answer",
                        [&](Tx& tx) { return store::idempotency_replace(tx, request, response); });
  }

 private:
  Store& store_;
  NowFunction now_us_;
};

}  // namespace

std::unique_ptr<TokenPort> stored_tokens(Store& store, NowFunction now_us, std::function<void()> on_revoked,
                                         const auth::SessionOptions& sessions) {
  return std::make_unique<StoredTokens>(store, std::move(now_us), std::move(on_revoked), sessions);
}

std::unique_ptr<EvidencePort> stored_evidence(Store& store, evidence::HeadPublisher& heads,
                                              const evidence::AttestationSigner& attestations,
                                              NowFunction now_us, LogFunction warn, LogFunction log_error) {
  return std::make_unique<StoredEvidence>(store, heads, attestations, std::move(now_us), std::move(warn),
                                          std::move(log_error));
}

std::unique_ptr<IdempotencyPort> stored_idempotency(Store& store, NowFunction now_us) {
  return std::make_unique<StoredIdempotency>(store, std::move(now_us));
}

}  // namespace driftgate::api
