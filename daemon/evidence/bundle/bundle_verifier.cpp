#include "daemon/evidence/bundle/bundle_verifier.hpp"

#include <fmt/format.h>

#include "daemon/base/base64.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

std::unexpected<schema::Error> misplaced(std::string_view what) {
  return schema::fail(ErrorCode::invalid_document, std::string(what));
}

}  // namespace

void BundleVerifier::report(BundleResult result, std::string message) {
  seen_.at(static_cast<std::size_t>(result)) = true;
  if (report_.findings.size() < kMaxFindings) report_.findings.push_back({result, std::move(message)});
}

bool BundleVerifier::take(const std::string& line) {
  auto record = BundleRecord::parse(line);
  Result<void> done;
  if (!record) {
    done = std::unexpected(std::move(record.error()));
  } else {
    if (record->kind() != "end") digest_.update(line).update("\n");
    done = dispatch(*record);
  }
  if (done) return true;
  report(BundleResult::tampered, "the bundle cannot be read: " + done.error().describe());
  return false;
}

Result<void> BundleVerifier::dispatch(const BundleRecord& record) {
  const std::string& kind = record.kind();
  if ((place_ == Place::start) != (kind == "bundle"))
    return misplaced("the header must be the first line, once");
  if (place_ == Place::end) return misplaced("there are lines after the end");
  if (kind == "bundle") return header(record);
  if (kind == "consistency") return consistency(record);
  if (kind == "range") return range(record);
  if (kind == "entry") return entry(record);
  if (kind == "attestation") return attestation(record);
  if (kind == "blob") return blob(record);
  if (kind == "end") return end(record);
  return misplaced(fmt::format("there are no lines of the kind '{}'", kind.substr(0, 80)));
}

/// Lines come in the order of Place.
Result<void> BundleVerifier::move_to(Place place) {
  if (place < place_) return misplaced("its lines are not in their order");
  place_ = place;
  return {};
}

Result<void> BundleVerifier::header(const BundleRecord& record) {
  place_ = Place::head;
  const bool one = record.has("promotion");
  TRY(one ? record.expect({"v", "origin", "tree_size", "checkpoint", "promotion"})
          : record.expect({"v", "origin", "tree_size", "checkpoint", "from_us", "to_us"}));
  const auto version = record.number("v");
  if (!version || *version != 1) return misplaced("v must be 1");
  const auto origin = record.text("origin");
  const auto size = record.number("tree_size");
  const auto note = record.text("checkpoint");
  if (!origin || !size || !note)
    return misplaced("origin, tree_size and checkpoint must be text, number, text");
  if (one) {
    auto promotion = record.text("promotion");
    if (!promotion || promotion->empty()) return misplaced("promotion must be the name of one");
    promotion_ = std::move(*promotion);
    derivation_ = std::make_unique<PromotionDerivation>(on_fault());
    report_.subject = "promotion " + promotion_;
  } else {
    const auto from = record.number("from_us");
    const auto to = record.number("to_us");
    if (!from || !to || *to < *from) return misplaced("from_us and to_us must be a range of times");
    from_us_ = static_cast<std::int64_t>(*from);
    to_us_ = static_cast<std::int64_t>(*to);
  }
  check_head(*note);
  if (head_.origin != *origin || head_.size != *size) {
    report(BundleResult::tampered, "origin or tree_size of the header is not what the checkpoint says");
  }
  report_.tree_size = head_.size;
  return {};
}

Result<void> BundleVerifier::consistency(const BundleRecord& record) {
  TRY(record.expect({"size", "root", "proof"}));
  if (place_ != Place::head || older_ || has_range_)
    return misplaced("a consistency proof stands after the header");
  const auto size = record.number("size");
  const auto root = record.hash("root");
  const auto proof = record.hashes("proof");
  if (!size || !root || !proof) return misplaced("size, root and proof must be a number, a hash and hashes");
  older_ = Older{*size, *root};
  if (!verify_consistency(*size, head_.size, *root, head_.root, *proof)) {
    report(BundleResult::tampered, "the consistency proof from {} entries does not verify", *size);
  }
  return {};
}

Result<void> BundleVerifier::range(const BundleRecord& record) {
  TRY(record.expect({"first", "end", "left", "right"}));
  if (of_promotion() || has_range_ || place_ != Place::head)
    return misplaced("a range stands after the header, once");
  const auto first = record.number("first");
  const auto end = record.number("end");
  const auto left = record.hashes("left");
  auto right = record.hashes("right");
  if (!first || !end || !left || !right || *first > *end || *end > head_.size) {
    return misplaced("first, end, left and right must be a range of the tree and the hashes beside it");
  }
  if (subtrees_of(*end, head_.size).size() != right->size())
    return misplaced("right must be the subtrees after the range");
  const auto parts = subtrees_of(0, *first);
  if (parts.size() != left->size()) return misplaced("left must be the subtrees before the range");
  for (std::size_t i = 0; i < parts.size(); ++i) tree_.push(parts[i].level, (*left)[i]);
  has_range_ = true;
  first_ = at_ = *first;
  end_ = *end;
  right_ = std::move(*right);
  report_.subject = fmt::format("entries {} to {}", first_, end_);
  return {};
}

