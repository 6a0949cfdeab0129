#include "daemon/pipeline/requests/registry.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/stored_hashes.hpp"
#include "daemon/net/url.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/contract/contract.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

/// What ends a transaction that found its work done already.
constexpr const char* kNothingNew = "nothing new";

}  // namespace

schema::Result<View> Registry::commit_new(std::string_view what, const Work& work,
                                          const std::function<View()>& view) {
  const auto done = committer_.commit(what, work);
  if (!done && (done.error().code != ErrorCode::conflict || done.error().message != kNothingNew))
    return std::unexpected(done.error());
  for (const auto& event : done.value_or(std::vector<Event>{})) publish_(event);
  auto made = view();
  made.created = done.has_value();
  return made;
}

/// A contract or a kernel: its entry, its text and its row.
template <typename Row>
schema::Result<View> Registry::put_document(std::string_view what, schema::EvidenceKind kind,
                                            schema::EvidenceSubject subject, Row row,
                                            schema::Result<bool> (*insert)(store::Tx&, const Row&),
                                            View (*view_of)(const Row&)) {
  const auto store_row = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto entry = draft(kind, row.registrant, {{"name", row.name}, {"digest", row.digest}});
    entry.subject = subject;
    const auto seq = TRY(entries.add(tx, entry));
    row.evidence_seq = seq;
    TRY(store::put_blob(tx, row.canonical, "application/json", row.registered_us));
    const auto inserted = TRY(insert(tx, row));
    if (!inserted) return schema::fail(ErrorCode::conflict, kNothingNew);
    if (!store::is_answer_wanted()) return {};
    const auto made = view_of(row);
    return note_made(tx, made.id, [&] { return made; });
  };
  return commit_new(what, store_row, [&] { return view_of(row); });
}

schema::EntryDraft Registry::draft(schema::EvidenceKind kind, const std::string& actor,
                                   schema::EntryValue::Object body) const {
  return {.time_us = clock_.now_us(), .kind = kind, .actor = actor, .body = std::move(body)};
}

schema::Result<View> Registry::contract(const std::string& actor, std::string_view text,
                                        const std::string& name) {
  const auto report = schema::parse_contract(text, name);
  if (!report.contract)
    return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, name));
  const auto& contract = *report.contract;
  store::ContractRow row{contract.digest, contract.name, contract.canonical_json, actor, clock_.now_us(), -1};
  auto known = TRY(look_up(store_, store::find_contract, row.digest));
  if (known) return contract_view(*known);
  TRY(schema::check_name(contract.name, "a contract's name", "/metadata/name"));
  return put_document("register contract", schema::EvidenceKind::contract_registered,
                      {.contract = contract.digest}, std::move(row), store::insert_contract, contract_view);
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
  auto known = TRY(look_up(store_, store::find_kernel, row.name));
  if (known && known->digest == row.digest) return kernel_view(*known);
  TRY(schema::check_name(row.name, "a kernel's name", "/name"));
  return put_document("register kernel", schema::EvidenceKind::kernel_registered, {}, std::move(row),
                      store::insert_kernel, kernel_view);
}

schema::Result<jobs::Manifest> Registry::manifest_of(const std::string& uri) {
  jobs::StoredHashes cache(store_, [this] { return clock_.now_us(); });
  const auto wall_us = clock_.now_us() + clock_.wall_offset_us();
  return jobs::checkpoint_manifest(uri, settings_.roots,
                                   {.threads = 0, .cache = &cache, .now_ns = wall_us * 1'000});
}

schema::Result<bool> Registry::verify_checkpoint(const store::EngineRow& engine) {
  if (engine.checkpoint_uri.empty()) return false;
  const auto manifest = TRY(about("/engine", manifest_of(engine.checkpoint_uri)));
  if (manifest.digest == engine.checkpoint) return true;
  return schema::fail(
      ErrorCode::conflict,
      fmt::format("the files below {} are {} now, but engine {} was registered with {}: restore "
                  "them, or register the engine again once it serves the new files",
                  engine.checkpoint_uri, manifest.digest, engine.name, engine.checkpoint),
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
    TRY(about("/checkpoint/digest", schema::parse_digest(request.checkpoint_digest)));
    return request.checkpoint_digest;
  }
  const auto manifest = TRY(about("/checkpoint/uri", manifest_of(request.checkpoint_uri)));
  if (!request.checkpoint_digest.empty() && request.checkpoint_digest != manifest.digest) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("the folder's digest is {}, not {}", manifest.digest, request.checkpoint_digest),
        "/checkpoint/digest");
  }
  return manifest.digest;
}

