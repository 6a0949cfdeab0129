#include "daemon/evidence/keys/signed_note.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "daemon/base/base64.hpp"
#include "daemon/evidence/keys/key_ids.hpp"
#include "schema/failf.hpp"
#include "schema/utf8.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::string_view kSignatureMark = "\xE2\x80\x94 ";  // em dash and space
constexpr char kEd25519Algorithm = 0x01;
constexpr std::size_t kKeyIdBytes = 4;
constexpr std::size_t kMaxSignatures = 100;
constexpr std::uint64_t kMaxTreeSize = std::numeric_limits<std::int64_t>::max();

std::string_view key_chars(const PublicKey& key) {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

std::string key_id_bytes(std::string_view name, const PublicKey& key) {
  const std::uint32_t id = key_id(name, key);
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(id >> shift & 0xff);
  return bytes;
}

std::unexpected<schema::Error> malformed(std::string_view what) {
  return schema::failf(ErrorCode::corrupt, "not a signed tlog-checkpoint: {}", what);
}

/// Takes the text up to the next '\n' off the front.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

/// Origin, size and root, one a line, then lines of extensions, which mean nothing here
/// (c2sp.org/tlog-checkpoint).
Result<Checkpoint> parse_text(std::string_view text) {
  Checkpoint checkpoint;
  checkpoint.origin = take_line(text);
  if (checkpoint.origin.empty()) return malformed("it has no origin");
  const std::string_view size = take_line(text);
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), checkpoint.size);
  if (error != std::errc() || std::to_string(checkpoint.size) != size || checkpoint.size > kMaxTreeSize)
    return malformed("its size is not a number");
  const auto root = base::from_base64(take_line(text));
  if (!root || root->size() != checkpoint.root.size()) return malformed("its root is not a hash");
  std::copy(root->begin(), root->end(), reinterpret_cast<char*>(checkpoint.root.data()));
  while (!text.empty()) {
    if (take_line(text).empty()) return malformed("it has an empty line");
  }
  return checkpoint;
}

/// White space of Unicode, but for the control characters below U+0020. `character` is one whole character,
/// which UTF-8 never has as a part of others.
bool is_space(std::string_view character) {
  constexpr std::string_view kSpaces =
      " \xC2\x85\xC2\xA0\xE1\x9A\x80\xE2\x80\x80\xE2\x80\x81\xE2\x80\x82\xE2\x80\x83\xE2\x80\x84\xE2\x80\x85"
      "\xE2\x80\x86\xE2\x80\x87\xE2\x80\x88\xE2\x80\x89\xE2\x80\x8A\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAF"
      "\xE2\x81\x9F\xE3\x80\x80";
  return kSpaces.find(character) != kSpaces.npos;
}

/// UTF-8 without control characters other than '\n', as a note must be.
bool is_note_text(std::string_view note) {
  for (std::size_t at = 0; at < note.size();) {
    const std::size_t length = schema::utf8_length(note, at);
    if (length == 0 || (static_cast<std::uint8_t>(note[at]) < 0x20 && note[at] != '\n')) return false;
    at += length;
  }
  return true;
}

/// A key's name: not empty, without spaces and plus signs. `name` is UTF-8.
bool is_key_name(std::string_view name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = schema::utf8_length(name, at);
    if (length == 0 || name[at] == '+' || is_space(name.substr(at, length))) return false;
    at += length;
  }
  return !name.empty();
}

struct SignatureLine {
  std::string_view name;
  std::uint32_t id = 0;
  std::string signature{};
};

struct Note {
  std::string_view text;  ///< with its last line end: what is signed
  std::vector<SignatureLine> signatures{};
};

/// A signature line without its end: "— name base64(key id ‖ signature)".
std::optional<SignatureLine> parse_signature(std::string_view line) {
  if (!line.starts_with(kSignatureMark)) return std::nullopt;
  line.remove_prefix(kSignatureMark.size());
  const std::size_t space = line.find(' ');
  if (space == line.npos || !is_key_name(line.substr(0, space))) return std::nullopt;
  const auto bytes = base::from_base64(line.substr(space + 1));
  if (!bytes || bytes->size() <= kKeyIdBytes) return std::nullopt;
  SignatureLine signature{line.substr(0, space)};
  for (std::size_t i = 0; i < kKeyIdBytes; ++i)
    signature.id = signature.id << 8 | static_cast<std::uint8_t>((*bytes)[i]);
  signature.signature = bytes->substr(kKeyIdBytes);
  return signature;
}