Result<void> BundleVerifier::entry(const BundleRecord& record) {
  TRY(of_promotion() ? record.expect({"seq", "entry", "proof"}) : record.expect({"seq", "entry"}));
  if (!of_promotion() && !has_range_) return misplaced("the range of the entries must stand before them");
  TRY(move_to(Place::entries));
  const auto seq = record.number("seq");
  const auto bytes = record.text("entry");
  if (!seq || !bytes) return misplaced("seq and entry must be a number and a text");
  std::vector<Hash> proof;
  if (of_promotion()) {
    auto hashes = record.hashes("proof");
    if (!hashes) return misplaced("proof must be a list of hashes");
    proof = std::move(*hashes);
  }
  ++report_.entries;
  const auto decoded = schema::decode_entry(*bytes);
  if (!decoded) {
    report(BundleResult::tampered, "entry {}: {}", *seq, decoded.error().describe());
    gap_ = true;
    return {};
  }
  if (decoded->seq != static_cast<std::int64_t>(*seq)) {
    report(BundleResult::tampered, "entry {}: its own seq is {}", *seq, decoded->seq);
    gap_ = true;
    return {};
  }
  newest_us_ = std::max(newest_us_, decoded->draft.time_us);
  if (of_promotion()) {
    promotion_entry(*decoded, *bytes, proof);
  } else {
    range_entry(*decoded, *bytes);
  }
  return {};
}

Result<void> BundleVerifier::attestation(const BundleRecord& record) {
  TRY(record.expect({"envelope"}));
  if (!of_promotion()) return misplaced("attestations stand in the bundle of a promotion");
  TRY(move_to(Place::attestations));
  auto envelope = TRY(parse_envelope(record.member("envelope").dump()));
  if (envelope.payload_type != kInTotoPayloadType) return misplaced("payloadType must be that of in-toto");
  ++report_.attestations;
  check_signature(envelope);
  payloads_.push_back(std::move(envelope.payload));
  return {};
}

/// The contract stands before the entries; the other blobs stand behind the attestations, each with a lower
/// digest than the one before it.
Result<void> BundleVerifier::place_blob(const std::string& digest) {
  if (place_ == Place::head) return move_to(Place::contract);
  if (place_ == Place::contract) return misplaced("only the contract stands before the entries");
  if (place_ == Place::blobs && digest >= last_blob_)
    return misplaced("its blobs are not sorted by falling digest");
  last_blob_ = digest;
  return move_to(Place::blobs);
}

Result<void> BundleVerifier::blob(const BundleRecord& record) {
  TRY(record.expect({"digest", "bytes"}));
  if (!of_promotion()) return misplaced("blobs stand in the bundle of a promotion");
  const auto digest = record.text("digest");
  const auto text = record.text("bytes");
  auto bytes = text ? base::from_base64(*text) : Result<std::string>(std::unexpect);
  if (!digest || !bytes) return misplaced("digest and bytes must be a digest and base 64");
  TRY(place_blob(*digest));
  ++report_.blobs;
  if (schema::sha256_digest(*bytes) != *digest) {
    report(BundleResult::tampered, "blob {}: its bytes have another digest", digest->substr(0, 80));
    return {};
  }
  // The contract stands before the entries; what comes after them is looked into only to decide again.
  if (place_ == Place::blobs && !options_.reevaluate) bytes->clear();
  if (!blobs_.emplace(*digest, std::move(*bytes)).second) return misplaced("the contract appears twice");
  return {};
}

Result<void> BundleVerifier::end(const BundleRecord& record) {
  TRY(record.expect({"entries", "attestations", "blobs", "digest"}));
  place_ = Place::end;
  const auto entries = record.number("entries");
  const auto attestations = record.number("attestations");
  const auto blobs = record.number("blobs");
  const auto digest = record.text("digest");
  if (!entries || !attestations || !blobs || !digest)
    return misplaced("the end must have numbers and a digest");
  if (*entries != report_.entries || *attestations != report_.attestations || *blobs != report_.blobs) {
    report(BundleResult::incomplete,
           "the bundle should have {} entries, {} attestations and {} blobs, it has {}, {} and {}", *entries,
           *attestations, *blobs, report_.entries, report_.attestations, report_.blobs);
  } else if (*digest != schema::digest_text(digest_.finish())) {
    report(BundleResult::tampered, "the bundle's lines are not those whose digest its end has");
  }
  return {};
}

}  // namespace driftgate::evidence
