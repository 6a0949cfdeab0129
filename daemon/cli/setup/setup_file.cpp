#include "daemon/cli/setup/setup_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <set>

#include "daemon/base/engine_access.hpp"
#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/setup_parts.hpp"
#include "daemon/net/url.hpp"
#include "daemon/pipeline/requests/recipe.hpp"
#include "daemon/schedule/cron.hpp"
#include "daemon/schedule/zone.hpp"
#include "schema/json.hpp"
#include "schema/names.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Cursor;
using schema::DocumentNode;
using schema::ErrorCode;
using schema::Fault;
using schema::Fields;
using schema::Result;

constexpr std::size_t kMaxItems = 1'000;  ///< of a section
constexpr std::uint64_t kMaxRate = 10'000'000;
constexpr std::uint64_t kMaxGraceSeconds = std::uint64_t{7} * 86'400;
constexpr std::string_view kStandardInput = "-";
constexpr std::array<std::string_view, 1> kVersions{"driftgate/v1"};
constexpr std::array<std::string_view, 1> kKinds{"Setup"};
constexpr std::array<std::string_view, 2> kMisfires{"skip", "run_once"};
constexpr std::array<std::string_view, 2> kIfRunning{"skip", "queue"};

/// Numbers as the API reads them: 100 and not 100.0.
json plain_json(const DocumentNode& node) {
  return json::parse(schema::canonical_json(schema::to_json(node)), nullptr, false);
}

json text_or_null(const std::optional<std::string>& text) {
  return text ? json(*text) : json();
}