/// A signed note by its specification (c2sp.org/signed-note), and stricter: it is malformed when any of its
/// signature lines is, whoever's it is, and when a key signed twice.
Result<Note> parse_note(std::string_view note) {
  if (note.size() > kMaxNoteBytes) return malformed("it is too long");
  if (!is_note_text(note)) return malformed("it is not UTF-8, or has control characters");
  const std::size_t blank = note.rfind("\n\n");
  if (blank == note.npos || blank + 2 == note.size() || !note.ends_with('\n'))
    return malformed("it has no signature");
  Note parsed{note.substr(0, blank + 1)};
  for (std::string_view lines = note.substr(blank + 2); !lines.empty();) {
    auto signature = parse_signature(take_line(lines));
    if (!signature) return malformed("a signature line is not '\xE2\x80\x94 name base64'");
    const bool twice = std::ranges::any_of(parsed.signatures, [&](const SignatureLine& other) {
      return other.name == signature->name && other.id == signature->id;
    });
    if (twice) return malformed("it has two signatures by one key");
    if (parsed.signatures.size() == kMaxSignatures) return malformed("it has more than 100 signatures");
    parsed.signatures.push_back(std::move(*signature));
  }
  return parsed;
}

}  // namespace

std::string checkpoint_text(const Checkpoint& checkpoint) {
  return fmt::format("{}\n{}\n{}\n", checkpoint.origin, checkpoint.size,
                     base::to_base64(schema::as_chars(checkpoint.root)));
}

Result<std::string> sign_checkpoint(const Checkpoint& checkpoint, const SigningKey& key) {
  if (!is_note_text(checkpoint.origin) || checkpoint.origin.find('\n') != std::string::npos ||
      !is_key_name(checkpoint.origin)) {
    return schema::failf(ErrorCode::invalid_argument, "'{}' cannot name a log: no spaces, no '+', not empty",
                         checkpoint.origin);
  }
  const std::string text = checkpoint_text(checkpoint);
  auto signature = TRY(key.sign(text));
  return fmt::format("{}\n{}{} {}\n", text, kSignatureMark, checkpoint.origin,
                     base::to_base64(key_id_bytes(checkpoint.origin, key.public_key()) + signature));
}

Result<Checkpoint> open_checkpoint(std::string_view note, std::string_view name, const PublicKey& key) {
  const auto parsed = TRY(parse_note(note));
  auto checkpoint = TRY(parse_text(parsed.text));
  const std::uint32_t id = key_id(name, key);
  const bool verifies = std::ranges::any_of(parsed.signatures, [&](const SignatureLine& line) {
    return line.name == name && line.id == id && verify_signature(key, parsed.text, line.signature);
  });
  if (!verifies) {
    return schema::failf(ErrorCode::forbidden, "no signature of '{}' on the checkpoint of {} verifies", name,
                         checkpoint.origin);
  }
  if (checkpoint.origin != name) return malformed("its origin is not the name of its key");
  return checkpoint;
}

Result<UnverifiedCheckpoint> read_checkpoint(std::string_view note) {
  const auto parsed = TRY(parse_note(note));
  auto checkpoint = TRY(parse_text(parsed.text));
  UnverifiedCheckpoint read{std::move(checkpoint), {}};
  for (const SignatureLine& line : parsed.signatures) {
    if (line.name == read.checkpoint.origin) read.key_ids.push_back(line.id);
  }
  return read;
}

std::uint32_t key_id(std::string_view name, const PublicKey& key) {
  const Hash hash = key_digest(name, key);
  return static_cast<std::uint32_t>(hash[0]) << 24 | static_cast<std::uint32_t>(hash[1]) << 16 |
         static_cast<std::uint32_t>(hash[2]) << 8 | hash[3];
}

std::string verifier_key_text(std::string_view name, const PublicKey& key) {
  return fmt::format("{}+{:08x}+{}", name, key_id(name, key),
                     base::to_base64(kEd25519Algorithm + std::string(key_chars(key))));
}

}  // namespace driftgate::evidence
