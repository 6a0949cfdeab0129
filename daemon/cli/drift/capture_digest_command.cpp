#include "daemon/cli/drift/capture_digest_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/base/read_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/jobs/manifest.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::cli {
namespace {

using schema::Result;

/// As the daemon hashes it when an engine is registered. The folder may be named through links; there are
/// none in it.
Result<std::string> checkpoint_digest(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::canonical(folder, error);
  if (error)
    return schema::fail(schema::ErrorCode::io, fmt::format("cannot open {}: {}", folder, error.message()));
  const auto manifest = TRY(jobs::checkpoint_manifest(path.string(), {"/"}));
  return manifest.digest;
}

Result<std::map<std::string, std::string>> digests_of(const CaptureDigestArgs& args) {
  std::map<std::string, std::string> digests;
  if (!args.checkpoint.empty()) {
    auto digest = TRY(checkpoint_digest(args.checkpoint));
    digests["checkpoint.digest"] = std::move(digest);
  }
  if (!args.corpus.empty()) {
    const auto text = TRY(base::read_file(args.corpus));
    digests["corpus.digest"] = schema::sha256_digest(text);
  }
  return digests;
}

}  // namespace

void describe_capture_digest(CLI::App& command, CaptureDigestArgs& args) {
  command.add_option("--checkpoint", args.checkpoint,
                     "Folder of the weights, as it is given to `engine register`");
  command.add_option("--corpus", args.corpus, "Corpus, JSON Lines");
  command.add_flag("--json", args.json, "Print JSON");
}

int capture_digest_command(const CaptureDigestArgs& args) {
  if (args.checkpoint.empty() && args.corpus.empty()) {
    fmt::print(stderr, "driftgate: capture digest: name --checkpoint DIR, --corpus FILE or both\n");
    return kExitUsage;
  }
  const auto digests = digests_of(args);
  if (!digests) return report_offline(digests.error());
  if (args.json) {
    fmt::print("{}\n", schema::canonical_json(nlohmann::json(*digests)));
    return kExitOk;
  }
  for (const auto& [name, digest] : *digests) fmt::print("{:<18} {}\n", name, digest);
  return kExitOk;
}

}  // namespace driftgate::cli
