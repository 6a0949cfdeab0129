#include "daemon/app/offline_commands.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "daemon/app/options.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/base/base64.hpp"
#include "daemon/base/clock.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/evidence/backup.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/epochs.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::app {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

/// What a webhook's messages are signed with: "whsec_" and the base64 of 32 random bytes (Standard Webhooks).
std::string webhook_secret() {
  std::random_device random;
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes += static_cast<char>(random() & 0xff);
  return "whsec_" + base::to_base64(bytes) + "\n";
}

Result<evidence::KeyFile> key_file_of(const Settings& settings, const std::string& use, std::uint64_t epoch) {
  const auto head = head_options(settings);
  if (use == "head") {
    return evidence::KeyFile{evidence::KeyUse::head, head.key_file, evidence::origin_of(head.origin, epoch)};
  }
  if (use == "attestation") {
    return evidence::KeyFile{evidence::KeyUse::attestation, attestation_key_file(settings), head.origin};
  }
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("'{}' is not the use of a key here: choose head or attestation", use));
}

Result<std::string> generate(const cli::OfflineArgs& args) {
  if (args.out.empty()) return schema::fail(ErrorCode::invalid_argument, "--out must name a new file");
  if (args.use == "webhook") {
    TRY(base::write_file_durably(args.out, webhook_secret(), 0600, base::IfPresent::refuse));
    return json{{"file", args.out}, {"use", args.use}}.dump();
  }
  if (args.use != "head" && args.use != "attestation") {
    return schema::fail(ErrorCode::invalid_argument, "--use is head, attestation or webhook");
  }
  auto settings = TRY(load_settings(args.config, args.data_dir));
  auto key = TRY(evidence::SigningKey::generate());
  TRY(key.save(args.out));
  return json{{"file", args.out},
              {"use", args.use},
              {"public", evidence::verifier_key_text(settings.evidence_origin, key.public_key())}}
      .dump();
}

/// Checks the store against its published head, and publishes the newest head with the key that is in force.
Result<void> publish_head(store::Store& store, const Settings& settings) {
  const auto heads = TRY(evidence::HeadPublisher::start(store, head_options(settings)));
  heads->stop();
  return {};
}

/// The store of a daemon that does not run, checked against its published head.
Result<std::unique_ptr<store::Store>> open_idle(const Settings& settings) {
  auto store =
      TRY(store::Store::open({.data_dir = data_dir_of(settings), .opened_us = base::wall_clock_us()}));
  TRY(evidence::index_log(*store));
  TRY(publish_head(*store, settings));
  return store;
}

Result<std::string> rotate(const cli::OfflineArgs& args) {
  auto settings = TRY(load_settings(args.config, args.data_dir));
  const auto store = TRY(open_idle(settings));
  const auto epoch = TRY(store->read([](store::Reader& reader) { return evidence::log_epoch(reader); }));
  const auto file = TRY(key_file_of(settings, args.use, epoch));
  const auto key = TRY(evidence::rotate_key(*store, file, args.reason, base::wall_clock_us()));
  TRY(publish_head(*store, settings));
  return json{{"file", file.path.string()},
              {"use", args.use},
              {"public", evidence::verifier_key_text(file.name, key)}}
      .dump();
}

Result<std::string> list(const cli::OfflineArgs& args) {
  auto settings = TRY(load_settings(args.config, args.data_dir));
  auto trust = TRY(evidence::load_trust(data_dir_of(settings)));
  if (args.json) return evidence::trust_json(trust);
  std::vector<std::vector<std::string>> rows;
  for (const auto& key : trust.keys) {
    rows.push_back({std::string(evidence::to_string(key.use)), evidence::key_id_text(key.name, key.key),
                    std::to_string(key.from_size), cli::format_time(key.from_us),
                    key.until_us ? cli::format_time(*key.until_us) : "in force"});
  }
  return cli::format_table({"use", "key", "from size", "from", "until"}, rows);
}

Result<std::string> trust(const cli::OfflineArgs& args) {
  auto settings = TRY(load_settings(args.config, args.data_dir));
  auto keys = TRY(evidence::load_trust(data_dir_of(settings)));
  if (keys.keys.empty()) {
    return schema::fail(ErrorCode::not_found,
                        "the data folder has no record of keys: no daemon has run there");
  }
  return evidence::trust_json(keys);
}

struct Recovered {
  auth::TokenInfo token;
  std::string file;
};

Result<Recovered> recover(const cli::OfflineArgs& args) {
  auto settings = TRY(load_settings(args.config, args.data_dir));
  const auto store = TRY(open_idle(settings));
  const auto newest =
      TRY(store->read([](store::Reader& reader) { return evidence::newest_time_us(reader); }));
  const auto file =
      args.out.empty() ? data_dir_of(settings) / "recovered.token" : std::filesystem::path(args.out);
  auto token = TRY(auth::recover_admin(*store, {.name = args.name, .reason = args.reason, .file = file},
                                       std::max(base::wall_clock_us(), newest)));
  TRY(publish_head(*store, settings));
  return Recovered{std::move(token), file.string()};
}

}  // namespace

int recover_command(const cli::OfflineArgs& args) {
  const auto recovered = recover(args);
  if (!recovered) return cli::report(recovered.error());
  const auto& [token, file] = *recovered;
  cli::print_line(
      args.json
          ? json{{"token", token.id}, {"name", token.name}, {"file", file}}.dump()
          : fmt::format("token {} with the scope admin for {} is in {}; the recovery is recorded in the log",
                        token.id, token.name, file));
  return cli::kExitOk;
}

int restore_command(const cli::OfflineArgs& args) {
  const auto settings = load_settings(args.config, args.data_dir);
  if (!settings) return cli::report(settings.error());
  const auto restored = evidence::restore_backup({.backup = args.backup,
                                                  .data_dir = data_dir_of(*settings),
                                                  .head = head_options(*settings),
                                                  .accept_loss = args.accept_loss,
                                                  .reason = args.reason,
                                                  .now_us = base::wall_clock_us()});
  if (!restored) return cli::report(restored.error());
  if (args.json) {
    cli::print_line(json{{"tree_size", restored->tree_size},
                         {"epoch", restored->epoch},
                         {"set_aside", restored->set_aside.string()}}
                        .dump());
    return cli::kExitOk;
  }
  cli::print_line(fmt::format("restored a log with {} entries, each checked", restored->tree_size));
  if (restored->epoch > 1) {
    cli::print_line(fmt::format("it begins epoch {}: give auditors the new trust file (driftgate key trust)",
                                restored->epoch));
  }
  if (!restored->set_aside.empty()) {
    cli::print_line(fmt::format("the previous database is in {}", restored->set_aside.string()));
  }
  return cli::kExitOk;
}

int key_command(const cli::OfflineArgs& args) {
  const auto run = args.action == "generate" ? generate
                   : args.action == "rotate" ? rotate
                   : args.action == "list"   ? list
                                             : trust;
  const auto text = run(args);
  if (!text) return cli::report(text.error());
  cli::print(text->ends_with('\n') ? *text : *text + "\n");
  return cli::kExitOk;
}

}  // namespace driftgate::app
