#include "daemon/evidence/signed_note.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "daemon/evidence/base64.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::string_view kSignatureMark = "\xE2\x80\x94 ";  // em dash and space
constexpr char kEd25519Algorithm = 0x01;
constexpr std::size_t kKeyIdBytes = 4;
constexpr std::size_t kMaxNoteBytes = 16'384;
constexpr std::size_t kMaxSignatures = 16;

std::string_view key_chars(const PublicKey& key) {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

std::string key_id_bytes(std::string_view name, const PublicKey& key) {
  const std::uint32_t id = key_id(name, key);
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(id >> shift & 0xff);
  return bytes;
}

Result<Checkpoint> malformed(std::string_view what) {
  return schema::fail(ErrorCode::corrupt, fmt::format("not a signed tlog-checkpoint: {}", what));
}

/// Takes the text up to the next '\n' off the front.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

Result<Checkpoint> parse_text(std::string_view text) {
  Checkpoint checkpoint;
  checkpoint.origin = take_line(text);
  const std::string_view size = take_line(text);
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), checkpoint.size);
  if (error != std::errc() || std::to_string(checkpoint.size) != size)
    return malformed("its size is no number");
  const auto root = from_base64(take_line(text));
  if (!root || root->size() != checkpoint.root.size()) return malformed("its root is no hash");
  std::copy(root->begin(), root->end(), reinterpret_cast<char*>(checkpoint.root.data()));
  return checkpoint;
}

/// Calls `visit(bytes)` with key id ‖ signature of each signature line of `name`, until it returns true;
/// whether it did.
template <typename Visit>
bool any_signature(std::string_view lines, std::string_view name, Visit&& visit) {
  for (std::size_t i = 0; i < kMaxSignatures && !lines.empty(); ++i) {
    std::string_view line = take_line(lines);
    if (!line.starts_with(kSignatureMark)) return false;
    line.remove_prefix(kSignatureMark.size());
    const std::size_t space = line.find(' ');
    if (space == line.npos || line.substr(0, space) != name) continue;
    const auto bytes = from_base64(line.substr(space + 1));
    if (bytes && bytes->size() > kKeyIdBytes && visit(*bytes)) return true;
  }
  return false;
}

/// Whether one of the signature lines is by `key` under `name`.
bool signed_by(std::string_view lines, std::string_view text, std::string_view name, const PublicKey& key) {
  const std::string wanted = key_id_bytes(name, key);
  return any_signature(lines, name, [&](const std::string& bytes) {
    return bytes.starts_with(wanted) &&
           verify_signature(key, text, std::string_view(bytes).substr(kKeyIdBytes));
  });
}

}  // namespace

std::string checkpoint_text(const Checkpoint& checkpoint) {
  return fmt::format("{}\n{}\n{}\n", checkpoint.origin, checkpoint.size,
                     to_base64(schema::as_chars(checkpoint.root)));
}

Result<std::string> sign_checkpoint(const Checkpoint& checkpoint, const SigningKey& key) {
  const bool clean = std::none_of(checkpoint.origin.begin(), checkpoint.origin.end(),
                                  [](char c) { return c == '+' || static_cast<unsigned char>(c) <= ' '; });
  if (checkpoint.origin.empty() || !clean) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("'{}' cannot name a log: no spaces, no '+', not empty", checkpoint.origin));
  }
  const std::string text = checkpoint_text(checkpoint);
  auto signature = key.sign(text);
  if (!signature) return signature;
  return fmt::format("{}\n{}{} {}\n", text, kSignatureMark, checkpoint.origin,
                     to_base64(key_id_bytes(checkpoint.origin, key.public_key()) + *signature));
}

Result<Checkpoint> open_checkpoint(std::string_view note, std::string_view name, const PublicKey& key) {
  if (note.size() > kMaxNoteBytes) return malformed("it is too long");
  const std::size_t blank = note.find("\n\n");
  if (blank == note.npos || !note.ends_with('\n')) return malformed("it has no signature");
  const std::string_view text = note.substr(0, blank + 1);
  auto checkpoint = parse_text(text);
  if (!checkpoint) return checkpoint;
  if (!signed_by(note.substr(blank + 2), text, name, key)) {
    return schema::fail(
        ErrorCode::forbidden,
        fmt::format("no signature of '{}' on the checkpoint of {} verifies", name, checkpoint->origin));
  }
  if (checkpoint->origin != name) return malformed("its origin is not the name of its key");
  return checkpoint;
}

Result<UnverifiedCheckpoint> read_checkpoint(std::string_view note) {
  const auto refuse = [](std::string_view what) {
    return std::unexpected(std::move(malformed(what).error()));
  };
  if (note.size() > kMaxNoteBytes) return refuse("it is too long");
  const std::size_t blank = note.find("\n\n");
  if (blank == note.npos || !note.ends_with('\n')) return refuse("it has no signature");
  auto checkpoint = parse_text(note.substr(0, blank + 1));
  if (!checkpoint) return std::unexpected(std::move(checkpoint.error()));
  UnverifiedCheckpoint read{std::move(*checkpoint), {}};
  any_signature(note.substr(blank + 2), read.checkpoint.origin, [&](const std::string& bytes) {
    std::uint32_t id = 0;
    for (std::size_t i = 0; i < kKeyIdBytes; ++i) id = id << 8 | static_cast<std::uint8_t>(bytes[i]);
    read.key_ids.push_back(id);
    return false;
  });
  return read;
}

std::uint32_t key_id(std::string_view name, const PublicKey& key) {
  schema::Sha256 digest;
  const char separator[] = {'\n', kEd25519Algorithm};
  const Hash hash = digest.update(name).update(std::string_view(separator, 2)).update(key).finish();
  return static_cast<std::uint32_t>(hash[0]) << 24 | static_cast<std::uint32_t>(hash[1]) << 16 |
         static_cast<std::uint32_t>(hash[2]) << 8 | hash[3];
}

std::string verifier_key_text(std::string_view name, const PublicKey& key) {
  return fmt::format("{}+{:08x}+{}", name, key_id(name, key),
                     to_base64(kEd25519Algorithm + std::string(key_chars(key))));
}

}  // namespace driftgate::evidence
