#include "daemon/cli/setup/key_copies.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "daemon/base/base64.hpp"
#include "daemon/base/clock.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/as_owner.hpp"
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
Result<json> read_notes(const Deployment& deployment) {
  const fs::path file = notes_file(deployment);
  if (::access(file.c_str(), R_OK) != 0 && errno != ENOENT) return base::file_failure("read", file);
  const auto text = read_file(file.string());
  auto notes = text ? json::parse(*text, nullptr, false) : json();
  if (!notes.is_object() || !member_of(notes, "keys").is_object()) notes = json{{"keys", json::object()}};
  return notes;
}

/// Whether a path is a folder or lies in it, links followed as far as both are there.
bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code error, other;
  const fs::path inner = fs::weakly_canonical(fs::absolute(path), error);
  fs::path outer = fs::weakly_canonical(folder, other);
  if (!outer.has_filename()) outer = outer.parent_path();  // behind a slash at the end, where it is not there
  if (error || other) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// The folder for copies, made if it is not there: of the user who asks, and nobody else may write to it.
Result<fs::path> folder_for_copies(const Deployment& deployment, const fs::path& to) {
  std::string named = to.string();
  while (named.size() > 1 && named.ends_with('/')) named.pop_back();  // with one, a link would be followed
  for (const auto& kept : {deployment.data_dir, deployment.backup_dir})
    if (lies_in(named, kept))
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("{} lies in {}, which the copies are to outlive: name a folder elsewhere", named,
                      kept.string()));
  if (::mkdir(named.c_str(), 0700) != 0 && errno != EEXIST) return base::file_failure("make", named);
  const base::UniqueFd opened(::open(named.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) return base::file_failure("open", named);
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0)
    return schema::fail(
        ErrorCode::forbidden,
        fmt::format("{} belongs to another user, or others may write to it: name a new folder", named));
  std::error_code error;
  fs::path folder = fs::canonical(named, error);
  if (error) return schema::fail(ErrorCode::io, fmt::format("{}: {}", named, error.message()));
  return folder;
}

bool on_one_disk(const fs::path& one, const fs::path& other) {
  struct stat a {
  }, b{};
  return ::stat(one.c_str(), &a) == 0 && ::stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev;
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
  const fs::path folder = TRY(folder_for_copies(deployment, to));
  json notes = TRY(read_notes(deployment));
  std::error_code error;
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
  // The daemon's user must be able to read them.
  const AsOwner owner(deployment.data_dir);
  if (owner.failed())
    return schema::fail(
        ErrorCode::forbidden,
        fmt::format("the copies are in {}, but root may not become the owner of {} to note it",
                    folder.string(), deployment.data_dir.string()));
  TRY(base::write_file_durably(notes_file(deployment), notes.dump(2) + "\n", 0600));
  return lines;
}

Result<std::string> noted_copy(const Deployment& deployment, const KeptKey& key) {
  const auto half = TRY(public_half(key.file));
  const auto notes = TRY(read_notes(deployment));
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
  if (on_one_disk(args.to, deployment->data_dir))
    print_line("They are on the disk of the data folder, and lost with it: copy them on to another medium.");
  print_line(
      "Keep them apart from this machine and from its backups; whoever has them can sign as this daemon.");
  return kExitOk;
}

}  // namespace driftgate::cli