/// The files that the request names, found and read once: their faults are told here and not by the router.
schema::Result<store::EngineAccessRow> Registry::access_of(const EngineRequest& request,
                                                           const std::string& base_url) {
  const auto refuse = [](const char* why, const char* where) {
    return schema::fail(ErrorCode::invalid_argument, why, where);
  };
  const auto url = TRY(net::parse_url(base_url));
  store::EngineAccessRow row{.base_url = base_url, .key_header = request.key_header};
  if (request.key_file.empty()) {
    if (!request.key_header.empty())
      return refuse("key_header names the header of a key: give key_file too", "/key_header");
  } else {
    if (!request.key_header.empty()) TRY(about("/key_header", base::check_key_header(request.key_header)));
    auto path = TRY(about("/key_file", base::file_below(settings_.engine_files, request.key_file)));
    row.key_file = std::move(path);
    TRY(about("/key_file", base::read_key(row.access())));
  }
  if (request.ca_file.empty()) return row;
  if (!url.tls) return refuse("a CA file is for an engine whose URL is https://", "/ca_file");
  auto path = TRY(about("/ca_file", base::file_below(settings_.engine_files, request.ca_file)));
  const auto authorities = TRY(about("/ca_file", base::read_ca_file(path)));
  row.ca_file = std::move(path);
  row.ca_digest = schema::sha256_digest(authorities);
  return row;
}

/// The row of an engine after probing what it can do.
schema::Result<store::EngineRow> Registry::probe(const EngineRequest& request,
                                                 const jobs::EngineAddress& at) {
  const auto& base_url = at.url;
  auto checkpoint = TRY(checkpoint_of(request));
  auto abilities = TRY(jobs::probe_engine(at, "", settings_.outgoing, router_mark_ ? router_mark_() : ""));
  if (!abilities.stated_checkpoint.empty() && abilities.stated_checkpoint != checkpoint) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("the engine at {} says that it serves checkpoint {}, not {}", base_url,
                                    abilities.stated_checkpoint, checkpoint),
                        "/checkpoint");
  }
  const auto now = clock_.now_us();
  return store::EngineRow{request.name,
                          base_url,
                          request.kernel,
                          checkpoint,
                          request.checkpoint_uri,
                          jobs::to_json(abilities),
                          now,
                          now,
                          -1,
                          request.max_requests_per_second};
}

schema::Result<View> Registry::engine(const std::string& actor, const EngineRequest& request) {
  const auto base_url = TRY(about("/url", net::engine_base_url(request.url)));
  const auto before = TRY(look_up(store_, store::find_engine, request.name));
  if (!before) TRY(schema::check_name(request.name, "an engine's name", "/name"));
  auto kernel = TRY(look_up(store_, store::find_kernel, request.kernel));
  if (!kernel) return unregistered("kernel", request.kernel, "/kernel");
  auto access = TRY(access_of(request, base_url));
  auto row = TRY(probe(request, {base_url, access.access()}));
  // Read again, since a probe may take half a minute.
  const auto known = TRY(look_up(store_, store::find_engine, request.name));
  const auto stored = TRY(look_up(store_, store::find_engine_access, base_url));
  access.evidence_seq = stored ? stored->evidence_seq : -1;
  const bool same_access = stored.value_or(store::EngineAccessRow{.base_url = base_url}) == access;
  const bool same = known && known->base_url == row.base_url && known->kernel == row.kernel &&
                    known->checkpoint == row.checkpoint && known->checkpoint_uri == row.checkpoint_uri &&
                    known->abilities == row.abilities &&
                    known->max_requests_per_second == row.max_requests_per_second && same_access;
  if (same) return engine_view(*known, access, settings_.engine_files);
  const auto store_row = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto body = schema::EntryValue::Object{{"name", row.name},
                                           {"url", row.base_url},
                                           {"kernel", row.kernel},
                                           {"checkpoint_uri", row.checkpoint_uri},
                                           {"max_requests_per_second", row.max_requests_per_second},
                                           {"key_file", access.key_file},
                                           {"key_header", access.key_header},
                                           {"ca_file", access.ca_file},
                                           {"ca_digest", access.ca_digest},
                                           {"abilities", entry_value(nlohmann::json::parse(row.abilities))}};
    auto entry = draft(schema::EvidenceKind::engine_registered, actor, std::move(body));
    entry.subject.checkpoint = row.checkpoint;
    auto seq = TRY(entries.add(tx, entry));
    row.evidence_seq = access.evidence_seq = seq;
    TRY(store::put_engine_access(tx, access));
    if (known) {
      TRY(store::replace_engine(tx, row));
    } else {
      auto inserted = TRY(store::insert_engine(tx, row));
      if (!inserted) return schema::fail(ErrorCode::conflict, kNothingNew);
    }
    return note_made(tx, row.name, [&] { return engine_view(row, access, settings_.engine_files); });
  };
  return commit_new("register engine", store_row,
                    [&] { return engine_view(row, access, settings_.engine_files); });
}

}  // namespace driftgate::pipeline