Result<std::string> read_document_file(const std::string& path) {
  if (path != kStandardInput) return read_file(path, schema::kMaxDocumentBytes);
  std::string text(schema::kMaxDocumentBytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (text.size() <= schema::kMaxDocumentBytes) return text;
  return schema::fail(ErrorCode::limit_exceeded,
                      fmt::format("standard input has more than {} bytes", schema::kMaxDocumentBytes));
}

/// What the relative paths of a file are relative to.
std::filesystem::path folder_of(const std::string& path) {
  return path == kStandardInput ? std::filesystem::current_path()
                                : std::filesystem::absolute(path).parent_path();
}

/// The value at a JSON pointer, or as near as there is one.
const DocumentNode& node_at(const DocumentNode& root, std::string_view pointer) {
  const auto* node = &root;
  while (pointer.starts_with('/')) {
    pointer.remove_prefix(1);
    const auto token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    const DocumentNode* next = nullptr;
    for (const auto& member : node->members)
      if (schema::pointer_token(member.key) == token) next = &member.value;
    for (std::size_t i = 0; i < node->items.size(); ++i)
      if (std::to_string(i) == token) next = &node->items[i];
    if (next == nullptr) break;
    node = next;
  }
  return *node;
}

class SetupReader {
 public:
  SetupReader(std::string name, const std::filesystem::path& folder)
      : name_(std::move(name)), folder_(folder), paths_(folder) {}

  Result<std::vector<SetupItem>> read(std::string_view text) {
    if (const auto root = schema::read_document(text, faults_)) sections({*root, "", faults_});
    if (faults_.empty() && elsewhere_.empty()) return std::move(items_);
    auto told = schema::format_faults(faults_, name_);
    for (const auto& line : elsewhere_) told += (told.empty() || told.ends_with('\n') ? "" : "\n") + line;
    return schema::fail(ErrorCode::invalid_document, std::move(told));
  }

 private:
  void sections(const Cursor& top) {
    Fields fields(top, "a setup file");
    if (const auto at = fields.need("apiVersion")) (void)schema::read_choice(*at, kVersions);
    if (const auto at = fields.need("kind")) (void)schema::read_choice(*at, kKinds);
    const auto section = [&](const char* name, void (SetupReader::*item)(const Cursor&)) {
      const auto at = fields.find(name);
      if (!at || at->node.kind == DocumentNode::Kind::null) return;
      schema::read_list(*at, kMaxItems, [&](const Cursor& one) { (this->*item)(one); });
    };
    section("kernels", &SetupReader::kernel);
    section("contracts", &SetupReader::contract);
    section("engines", &SetupReader::engine);
    section("models", &SetupReader::model);
    section("recipes", &SetupReader::recipe);
    section("schedules", &SetupReader::schedule);
    fields.finish();
  }

  void add(SetupKind kind, const Cursor& at, std::string name, json body,
           std::vector<SetupReference> needs = {}, std::string digest = {}) {
    if (name.empty()) return;
    if (!named_.emplace(kind, name).second)
      at.refuse(fmt::format("the {} \"{}\" is in the file twice", to_string(kind), name));
    items_.push_back(
        {kind, std::move(name), at.node.position, std::move(body), std::move(digest), std::move(needs)});
  }

  static std::string name_of(Fields& fields, const char* field = "name") {
    const auto at = fields.need(field);
    if (!at) return {};
    const auto text = schema::read_text(*at, schema::kMaxNameBytes);
    if (!text) return {};
    const auto fine = schema::check_name(*text, fmt::format("\"{}\"", field));
    if (!fine) at->refuse(fine.error().message);
    return *text;
  }

  static std::optional<std::string> text_at(Fields& fields, const char* field) {
    std::optional<std::string> found;
    fields.take(field, found, [](const Cursor& at) { return schema::read_text(at); });
    return found;
  }

  /// A document in a file of its own, or in this one.
  struct Written {
    std::string text;  ///< of a file; empty: `inside`
    std::string file;  ///< its name in messages
    const DocumentNode* inside = nullptr;
  };
  std::optional<Written> written(const Cursor& at, const char* what) {
    if (at.node.kind == DocumentNode::Kind::text) return in_file(at);
    Fields fields(at, fmt::format("a {} of a setup file", what));
    const auto file = fields.find("file");
    const auto document = fields.find("document");
    fields.finish();
    if (at.node.kind != DocumentNode::Kind::mapping) return std::nullopt;
    if (file.has_value() == document.has_value()) {
      at.refuse(fmt::format("a {} has a \"file\" or a \"document\"", what));
      return std::nullopt;
    }
    if (file) return in_file(*file);
    return Written{{}, {}, &document->node};
  }
  std::optional<Written> in_file(const Cursor& at) {
    const auto path = schema::read_text(at);
    if (!path) return std::nullopt;
    const auto file = paths_.absolute(*path);
    auto text = read_file(file, schema::kMaxDocumentBytes);
    if (!text) {
      at.refuse(text.error().message);
      return std::nullopt;
    }
    return Written{std::move(*text), file, nullptr};
  }

  void tell_elsewhere(const std::vector<Fault>& faults, const std::string& file) {
    auto text = schema::format_faults(faults, file);
    if (text.ends_with('\n')) text.pop_back();
    elsewhere_.push_back(std::move(text));
  }

  void kernel(const Cursor& at) {
    const auto found = written(at, "kernel");
    if (!found) return;
    if (found->inside != nullptr) return add_kernel(at, *found->inside, faults_);
    std::vector<Fault> faults;
    const auto document = schema::read_document(found->text, faults);
    if (document) add_kernel(at, *document, faults);
    if (!faults.empty()) tell_elsewhere(faults, found->file);
  }
  void add_kernel(const Cursor& at, const DocumentNode& document, std::vector<Fault>& faults) {
    Fields fields({document, "", faults}, "a kernel");
    add(SetupKind::kernel, at, name_of(fields), plain_json(document));
  }

  void contract(const Cursor& at) {
    const auto found = written(at, "contract");
    if (!found) return;
    const auto text =
        found->inside == nullptr ? found->text : schema::canonical_json(schema::to_json(*found->inside));
    const auto report = schema::parse_contract(text, found->file);
    if (report.contract)
      return add(SetupKind::contract, at, report.contract->name,
                 json::parse(report.contract->canonical_json, nullptr, false), {}, report.contract->digest);
    if (found->inside == nullptr) return tell_elsewhere(report.faults, found->file);
    for (const auto& fault : report.faults)
      faults_.push_back({node_at(*found->inside, fault.pointer).position, fault.pointer, fault.message});
  }

  void engine(const Cursor& at) {
    Fields fields(at, "an engine");
    const auto name = name_of(fields);
    json body{{"name", name}};
    std::vector<SetupReference> needs;
    if (const auto url = fields.need("url")) body["url"] = text_or_null(schema::read_text(*url));
    if (const auto kernel = fields.need("kernel")) {
      body["kernel"] = text_or_null(schema::read_text(*kernel, schema::kMaxNameBytes));
      if (body["kernel"].is_string())
        needs.push_back({SetupKind::kernel, body["kernel"].get<std::string>(), kernel->node.position});
    }
    if (const auto checkpoint = fields.need("checkpoint")) body["checkpoint"] = checkpoint_of(*checkpoint);
    std::optional<std::uint64_t> rate;
    fields.take("max_requests_per_second", rate,
                [](const Cursor& field) { return schema::read_count(field, 1, kMaxRate); });
    if (rate) body["max_requests_per_second"] = *rate;
    for (const char* field : {"key_file", "key_header", "ca_file"})
      if (const auto text = text_at(fields, field)) body[field] = *text;
    fields.finish();
    if (body.value("url", json()).is_string()) check_engine(at, body);
    add(SetupKind::engine, at, name, std::move(body), std::move(needs));
  }
  /// What the daemon would refuse whatever it has: told here, before the first change.
  void check_engine(const Cursor& at, const json& body) {
    const auto refuse = [&](const char* member, const std::string& why) {
      faults_.push_back({node_at(at.node, std::string("/") + member).position,
                         fmt::format("{}/{}", at.pointer, member), why});
    };
    const auto url = net::engine_base_url(body["url"].get<std::string>());
    if (!url) return refuse("url", url.error().message);
    if (body.contains("ca_file") && !url->starts_with("https://"))
      refuse("ca_file", "a CA file is for an engine whose URL is https://");
    if (!body.contains("key_header")) return;
    if (!body.contains("key_file")) refuse("key_header", "it names the header of a key: give key_file too");
    const auto header = base::check_key_header(body["key_header"].get<std::string>());
    if (!header) refuse("key_header", header.error().message);
  }
  json checkpoint_of(const Cursor& at) {
    if (at.node.kind == DocumentNode::Kind::text) return json{{"uri", paths_.absolute(at.node.text)}};
    Fields fields(at, "a checkpoint");
    json found = json::object();
    if (const auto uri = text_at(fields, "uri")) found["uri"] = paths_.absolute(*uri);
    if (const auto digest = text_at(fields, "digest")) found["digest"] = *digest;
    fields.finish();
    if (found.empty() && at.node.kind == DocumentNode::Kind::mapping)
      at.refuse("a checkpoint has a \"uri\", a \"digest\" or both");
    return found;
  }

  void model(const Cursor& at) {
    Fields fields(at, "a model");
    const auto name = name_of(fields);
    json body{{"name", name}, {"reason", text_at(fields, "reason").value_or("first version")}};
    std::vector<SetupReference> needs;
    if (const auto engine = fields.need("engine")) {
      body["engine"] = text_or_null(schema::read_text(*engine, schema::kMaxNameBytes));
      if (body["engine"].is_string())
        needs.push_back({SetupKind::engine, body["engine"].get<std::string>(), engine->node.position});
    }
    fields.finish();
    add(SetupKind::model, at, name, std::move(body), std::move(needs));
  }

  void recipe(const Cursor& at) {
    Fields fields(at, "a recipe");
    const auto name = name_of(fields, "model");
    RequestPartsReader reader(folder_);
    const auto faults = faults_.size();
    auto body = reader.recipe(fields);
    fields.finish();
    if (faults_.size() == faults) check(at, "", pipeline::parse_recipe(schema::canonical_json(body)));
    auto needs = reader.take_needs();
    needs.push_back({SetupKind::model, name, at.node.position});
    add(SetupKind::recipe, at, name, std::move(body), std::move(needs));
  }

  /// The fault of an item, which the daemon would find too; `part` is what was looked at.
  template <typename T>
  void check(const Cursor& at, const std::string& part, const Result<T>& found) {
    if (found) return;
    const auto pointer = part + (found.error().where.starts_with('/') ? found.error().where : std::string());
    faults_.push_back({node_at(at.node, pointer).position, at.pointer + pointer, found.error().message});
  }

  void schedule(const Cursor& at) {
    Fields fields(at, "a schedule");
    const auto name = name_of(fields);
    json body{{"name", name}, {"timezone", text_at(fields, "timezone").value_or("UTC")}};
    if (const auto cron = fields.need("cron")) body["cron"] = text_or_null(schema::read_text(*cron));
    std::size_t misfire = 0, if_running = 0;
    std::uint64_t grace_s = 3'600;
    fields.take("misfire", misfire,
                [](const Cursor& field) { return schema::read_choice(field, kMisfires); });
    fields.take("if_running", if_running,
                [](const Cursor& field) { return schema::read_choice(field, kIfRunning); });
    fields.take("grace_s", grace_s,
                [](const Cursor& field) { return schema::read_count(field, 0, kMaxGraceSeconds); });
    body["misfire"] = kMisfires[misfire];
    body["if_running"] = kIfRunning[if_running];
    body["grace_s"] = grace_s;
    if (body.value("cron", json()).is_string())
      check(at, "/cron", schedule::parse_cron(body["cron"].get<std::string>()));
    // A machine without a database of time zones leaves that to the daemon.
    if (schedule::Zone::find("Europe/Berlin"))
      check(at, "/timezone", schedule::Zone::find(body["timezone"].get<std::string>()));
    RequestPartsReader reader(folder_);
    const auto faults = faults_.size();
    if (const auto promotion = fields.need("promotion")) {
      body["promotion"] = reader.promotion(*promotion);
      if (faults_.size() == faults)
        check(at, "/promotion", pipeline::parse_asked_promotion(schema::canonical_json(body["promotion"])));
    }
    fields.finish();
    add(SetupKind::schedule, at, name, std::move(body), reader.take_needs());
  }

  std::string name_;
  std::filesystem::path folder_;
  RequestPartsReader paths_;
  std::vector<SetupItem> items_;
  std::set<std::pair<SetupKind, std::string>> named_;
  std::vector<Fault> faults_;
  std::vector<std::string> elsewhere_;  ///< faults of other files
};

}  // namespace

std::string_view to_string(SetupKind kind) {
  constexpr std::array<std::string_view, 6> kNames{"kernel", "contract", "engine",
                                                   "model",  "recipe",   "schedule"};
  return kNames[static_cast<std::size_t>(kind)];
}

Result<std::vector<SetupItem>> parse_setup(std::string_view text, const std::string& name,
                                           const std::filesystem::path& folder) {
  return SetupReader(name, folder).read(text);
}

std::string name_of_file(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

Result<std::vector<SetupItem>> read_setup_file(const std::string& path) {
  const auto text = TRY(read_document_file(path));
  return parse_setup(text, name_of_file(path), folder_of(path));
}

Result<json> read_recipe_file(const std::string& path) {
  const auto text = TRY(read_document_file(path));
  std::vector<Fault> faults;
  const auto root = schema::read_document(text, faults);
  json recipe;
  if (root) {
    Fields fields({*root, "", faults}, "a recipe");
    recipe = RequestPartsReader(folder_of(path)).recipe(fields);
    fields.finish();
  }
  if (faults.empty()) return recipe;
  return schema::fail(ErrorCode::invalid_document, schema::format_faults(faults, name_of_file(path)));
}

}  // namespace driftgate::cli
