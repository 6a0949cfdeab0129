#include "daemon/pipeline/requests/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/jobs/engine_client.hpp"
#include "daemon/jobs/stored_hashes.hpp"
#include "daemon/net/url.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/blobs.hpp"
#include "schema/contract/contract.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

View made(View view, bool created) {
  view.created = created;
  return view;
}

/// What ends a transaction that found its work done already.
constexpr const char* kNothingNew = "nothing new";
bool is_nothing_new(const schema::Error& error) {
  return error.code == ErrorCode::conflict && error.message == kNothingNew;
}

}  // namespace

schema::Result<void> Registry::commit_rows(std::string_view what, const Work& work) {
  auto done = TRY(committer_.commit(what, work));
  for (const auto& event : done) publish_(event);
  return {};
}

schema::EntryDraft Registry::draft(schema::EvidenceKind kind, const std::string& actor,
                                   schema::EntryValue::Object body) const {
  schema::EntryDraft entry;
  entry.time_us = clock_.now_us();
  entry.kind = kind;
  entry.actor = actor;
  entry.body = std::move(body);
  return entry;
}

schema::Result<View> Registry::contract(const std::string& actor, std::string_view text,
                                        const std::string& name) {
  const auto report = schema::parse_contract(text, name);
  if (!report.contract)
    return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, name));
  const auto& contract = *report.contract;
  store::ContractRow row{contract.digest, contract.name, contract.canonical_json, actor, clock_.now_us(), -1};
  auto known =
      TRY(store_.read([&](store::Reader& reader) { return store::find_contract(reader, row.digest); }));
  if (known) return contract_view(*known);
  TRY(schema::check_name(contract.name, "a contract's name", "/metadata/name"));
  auto done = commit_rows("register contract", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto entry = draft(schema::EvidenceKind::contract_registered, actor,
                       {{"name", contract.name}, {"digest", contract.digest}});
    entry.subject.contract = contract.digest;
    auto seq = TRY(entries.add(tx, entry));
    row.evidence_seq = seq;
    TRY(store::put_blob(tx, contract.canonical_json, "application/json", row.registered_us));
    auto inserted = TRY(store::insert_contract(tx, row));
    if (!inserted) return schema::fail(ErrorCode::conflict, kNothingNew);
    return note_made(tx, contract_view(row));
  });
  if (!done && !is_nothing_new(done.error())) return std::unexpected(done.error());
  return made(contract_view(row), done.has_value());
}

schema::Result<View> Registry::kernel(const std::string& actor, std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "the kernel"));
  if (!parsed.is_object() || !parsed.contains("name") || !parsed["name"].is_string() ||
      parsed["name"].get_ref<const std::string&>().empty()) {
    return schema::fail(ErrorCode::invalid_document,
                        "a kernel is an object with a name, and what makes it: engine, version, dtype, …",
                        "/name");
  }
  const auto canonical = schema::canonical_json(parsed);
  store::KernelRow row{parsed["name"].get<std::string>(),
                       schema::document_digest(canonical),
                       canonical,
                       actor,
                       clock_.now_us(),
                       -1};
  auto known = TRY(store_.read([&](store::Reader& reader) { return store::find_kernel(reader, row.name); }));
  if (known && known->digest == row.digest) return kernel_view(*known);
  TRY(schema::check_name(row.name, "a kernel's name", "/name"));
  auto done = commit_rows("register kernel", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto seq = TRY(entries.add(tx, draft(schema::EvidenceKind::kernel_registered, actor,
                                         {{"name", row.name}, {"digest", row.digest}})));
    row.evidence_seq = seq;
    TRY(store::put_blob(tx, canonical, "application/json", row.registered_us));
    auto inserted = TRY(store::insert_kernel(tx, row));
    if (!inserted) return schema::fail(ErrorCode::conflict, kNothingNew);
    return note_made(tx, kernel_view(row));
  });
  if (!done && !is_nothing_new(done.error())) return std::unexpected(done.error());
  return made(kernel_view(row), done.has_value());
}

