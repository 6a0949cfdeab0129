#include <fmt/format.h>

#include "daemon/evidence/bundle/bundle_verifier.hpp"

namespace driftgate::evidence {

using schema::EvidenceKind;

namespace {

constexpr std::size_t kMaxOpenPromotions = 10'000;  ///< followed at the same time in a range

}  // namespace

PromotionDerivation::OnFault BundleVerifier::on_fault() {
  return [this](std::int64_t seq, const std::string& what) {
    report(BundleResult::underivable, "entry {}: {}", seq, what);
  };
}

void BundleVerifier::take_contract(const std::string& digest) {
  const auto found = blobs_.find(digest);
  if (found == blobs_.end()) {
    return report(BundleResult::incomplete, "the contract {} is not in front of the entries", digest);
  }
  auto terms = ContractTerms::read(found->second);
  if (!terms) {
    return report(BundleResult::underivable, "the contract {} cannot be read: {}", digest,
                  terms.error().describe());
  }
  derivation_->set_contract(std::move(*terms));
}

/// An entry of a promotion: in the tree by its own proof, and next in the chain of the promotion's entries.
void BundleVerifier::promotion_entry(const schema::Entry& entry, const std::string& bytes,
                                     const std::vector<Hash>& proof) {
  const auto& subject = entry.draft.subject;
  const auto size = static_cast<std::int64_t>(head_.size);
  if (entry.seq >= size || !verify_inclusion(leaf_hash(bytes), static_cast<std::uint64_t>(entry.seq),
                                             head_.size, proof, head_.root)) {
    report(BundleResult::tampered, "entry {}: its inclusion proof does not verify", entry.seq);
  }
  if (subject.promotion != promotion_) {
    return report(BundleResult::tampered, "entry {}: subject/promotion is not {}", entry.seq, promotion_);
  }
  if (last_seq_ && entry.seq <= *last_seq_) {
    return report(BundleResult::tampered, "entry {} stands after entry {}", entry.seq, *last_seq_);
  }
  if (!last_seq_) {
    if (subject.prior || entry.draft.kind != EvidenceKind::promotion_requested) {
      report(BundleResult::incomplete, "entry {} is not the first about {}", entry.seq, promotion_);
    }
    take_contract(subject.contract.value_or(""));
  } else if (subject.prior != last_seq_) {
    report(BundleResult::incomplete,
           subject.prior ? fmt::format("entry {} is missing: entry {} follows it", *subject.prior, entry.seq)
                         : fmt::format("entry {}: subject/prior is missing, and entry {} is before it",
                                       entry.seq, *last_seq_));
  }
  last_seq_ = entry.seq;
  derivation_->follow(entry);
}

void BundleVerifier::range_entry(const schema::Entry& entry, const std::string& bytes) {
  const auto seq = static_cast<std::uint64_t>(entry.seq);
  if (seq < at_ || seq >= end_) {
    gap_ = true;
    return report(BundleResult::tampered, "entry {} stands where entry {} should", seq, at_);
  }
  if (seq > at_) {
    gap_ = true;
    report(BundleResult::incomplete, "entries {} to {} are missing", at_, seq - 1);
  }
  at_ = seq + 1;
  if (!gap_) tree_.push_leaf(leaf_hash(bytes));
  if (!first_us_) first_us_ = entry.draft.time_us;
  last_us_ = entry.draft.time_us;
  if (entry.draft.subject.promotion) follow_in_range(entry);
}

/// Each promotion is followed until it has ended; what comes after its end is followed by itself.
void BundleVerifier::follow_in_range(const schema::Entry& entry) {
  auto& promotion = open_[*entry.draft.subject.promotion];
  if (!promotion) {
    const bool requested = entry.draft.kind == EvidenceKind::promotion_requested;
    promotion = std::make_unique<PromotionDerivation>(
        on_fault(), requested ? entry.seq : static_cast<std::int64_t>(first_));
  }
  const auto before = promotion->verdicts();
  promotion->follow(entry);
  report_.verdicts += promotion->verdicts() - before;
  if (promotion->has_ended() || open_.size() > kMaxOpenPromotions) {
    open_.erase(*entry.draft.subject.promotion);
  }
}

}  // namespace driftgate::evidence
