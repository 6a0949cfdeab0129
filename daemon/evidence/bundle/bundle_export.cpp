#include "daemon/evidence/bundle/bundle_export.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/base/base64.hpp"
#include "daemon/evidence/bundle/statements.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/log_tree.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/log/subtrees.hpp"
#include "daemon/evidence/verify/derivation.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::ErrorCode;
using store::Reader;
using store::Sql;

namespace {

constexpr Sql kInOrder{"entries for a bundle",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT ?3"};
constexpr std::int64_t kEntriesAtOnce = 200;

std::string line(const json& object) {
  return object.dump() + "\n";
}

json hex_list(const std::vector<Hash>& hashes) {
  json list = json::array();
  for (const Hash& hash : hashes) list.push_back(schema::to_hex(hash));
  return list;
}

}  // namespace

class BundleExport::Impl {
 public:
  Impl(store::Store& store, const AttestationSigner& signer, BundleRequest request)
      : store_(store), signer_(signer), request_(std::move(request)) {}

  Result<void> begin(HeadPublisher& heads) {
    TRY(store_.read([&](Reader& reader) { return find_bounds(reader); }));
    auto note = TRY(heads.signed_head_at(size_));
    note_ = std::move(note);
    origin_ = note_.substr(0, note_.find('\n'));
    return {};
  }

  /// Begins again what was made before, within the same bounds.
  [[nodiscard]] std::unique_ptr<Impl> again() const {
    auto impl = std::make_unique<Impl>(store_, signer_, request_);
    impl->note_ = note_;
    impl->origin_ = origin_;
    impl->contract_ = contract_;
    impl->size_ = size_;
    impl->first_ = impl->at_ = first_;
    impl->end_ = end_;
    impl->expected_ = made_;
    return impl;
  }

  Result<std::string> next() {
    std::string lines;
    while (lines.empty() && phase_ != Phase::ended) {
      auto made = TRY(step());
      lines = std::move(made);
    }
    digest_.update(lines);
    return lines;
  }

 private:
  enum class Phase : std::uint8_t { head, contract, entries, attestations, blobs, end, ended };

  [[nodiscard]] bool of_promotion() const { return !request_.promotion.empty(); }

  Result<void> find_bounds(Reader& reader) {
    auto size = TRY(tree_size(reader));
    size_ = size;
    if (request_.older_size && *request_.older_size > size_) {
      return schema::failf(ErrorCode::not_found, "the evidence log has {} entries, not {}", size_,
                           *request_.older_size);
    }
    return of_promotion() ? find_promotion(reader) : find_range(reader);
  }

  Result<void> find_promotion(Reader& reader) {
    const auto found = TRY(first_entry(reader, {.promotion = request_.promotion}));
    if (!found) {
      return schema::failf(ErrorCode::not_found, "there is no promotion {}", request_.promotion);
    }
    auto entry = TRY(schema::decode_entry(found->bytes));
    contract_ = entry.draft.subject.contract.value_or("");
    end_ = size_;
    return {};
  }

  /// From the entry before the first in the range to the one after the last, so that both ends are to be
  /// seen.
  Result<void> find_range(Reader& reader) {
    if (request_.to_us < request_.from_us) {
      return schema::fail(ErrorCode::invalid_argument, "the time range ends before it begins");
    }
    if (request_.from_us < 0 || request_.to_us > schema::kMaxEntryInteger) {
      return schema::fail(ErrorCode::invalid_argument,
                          "the times of a bundle lie between 0 and 2^53 − 1 microseconds since the epoch");
    }
    const auto since = TRY(first_entry(reader, {.from_us = request_.from_us}));
    const auto before = TRY(first_entry(reader, {.to_us = request_.to_us, .newest_first = true}));
    const std::uint64_t first = since ? static_cast<std::uint64_t>(since->seq) : size_;
    const std::uint64_t end = before ? static_cast<std::uint64_t>(before->seq) + 1 : 0;
    first_ = at_ = first > 0 ? first - 1 : 0;
    end_ = std::max(first_, std::min(std::max(first, end) + 1, size_));
    return {};
  }

  Result<std::string> step() {
    switch (phase_) {
      case Phase::head:
        phase_ = of_promotion() ? Phase::contract : Phase::entries;
        return store_.read([&](Reader& reader) { return head_lines(reader); });
      case Phase::contract:
        phase_ = Phase::entries;
        return store_.read([&](Reader& reader) { return contract_line(reader); });
      case Phase::entries:
        return store_.read([&](Reader& reader) { return entry_lines(reader); });
      case Phase::attestations:
        phase_ = Phase::blobs;
        return attestation_lines();
      case Phase::blobs:
        return store_.read([&](Reader& reader) { return blob_line(reader); });
      case Phase::end:
        phase_ = Phase::ended;
        return end_line();
      case Phase::ended:
        break;
    }
    return std::string();
  }

  Result<std::string> head_lines(Reader& reader) {
    json header{{"t", "bundle"}, {"v", 1}, {"origin", origin_}, {"tree_size", size_}, {"checkpoint", note_}};
    if (of_promotion()) {
      header["promotion"] = request_.promotion;
    } else {
      header["from_us"] = request_.from_us;
      header["to_us"] = request_.to_us;
    }
    std::string lines = line(header);
    if (request_.older_size) {
      auto root = TRY(root_at(reader, *request_.older_size));
      auto proof = TRY(consistency_proof(reader, *request_.older_size, size_));
      lines += line({{"t", "consistency"},
                     {"size", *request_.older_size},
                     {"root", schema::to_hex(root)},
                     {"proof", hex_list(proof)}});
    }
    if (of_promotion()) return lines;
    auto left = TRY(subtrees(reader, 0, first_));
    auto right = TRY(subtrees(reader, end_, size_));
    return lines + line({{"t", "range"}, {"first", first_}, {"end", end_}, {"left", left}, {"right", right}});
  }

