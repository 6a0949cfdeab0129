#include "daemon/evidence/log/head_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "daemon/base/durable_file.hpp"
#include "daemon/evidence/log/log.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::streamsize kMaxHeadBytes = 16'384;

Result<std::string> read_head(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string note(kMaxHeadBytes, '\0');
  file.read(note.data(), kMaxHeadBytes);
  if (file.bad()) return schema::fail(ErrorCode::io, "cannot read the published head " + path.string());
  note.resize(static_cast<std::size_t>(file.gcount()));
  return note;
}

/// What the published head says, signed by the key or by one that it took the place of.
Result<Checkpoint> open_published(const std::string& note, const HeadOptions& options,
                                  const std::optional<PublicKey>& key, const TrustFile& known) {
  Result<Checkpoint> head =
      schema::fail(ErrorCode::forbidden, "no head key of '" + options.origin + "' is known");
  if (key) head = open_checkpoint(note, options.origin, *key);
  if (head) return head;
  for (const TrustedKey& old : known.keys) {
    if (old.use != KeyUse::head || old.name != options.origin) continue;
    auto opened = open_checkpoint(note, options.origin, old.key);
    if (opened) return opened;
  }
  return head;
}

std::unexpected<schema::Error> forged(const std::string& what) {
  return schema::failf(
      ErrorCode::corrupt,
      "the evidence log does not follow from its signed head: {}. Restore a backup; nothing of it is signed",
      what);
}

/// What a stored head says, and whose signature it carries.
Result<std::pair<Checkpoint, PublicKey>> open_stored(const StoredHead& head, const std::string& origin,
                                                     const std::optional<PublicKey>& key,
                                                     const TrustFile& trust) {
  const auto said = read_checkpoint(head.note);
  if (!said) return forged("the head that the database keeps is not a signed note: " + said.error().message);
  std::vector<PublicKey> keys;
  if (key) keys.push_back(*key);
  for (const TrustedKey& known : head_keys_at(trust, origin, head.size)) keys.push_back(known.key);
  bool is_known = false;
  for (const PublicKey& candidate : keys) {
    auto opened = open_checkpoint(head.note, origin, candidate);
    if (opened && opened->size == head.size) return std::pair(std::move(*opened), candidate);
    is_known = is_known || std::ranges::find(said->key_ids, key_id(origin, candidate)) != said->key_ids.end();
  }
  if (is_known) {
    return forged(fmt::format(
        "the head of {} entries that the database keeps does not carry a valid signature of the log's key",
        head.size));
  }
  return schema::failf(ErrorCode::forbidden,
                       "the head of {} entries that the database keeps ({}) is not signed by the key of the "
                       "log '{}': use the key that belongs to this database, or restore a backup",
                       head.size, said->checkpoint.origin, origin);
}

}  // namespace

std::unexpected<schema::Error> rollback(const std::string& what, const std::filesystem::path& head) {
  return schema::failf(
      ErrorCode::corrupt,
      "rollback detected: {} (published head: {}). Restore the newest database; do not delete the head", what,
      head.string());
}

Result<Checkpoint> check_published(store::Reader& reader, const HeadOptions& options,
                                   const std::optional<PublicKey>& key, const TrustFile& known) {
  auto note = TRY(read_head(options.head_file));
  auto head = open_published(note, options, key, known);
  if (!head) {
    return rollback("the published head cannot be trusted: " + head.error().message, options.head_file);
  }
  auto size = TRY(tree_size(reader));
  if (size < head->size) {
    return rollback(fmt::format("the log has {} entries and {} were published", size, head->size),
                    options.head_file);
  }
  auto root = TRY(root_at(reader, head->size));
  if (root != head->root) {
    return rollback(fmt::format("the first {} entries are not those that were published", head->size),
                    options.head_file);
  }
  return head;
}

Result<std::optional<CheckedHead>> check_stored(store::Reader& reader, const std::string& origin,
                                                const std::optional<PublicKey>& key, const TrustFile& trust) {
  auto stored = TRY(stored_head(reader));
  if (stored.note.empty()) return std::nullopt;
  auto opened = TRY(open_stored(stored, origin, key, trust));
  auto size = TRY(tree_size(reader));
  if (size > stored.size) {
    return forged(fmt::format(
        "entries {} to {} have no signature, so that somebody without the log's key appended them",
        stored.size, size - 1));
  }
  if (size < stored.size) {
    return forged(fmt::format("it has {} entries and {} were signed, so that somebody removed the last ones",
                              size, stored.size));
  }
  auto root = TRY(root_at(reader, size));
  if (root != opened.first.root) {
    return forged(fmt::format(
        "its tree of {} entries is not the one that was signed, so that somebody changed entries or nodes",
        size));
  }
  return CheckedHead{std::move(stored), root, opened.second};
}

std::filesystem::path signed_commits_file(const HeadOptions& options) {
  return options.head_file.string() + ".signed-commits";
}

bool commits_are_signed(const HeadOptions& options) {
  std::error_code ignored;
  return std::filesystem::exists(signed_commits_file(options), ignored);
}

Result<void> note_signed_commits(const HeadOptions& options, std::uint64_t size) {
  if (commits_are_signed(options)) return {};
  return base::write_file_durably(
      signed_commits_file(options),
      fmt::format(
          "Each commit of the log '{}' is signed in its own transaction, from {} entries on. While this file "
          "is here, a database without that signature is refused.\n",
          options.origin, size),
      0644);
}

std::unexpected<schema::Error> emptied_head(const HeadOptions& options) {
  return forged(
      fmt::format("the database names no signed head (table log_head), though each commit of this log was "
                  "signed ({} says so): somebody emptied the table",
                  signed_commits_file(options).string()));
}

}  // namespace driftgate::evidence
