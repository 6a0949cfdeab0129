#include "daemon/cli/setup/setup_parts.hpp"

#include "schema/names.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Cursor;
using schema::DocumentNode;
using schema::Fields;

constexpr std::size_t kMaxPathBytes = 4'096;
constexpr std::size_t kFloorRuns = 2;

bool is_null(const Cursor& at) {
  return at.node.kind == DocumentNode::Kind::null;
}

/// Puts what `read` gives for a field that is there.
template <typename Read>
void put_field(Fields& fields, const char* name, json& into, Read read) {
  if (const auto at = fields.find(name)) into[name] = is_null(*at) ? json() : read(*at);
}

json flag_of_field(const Cursor& at) {
  const auto flag = schema::read_flag(at);
  return flag ? json(*flag) : json();
}

json text_of_field(const Cursor& at) {
  const auto text = schema::read_text(at, kMaxPathBytes);
  return text ? json(*text) : json();
}

/// false, or {digest}.
json wish_of(const Cursor& at) {
  if (at.node.kind == DocumentNode::Kind::boolean && !at.node.flag) return false;
  if (at.node.kind != DocumentNode::Kind::mapping) {
    at.refuse_kind("false, or a mapping with \"digest\"");
    return {};
  }
  Fields fields(at, "the wish for a recipe");
  json wish = json::object();
  if (const auto digest = fields.need("digest")) wish["digest"] = text_of_field(*digest);
  fields.finish();
  return wish;
}

}  // namespace

std::string RequestPartsReader::absolute(const std::string& path) const {
  if (path.starts_with('/') || path.starts_with("file://")) return path;
  auto found = (folder_ / path).lexically_normal().string();
  if (found.size() > 1 && found.ends_with('/')) found.pop_back();
  return found;
}

json RequestPartsReader::path(const Cursor& at) {
  const auto text = schema::read_text(at, kMaxPathBytes);
  return text ? json(absolute(*text)) : json();
}

json RequestPartsReader::named(const Cursor& at, SetupKind kind) {
  const auto text = schema::read_text(at, schema::kMaxNameBytes);
  if (!text) return {};
  needs_.push_back({kind, *text, at.node.position});
  return *text;
}

json RequestPartsReader::source(const Cursor& at) {
  if (at.node.kind == DocumentNode::Kind::text) return path(at);
  if (at.node.kind != DocumentNode::Kind::mapping) {
    at.refuse_kind("a path, or {adapter: NAME}");
    return {};
  }
  Fields fields(at, "a source of captures");
  json found = json::object();
  if (const auto adapter = fields.need("adapter")) found["adapter"] = text_of_field(*adapter);
  fields.finish();
  return found;
}

json RequestPartsReader::floor(const Cursor& at) {
  if (at.node.kind != DocumentNode::Kind::list) return source(at);
  json runs = json::array();
  schema::read_list(at, kFloorRuns, [&](const Cursor& run) { runs.push_back(source(run)); });
  if (at.node.items.size() < kFloorRuns)
    at.refuse("a list of runs has two, which are compared with each other");
  return runs;
}

json RequestPartsReader::stage(const Cursor& at) {
  Fields fields(at, "the captures of a stage");
  json found = json::object();
  put_field(fields, "train", found, [&](const Cursor& field) { return source(field); });
  put_field(fields, "inf", found, [&](const Cursor& field) { return source(field); });
  put_field(fields, "corpus", found, [&](const Cursor& field) { return path(field); });
  put_field(fields, "floor", found, [&](const Cursor& field) {
    Fields floors(field, "the noise floors");
    json runs = json::object();
    put_field(floors, "train", runs, [&](const Cursor& run) { return floor(run); });
    put_field(floors, "inf", runs, [&](const Cursor& run) { return floor(run); });
    floors.finish();
    return runs;
  });
  fields.finish();
  return found;
}

json RequestPartsReader::captures(const Cursor& at) {
  Fields fields(at, "captures");
  json found = json::object();
  put_field(fields, "numeric", found, [&](const Cursor& field) { return stage(field); });
  put_field(fields, "slice", found, [&](const Cursor& field) { return stage(field); });
  fields.finish();
  return found;
}

void RequestPartsReader::parts(Fields& fields, json& into) {
  put_field(fields, "contract", into, [&](const Cursor& at) { return named(at, SetupKind::contract); });
  put_field(fields, "captures", into, [&](const Cursor& at) { return captures(at); });
  put_field(fields, "fallback_engine", into, [&](const Cursor& at) { return named(at, SetupKind::engine); });
}

json RequestPartsReader::kernels(const Cursor& at) {
  if (at.node.kind != DocumentNode::Kind::mapping) {
    at.refuse_kind("a mapping from names of kernels to parts of a recipe");
    return {};
  }
  json found = json::object();
  for (const auto& member : at.node.members) {
    needs_.push_back({SetupKind::kernel, member.key, member.position});
    Fields fields({member.value, at.pointer + "/" + member.key, at.faults}, "the recipe of a kernel");
    auto& own = found[member.key] = json::object();
    parts(fields, own);
    fields.finish();
  }
  return found;
}

json RequestPartsReader::recipe(Fields& fields) {
  json found = json::object();
  parts(fields, found);
  put_field(fields, "kernels", found, [&](const Cursor& at) { return kernels(at); });
  return found;
}

json RequestPartsReader::promotion(const Cursor& at) {
  Fields fields(at, "a promotion");
  json found = json::object();
  if (const auto model = fields.need("model")) found["model"] = named(*model, SetupKind::model);
  if (const auto engine = fields.need("engine")) found["engine"] = named(*engine, SetupKind::engine);
  parts(fields, found);
  put_field(fields, "accept_undecidable", found, flag_of_field);
  put_field(fields, "note", found, text_of_field);
  put_field(fields, "recipe", found, wish_of);
  fields.finish();
  return found;
}

}  // namespace driftgate::cli