  static Result<json> subtrees(Reader& reader, std::uint64_t begin, std::uint64_t end) {
    json list = json::array();
    for (const Subtree& part : subtrees_of(begin, end)) {
      auto hash = TRY(subtree(reader, part.level, part.index));
      list.push_back(schema::to_hex(hash));
    }
    return list;
  }

  Result<std::string> contract_line(Reader& reader) {
    auto contract = TRY(store::find_contract(reader, contract_));
    if (!contract) return schema::failf(ErrorCode::corrupt, "contract {} is not stored", contract_);
    return blob_text(contract->digest, contract->canonical);
  }

  std::string blob_text(const std::string& digest, const std::string& bytes) {
    ++blobs_;
    return line({{"t", "blob"}, {"digest", digest}, {"bytes", base::to_base64(bytes)}});
  }

  Result<std::vector<StoredEntry>> entries_of_promotion(Reader& reader) {
    auto page = TRY(query_entries(reader, {.promotion = request_.promotion,
                                           .end = static_cast<std::int64_t>(end_),
                                           .cursor = static_cast<std::int64_t>(at_) - 1,
                                           .limit = kEntriesAtOnce}));
    return std::move(page.entries);
  }

  Result<std::string> entry_lines(Reader& reader) {
    const auto found =
        TRY(of_promotion() ? entries_of_promotion(reader)
                           : list_rows<StoredEntry>(reader, kInOrder, {at_, end_, kEntriesAtOnce}));
    std::string lines;
    for (const StoredEntry& entry : found) {
      json entry_line{{"t", "entry"}, {"seq", entry.seq}, {"entry", entry.bytes}};
      at_ = static_cast<std::uint64_t>(entry.seq) + 1;
      ++entries_;
      if (of_promotion()) {
        auto proof = TRY(inclusion_proof(reader, static_cast<std::uint64_t>(entry.seq), size_));
        entry_line["proof"] = hex_list(proof);
        auto decoded = TRY(schema::decode_entry(entry.bytes));
        promotion_.follow(decoded);
      }
      lines += line(entry_line);
    }
    if (found.size() < static_cast<std::size_t>(kEntriesAtOnce)) {
      phase_ = of_promotion() ? Phase::attestations : Phase::end;
    }
    return lines;
  }

  Result<std::string> attestation_lines() {
    std::string lines;
    for (std::string& statement : statements_of(promotion_, origin_)) {
      auto envelope = TRY(signer_.seal(std::move(statement)));
      lines += R"({"envelope":)" + envelope_json(envelope) + ",\"t\":\"attestation\"}\n";
      ++attestations_;
    }
    const auto& named = promotion_.named_digests();
    if (request_.with_tables) wanted_.assign(named.begin(), named.end());
    std::erase(wanted_, contract_);
    return lines;
  }

  /// The next stored blob; what was too large to be stored is named by its digest only.
  Result<std::string> blob_line(Reader& reader) {
    while (!wanted_.empty()) {
      const std::string digest = std::move(wanted_.back());
      wanted_.pop_back();
      auto blob = TRY(store::find_blob(reader, digest));
      if (blob) return blob_text(digest, blob->bytes);
    }
    phase_ = Phase::end;
    return std::string();
  }

  Result<std::string> end_line() {
    made_ = schema::digest_text(digest_.finish());
    if (expected_ && *expected_ != made_) {
      return schema::fail(ErrorCode::corrupt, "the bundle is another one than was verified before");
    }
    return line({{"t", "end"},
                 {"entries", entries_},
                 {"attestations", attestations_},
                 {"blobs", blobs_},
                 {"digest", made_}});
  }

  store::Store& store_;
  const AttestationSigner& signer_;
  const BundleRequest request_;
  Phase phase_ = Phase::head;
  std::string note_, origin_, contract_;
  std::uint64_t size_ = 0, first_ = 0, end_ = 0, at_ = 0;
  std::uint64_t entries_ = 0, attestations_ = 0, blobs_ = 0;
  PromotionDerivation promotion_{[](std::int64_t, const std::string&) {}};
  std::vector<std::string> wanted_;
  schema::Sha256 digest_;
  std::string made_;                     ///< the digest of all lines before the end
  std::optional<std::string> expected_;  ///< the digest that they must come to have
};

BundleExport::BundleExport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BundleExport::~BundleExport() = default;

Result<std::unique_ptr<BundleExport>> BundleExport::open(store::Store& store, HeadPublisher& heads,
                                                         const AttestationSigner& signer,
                                                         BundleRequest request) {
  auto impl = std::make_unique<Impl>(store, signer, std::move(request));
  TRY(impl->begin(heads));
  return std::unique_ptr<BundleExport>(new BundleExport(std::move(impl)));
}

Result<std::string> BundleExport::next() {
  return impl_->next();
}

std::unique_ptr<BundleExport> BundleExport::again() const {
  return std::unique_ptr<BundleExport>(new BundleExport(impl_->again()));
}

}  // namespace driftgate::evidence