schema::Result<jobs::Manifest> Registry::manifest_of(const std::string& uri) {
  jobs::StoredHashes cache(store_, [this] { return clock_.now_us(); });
  const auto wall_us = clock_.now_us() + clock_.wall_offset_us();
  return jobs::checkpoint_manifest(uri, settings_.roots,
                                   {.threads = 0, .cache = &cache, .now_ns = wall_us * 1'000});
}

schema::Result<bool> Registry::verify_checkpoint(const store::EngineRow& engine) {
  if (engine.checkpoint_uri.empty()) return false;
  auto manifest = manifest_of(engine.checkpoint_uri);
  if (!manifest)
    return std::unexpected(
        schema::Error{manifest.error().code, manifest.error().message, "/engine", nullptr});
  if (manifest->digest == engine.checkpoint) return true;
  return schema::fail(
      ErrorCode::conflict,
      fmt::format("the files below {} are {} now, but engine {} was registered with {}: restore "
                  "them, or register the engine again once it serves the new files",
                  engine.checkpoint_uri, manifest->digest, engine.name, engine.checkpoint),
      "/engine");
}

/// The digest of the weights: hashed here when the folder can be read, else as stated.
schema::Result<std::string> Registry::checkpoint_of(const EngineRequest& request) {
  if (request.checkpoint_uri.empty()) {
    if (request.checkpoint_digest.empty()) {
      return schema::fail(ErrorCode::invalid_argument,
                          "an engine needs its checkpoint: a folder (uri) or the digest of its manifest",
                          "/checkpoint");
    }
    auto digest = schema::parse_digest(request.checkpoint_digest);
    if (!digest)
      return std::unexpected(
          schema::Error{digest.error().code, digest.error().message, "/checkpoint/digest", nullptr});
    return request.checkpoint_digest;
  }
  auto manifest = manifest_of(request.checkpoint_uri);
  if (!manifest)
    return std::unexpected(
        schema::Error{manifest.error().code, manifest.error().message, "/checkpoint/uri", nullptr});
  if (!request.checkpoint_digest.empty() && request.checkpoint_digest != manifest->digest) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("the folder's digest is {}, not {}", manifest->digest, request.checkpoint_digest),
        "/checkpoint/digest");
  }
  return manifest->digest;
}

/// The row of an engine that was asked what it can do.
schema::Result<store::EngineRow> Registry::probe(const EngineRequest& request, const std::string& base_url) {
  auto checkpoint = checkpoint_of(request);
  if (!checkpoint) return std::unexpected(checkpoint.error());
  auto abilities =
      TRY(jobs::probe_engine(base_url, "", settings_.outgoing, router_mark_ ? router_mark_() : ""));
  if (!abilities.stated_checkpoint.empty() && abilities.stated_checkpoint != *checkpoint) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("the engine at {} says that it serves checkpoint {}, not {}", base_url,
                                    abilities.stated_checkpoint, *checkpoint),
                        "/checkpoint");
  }
  const auto now = clock_.now_us();
  return store::EngineRow{request.name,
                          base_url,
                          request.kernel,
                          *checkpoint,
                          request.checkpoint_uri,
                          jobs::to_json(abilities),
                          now,
                          now,
                          -1,
                          request.max_requests_per_second};
}

schema::Result<View> Registry::engine(const std::string& actor, const EngineRequest& request) {
  auto url = net::parse_url(request.url);
  if (!url) return std::unexpected(schema::Error{url.error().code, url.error().message, "/url", nullptr});
  if (url->target != "/") {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("an engine's URL is http://host:port without a path, not {}", request.url), "/url");
  }
  auto known = store_.read([&](store::Reader& reader) { return store::find_engine(reader, request.name); });
  if (!known) return std::unexpected(known.error());
  if (!*known) {
    TRY(schema::check_name(request.name, "an engine's name", "/name"));
  }
  auto kernel =
      store_.read([&](store::Reader& reader) { return store::find_kernel(reader, request.kernel); });
  if (!kernel) return std::unexpected(kernel.error());
  if (!*kernel)
    return schema::fail(ErrorCode::not_found,
                        fmt::format("there is no kernel {}; register it first", request.kernel), "/kernel");
  auto probed = TRY(probe(request, url->base()));
  auto& row = probed;
  known = store_.read([&](store::Reader& reader) { return store::find_engine(reader, request.name); });
  if (!known) return std::unexpected(known.error());
  const bool same = *known && (*known)->base_url == row.base_url && (*known)->kernel == row.kernel &&
                    (*known)->checkpoint == row.checkpoint &&
                    (*known)->checkpoint_uri == row.checkpoint_uri && (*known)->abilities == row.abilities &&
                    (*known)->max_requests_per_second == row.max_requests_per_second;
  if (same) return engine_view(**known);
  auto done = commit_rows("register engine", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto body = schema::EntryValue::Object{{"name", row.name},
                                           {"url", row.base_url},
                                           {"kernel", row.kernel},
                                           {"checkpoint_uri", row.checkpoint_uri},
                                           {"max_requests_per_second", row.max_requests_per_second},
                                           {"abilities", entry_value(nlohmann::json::parse(row.abilities))}};
    auto entry = draft(schema::EvidenceKind::engine_registered, actor, std::move(body));
    entry.subject.checkpoint = row.checkpoint;
    auto seq = TRY(entries.add(tx, entry));
    row.evidence_seq = seq;
    if (*known) {
      TRY(store::replace_engine(tx, row));
    } else {
      auto inserted = TRY(store::insert_engine(tx, row));
      if (!inserted) return schema::fail(ErrorCode::conflict, kNothingNew);
    }
    return note_made(tx, engine_view(row));
  });
  if (!done && !is_nothing_new(done.error())) return std::unexpected(done.error());
  return made(engine_view(row), done.has_value());
}

}  // namespace driftgate::pipeline
