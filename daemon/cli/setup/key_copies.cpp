#include "daemon/cli/setup/key_copies.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "daemon/base/base64.hpp"
#include "daemon/base/clock.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/setup_commands.hpp"
#include "daemon/evidence/keys/signed_note.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

fs::path notes_file(const Deployment& deployment) {
  return deployment.data_dir / "key-copies.json";
}

Result<std::string> public_half(const fs::path& file) {
  const auto key = TRY(evidence::SigningKey::load(file.string()));
  const auto bytes = key.public_key();
  return base::to_base64(std::string(bytes.begin(), bytes.end()));
}

/// {"keys": {"head": {"public", "to", "copied_us"}}}; empty for a file that is not there or is none.
json read_notes(const Deployment& deployment) {
  const auto text = read_file(notes_file(deployment).string());
  auto notes = text ? json::parse(*text, nullptr, false) : json();
  if (!notes.is_object() || !member_of(notes, "keys").is_object()) notes = json{{"keys", json::object()}};
  return notes;
}

/// A copy that is there already is kept when it is of the same key.
Result<void> copy_one(const KeptKey& key, const fs::path& copy, const std::string& half) {
  const auto secret = TRY(read_file(key.file.string()));
  const auto written = base::write_file_durably(copy, secret, 0600, base::IfPresent::refuse);
  if (!written && written.error().code != ErrorCode::already_exists) return written;
  const auto there = TRY(public_half(copy));
  if (there == half) return {};
  return schema::fail(ErrorCode::already_exists,
                      fmt::format("{} is another key, perhaps the one before a rotation: name another folder",
                                  copy.string()));
}

}  // namespace

std::vector<KeptKey> kept_keys(const Deployment& deployment) {
  return {{"head", deployment.head_key}, {"attestation", deployment.attestation_key}};
}

Result<std::vector<std::string>> copy_keys(const Deployment& deployment, const fs::path& to) {
  if (::mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) return base::file_failure("make", to);
  std::error_code error;
  const fs::path folder = fs::canonical(to, error);
  if (error) return schema::fail(ErrorCode::io, fmt::format("{}: {}", to.string(), error.message()));
  json notes = read_notes(deployment);
  std::vector<std::string> lines;
  for (const auto& key : kept_keys(deployment)) {
    const auto half = TRY(public_half(key.file));
    const fs::path copy = folder / key.file.filename();
    if (fs::equivalent(copy, key.file, error))
      return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is the key itself", copy.string()));
    TRY(copy_one(key, copy, half));
    notes["keys"][key.use] = {{"public", half}, {"to", copy.string()}, {"copied_us", base::wall_clock_us()}};
    lines.push_back(fmt::format("the {} key is copied to {}", key.use, copy.string()));
  }
  TRY(base::write_file_durably(notes_file(deployment), notes.dump(2) + "\n", 0600));
  return lines;
}

Result<std::string> noted_copy(const Deployment& deployment, const KeptKey& key) {
  const auto half = TRY(public_half(key.file));
  const auto notes = read_notes(deployment);
  const auto note = member_of(member_of(notes, "keys"), key.use);
  return text_of(note, "public") == half ? text_of(note, "to") : std::string();
}

int key_copy_command(const KeyCopyArgs& args, const ReadDeployment& read) {
  const auto deployment = read(args.config, args.data_dir);
  if (!deployment) return report(deployment.error());
  const auto lines = copy_keys(*deployment, args.to);
  if (!lines) return report(lines.error());
  if (args.json) {
    print_line(json{{"copied", *lines}}.dump());
    return kExitOk;
  }
  for (const auto& line : *lines) print_line(line);
  print_line(
      "Keep them apart from this machine and from its backups; whoever has them can sign as this daemon.");
  return kExitOk;
}

}  // namespace driftgate::cli
