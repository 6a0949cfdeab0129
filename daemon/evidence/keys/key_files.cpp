#include "daemon/evidence/keys/key_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/entry_members.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/query.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

namespace fs = std::filesystem;
using schema::ErrorCode;
using schema::EvidenceKind;

namespace {

constexpr const char* kActor = "console";  ///< who has the data folder, offline

fs::path with_suffix(const fs::path& path, const std::string& suffix) {
  return path.string() + suffix;
}

Result<void> rename_durably(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    return schema::failf(ErrorCode::io, "cannot rename {} to {}: {}", from.string(), to.string(),
                         error.message());
  }
  return base::sync_folder(to.parent_path());
}

/// What the newest rotation of a key says, decoded; nothing when it was never rotated.
Result<std::optional<schema::Entry>> newest_rotation(store::Store& store, KeyUse use) {
  return store.read([&](store::Reader& reader) -> Result<std::optional<schema::Entry>> {
    std::optional<schema::Entry> found;
    TRY(each_entry(reader, {.kind = EvidenceKind::key_rotated, .newest_first = true},
                   [&](const StoredEntry& stored) -> Result<bool> {
                     auto entry = TRY(schema::decode_entry(stored.bytes));
                     if (base::text_at(entry.draft.body, "use") == to_string(use)) found = std::move(entry);
                     return !found;
                   }));
    return found;
  });
}

/// Puts the new key in the place of the old one, which is kept.
Result<void> swap_files(const KeyFile& file) {
  std::error_code ignored;
  if (fs::exists(file.path, ignored)) {
    auto old = TRY(SigningKey::load(file.path.string()));
    const auto retired =
        with_suffix(file.path, fmt::format(".retired-{:08x}", key_id(file.name, old.public_key())));
    TRY(rename_durably(file.path, retired));
  }
  return rename_durably(with_suffix(file.path, ".next"), file.path);
}

}  // namespace

fs::path trust_path(const fs::path& data_dir) {
  return data_dir / "trust.json";
}

Result<TrustFile> load_trust(const fs::path& data_dir) {
  std::ifstream file(trust_path(data_dir), std::ios::binary);
  if (!file) return TrustFile{};
  std::string text(kMaxTrustBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto trust = parse_trust(text);
  if (!trust) return schema::wrap(trust.error(), "cannot read " + trust_path(data_dir).string());
  return trust;
}

Result<void> save_trust(const fs::path& data_dir, const TrustFile& trust) {
  return base::write_file_durably(trust_path(data_dir), trust_json(trust), 0644);
}

Result<void> check_key(const TrustFile& trust, const KeyFile& file, const PublicKey& key) {
  bool known = false;
  for (const TrustedKey& recorded : trust.keys) {
    if (recorded.use != file.use || recorded.name != file.name) continue;
    if (recorded.key == key && !recorded.until_us) return {};
    known = true;
  }
  if (!known) return {};
  return schema::failf(ErrorCode::corrupt,
                       "the key {} is not the one in force, which trust.json in the data folder names: put "
                       "that one back; a new key comes by 'driftgate key rotate'",
                       file.path.string());
}

Result<void> note_key(const fs::path& data_dir, const KeyFile& file, const PublicKey& key,
                      std::uint64_t from_size, std::int64_t now_us) {
  auto trust = TRY(load_trust(data_dir));
  if (std::ranges::find(trust.keys, key, &TrustedKey::key) != trust.keys.end()) return {};
  for (TrustedKey& known : trust.keys) {
    if (known.use == file.use && known.name == file.name && !known.until_us) known.until_us = now_us;
  }
  trust.keys.push_back({file.use, file.name, key, from_size, now_us, std::nullopt});
  return save_trust(data_dir, trust);
}

Result<PublicKey> rotate_key(store::Store& store, const KeyFile& file, const std::string& reason,
                             std::int64_t now_us) {
  if (reason.empty()) return schema::fail(ErrorCode::invalid_argument, "a rotation needs a reason");
  TRY(finish_rotation(store, file));
  auto old = TRY(SigningKey::load(file.path.string()));
  auto next = TRY(SigningKey::generate());
  TRY(next.save(with_suffix(file.path, ".next").string()));
  TRY(store.write("rotate a key", [&](store::Tx& tx) -> Result<Appended> {
    auto size = TRY(tree_size(tx));
    schema::EntryDraft entry{.time_us = now_us, .kind = EvidenceKind::key_rotated, .actor = kActor};
    entry.body = {{"use", to_string(file.use)},
                  {"name", file.name},
                  {"old_key", verifier_key_text(file.name, old.public_key())},
                  {"new_key", verifier_key_text(file.name, next.public_key())},
                  {"from_size", size + 1},
                  {"reason", reason}};
    return append(tx, entry);
  }));
  TRY(finish_rotation(store, file));
  return next.public_key();
}

Result<void> finish_rotation(store::Store& store, const KeyFile& file) {
  const fs::path next_path = with_suffix(file.path, ".next");
  std::error_code ignored;
  if (!fs::exists(next_path, ignored)) return {};
  auto next = SigningKey::load(next_path.string());
  auto rotation = TRY(newest_rotation(store, file.use));
  const schema::EntryValue new_key(next ? verifier_key_text(file.name, next->public_key()) : std::string());
  if (!next || !rotation || rotation->draft.body.find("new_key")->second != new_key) {
    fs::remove(next_path, ignored);  // its entry was never written
    return base::sync_folder(next_path.parent_path());
  }
  const auto from_size = static_cast<std::uint64_t>(base::integer_at(rotation->draft.body, "from_size"));
  if (auto old = SigningKey::load(file.path.string())) {
    TRY(note_key(store.data_dir(), file, old->public_key(), 0, 0));
  }
  TRY(note_key(store.data_dir(), file, next->public_key(), file.use == KeyUse::head ? from_size : 0,
               rotation->draft.time_us));
  return swap_files(file);
}

}  // namespace driftgate::evidence
