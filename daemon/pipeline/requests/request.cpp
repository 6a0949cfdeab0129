#include "daemon/pipeline/requests/request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxTextBytes = 4'096;
constexpr std::int64_t kMaxRequestsPerSecond = 10'000'000;

/// Collects members of one object; the first fault wins.
class Members {
 public:
  Members(const json& value, std::string at, std::initializer_list<std::string_view> allowed)
      : value_(value), at_(std::move(at)) {
    refuse_others(std::span(allowed.begin(), allowed.size()));
  }
  Members(const json& value, std::string at, const std::vector<std::string_view>& allowed)
      : value_(value), at_(std::move(at)) {
    refuse_others(allowed);
  }

  /// Whatever is not an object, and members that are not allowed.
  void refuse_others(std::span<const std::string_view> allowed) {
    if (!value_.is_object()) {
      fault("", "an object is expected");
      return;
    }
    for (const auto& [key, item] : value_.items()) {
      if (std::ranges::find(allowed, key) == allowed.end()) {
        fault(key, fmt::format("'{}' is not known here; allowed are {}", key, fmt::join(allowed, ", ")));
      }
    }
  }

  std::string string_at(std::string_view key, bool required, std::size_t limit = kMaxTextBytes) {
    const auto* item = find(key);
    if (item == nullptr) {
      if (required) fault(key, fmt::format("'{}' is missing", key));
      return {};
    }
    if (!item->is_string() || item->get_ref<const std::string&>().size() > limit) {
      fault(key, fmt::format("'{}' must be a string of at most {} bytes", key, limit));
      return {};
    }
    std::string found = item->get_ref<const std::string&>();
    if (required && found.empty()) fault(key, fmt::format("'{}' must not be empty", key));
    return found;
  }

  std::string name(std::string_view key) {
    auto found = string_at(key, true, kMaxNameBytes);
    const auto allowed = [](char c) {
      return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-' ||
             c == '_' || c == '.' || c == '/' || c == ':' || c == '@' || c == '+';
    };
    if (!std::ranges::all_of(found, allowed))
      fault(key, fmt::format("'{}' may hold letters, digits and - _ . / : @ + only", key));
    return found;
  }

  /// A whole number from 1 to `limit`, 0 when absent.
  std::int64_t count(std::string_view key, std::int64_t limit) {
    const auto* item = find(key);
    if (item == nullptr) return 0;
    const bool whole =
        item->is_number_integer() && item->get<std::int64_t>() >= 1 && item->get<std::int64_t>() <= limit;
    if (!whole) fault(key, fmt::format("'{}' must be a whole number from 1 to {}", key, limit));
    return whole ? item->get<std::int64_t>() : 0;
  }

  /// True or false; false when absent.
  bool flag(std::string_view key) {
    const auto* item = find(key);
    if (item == nullptr) return false;
    if (!item->is_boolean()) fault(key, fmt::format("'{}' must be true or false", key));
    return item->is_boolean() && item->get<bool>();
  }

  const json* find(std::string_view key) const {
    if (!value_.is_object()) return nullptr;
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }

  void fault(std::string_view key, std::string message) {
    if (!error_)
      error_ = schema::Error{ErrorCode::invalid_document, std::move(message), pointer(key), nullptr};
  }
  void take(const Members& inner) {
    if (!error_) error_ = inner.error_;
  }
  [[nodiscard]] std::string pointer(std::string_view key) const {
    return key.empty() ? at_ : at_ + "/" + schema::pointer_token(key);
  }
  [[nodiscard]] const std::optional<schema::Error>& error() const { return error_; }

 private:
  const json& value_;
  std::string at_;
  std::optional<schema::Error> error_;
};

/// Whether all that a stage's captures need must be there.
enum class Extent : std::uint8_t { whole, parts };

CaptureSource read_source(Members& outer, std::string_view key, Extent extent) {
  const auto* item = outer.find(key);
  CaptureSource source;
  if (item == nullptr) {
    if (extent == Extent::whole)
      outer.fault(key, fmt::format("'{}' is missing: give a path or {{\"adapter\": NAME}}", key));
  } else if (item->is_string()) {
    source.uri = outer.string_at(key, true);
  } else {
    Members inner(*item, outer.pointer(key), {"adapter"});
    source.adapter = inner.name("adapter");
    outer.take(inner);
  }
  return source;
}

constexpr const char* kFloorShapes =
    "a floor is a second capture (a path or {\"adapter\": NAME}), or a list of two that are compared with "
    "each other";

/// `at` is the pointer of the list or of the one source.
CaptureSource read_floor_source(Members& outer, std::string_view key, const json& item,
                                const std::string& at) {
  CaptureSource source;
  if (item.is_string() && !item.get_ref<const std::string&>().empty() &&
      item.get_ref<const std::string&>().size() <= kMaxTextBytes) {
    source.uri = item.get<std::string>();
  } else if (item.is_object()) {
    Members inner(item, at, {"adapter"});
    source.adapter = inner.name("adapter");
    outer.take(inner);
  } else {
    outer.fault(key, kFloorShapes);
  }
  return source;
}

std::optional<FloorCaptures> read_floor(Members& outer, std::string_view key) {
  const auto* item = outer.find(key);
  if (item == nullptr) return std::nullopt;
  const auto at = outer.pointer(key);
  FloorCaptures floor;
  if (!item->is_array()) {
    floor.second = read_floor_source(outer, key, *item, at);
  } else if (item->size() == 2) {
    floor.first = read_floor_source(outer, key, (*item)[0], at + "/0");
    floor.second = read_floor_source(outer, key, (*item)[1], at + "/1");
    if (floor.first->adapter.empty() && *floor.first == floor.second)
      outer.fault(key, "both captures of the floor are the same file, which shows no noise");
  } else {
    outer.fault(key, kFloorShapes);
  }
  return floor;
}

void read_floors(Members& outer, StageCaptures& captures) {
  const auto* item = outer.find("floor");
  if (item == nullptr) return;
  Members inner(*item, outer.pointer("floor"), {"train", "inf"});
  captures.floor_train = read_floor(inner, "train");
  captures.floor_inf = read_floor(inner, "inf");
  const auto same = [](const std::optional<FloorCaptures>& floor, const CaptureSource& own) {
    return floor && !floor->first && own.adapter.empty() && floor->second == own;
  };
  if (same(captures.floor_train, captures.train) || same(captures.floor_inf, captures.inf))
    inner.fault("", "a floor names the stage's own capture, which shows no noise; name a second run");
  outer.take(inner);
}

std::optional<StageCaptures> read_stage(Members& outer, std::string_view key, Extent extent) {
  const auto* item = outer.find(key);
  if (item == nullptr) return std::nullopt;
  Members inner(*item, outer.pointer(key), {"train", "inf", "corpus", "floor"});
  StageCaptures captures;
  captures.train = read_source(inner, "train", extent);
  captures.inf = read_source(inner, "inf", extent);
  captures.corpus = inner.string_at("corpus", false);
  read_floors(inner, captures);
  outer.take(inner);
  return captures;
}

/// The captures of both stages, into a PromotionRequest or RequestParts.
template <typename Into>
void read_captures(Members& top, Into& into, Extent extent) {
  const auto* captures = top.find("captures");
  if (captures == nullptr) return;
  Members inner(*captures, top.pointer("captures"), {"numeric", "slice"});
  into.numeric = read_stage(inner, "numeric", extent);
  into.slice = read_stage(inner, "slice", extent);
  top.take(inner);
}

std::optional<RecipeUse> read_recipe_use(Members& top) {
  const auto* item = top.find("recipe");
  if (item == nullptr) return std::nullopt;
  Members inner(*item, "/recipe", {"revision", "digest", "parts", "set_by"});
  RecipeUse use;
  use.revision = static_cast<std::uint64_t>(inner.count("revision", std::int64_t{1} << 53));
  use.digest = inner.string_at("digest", true);
  use.set_by = inner.string_at("set_by", false);  // absent in requests of older programs
  const auto* parts = inner.find("parts");
  if (parts == nullptr || !parts->is_array()) {
    inner.fault("parts", "'parts' must be a list");
  } else {
    for (const json& part : *parts)
      use.parts.push_back(part.is_string() ? part.get<std::string>() : std::string());
  }
  top.take(inner);
  return use;
}

json source_json(const CaptureSource& source) {
  return source.adapter.empty() ? json(source.uri) : json{{"adapter", source.adapter}};
}

json floor_json(const FloorCaptures& floor) {
  if (!floor.first) return source_json(floor.second);
  return json::array({source_json(*floor.first), source_json(floor.second)});
}

json captures_json(const StageCaptures& captures) {
  json value{{"train", source_json(captures.train)}, {"inf", source_json(captures.inf)}};
  if (!captures.corpus.empty()) value["corpus"] = captures.corpus;
  if (captures.floor_train) value["floor"]["train"] = floor_json(*captures.floor_train);
  if (captures.floor_inf) value["floor"]["inf"] = floor_json(*captures.floor_inf);
  return value;
}

}  // namespace

std::unexpected<schema::Error> unregistered(std::string_view what, std::string_view name,
                                            std::string pointer) {
  return schema::fail(ErrorCode::not_found, fmt::format("there is no {} {}; register it first", what, name),
                      std::move(pointer));
}

schema::Result<PromotionRequest> parse_promotion_request(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "the promotion"));
  Members top(
      parsed, "",
      {"model", "engine", "contract", "captures", "fallback_engine", "accept_undecidable", "note", "recipe"});
  PromotionRequest request;
  request.model = top.name("model");
  request.engine = top.name("engine");
  request.contract = top.name("contract");
  request.note = top.string_at("note", false);
  if (top.find("fallback_engine") != nullptr) request.fallback_engine = top.name("fallback_engine");
  request.accept_undecidable = top.flag("accept_undecidable");
  read_captures(top, request, Extent::whole);
  request.recipe = read_recipe_use(top);
  if (top.error()) return std::unexpected(*top.error());
  return request;
}

schema::Result<RequestParts> read_request_parts(const json& value, std::string at,
                                                std::span<const std::string_view> beside) {
  std::vector<std::string_view> allowed{"contract", "captures", "fallback_engine"};
  allowed.insert(allowed.end(), beside.begin(), beside.end());
  Members top(value, std::move(at), allowed);
  RequestParts parts;
  if (top.find("contract") != nullptr) parts.contract = top.name("contract");
  if (top.find("fallback_engine") != nullptr) parts.fallback_engine = top.name("fallback_engine");
  read_captures(top, parts, Extent::parts);
  if (top.error()) return std::unexpected(*top.error());
  return parts;
}

std::string to_json(const PromotionRequest& request) {
  json captures = json::object();
  if (request.numeric) captures["numeric"] = captures_json(*request.numeric);
  if (request.slice) captures["slice"] = captures_json(*request.slice);
  json value{{"model", request.model},
             {"engine", request.engine},
             {"contract", request.contract},
             {"captures", captures}};
  if (!request.note.empty()) value["note"] = request.note;
  if (!request.fallback_engine.empty()) value["fallback_engine"] = request.fallback_engine;
  if (request.accept_undecidable) value["accept_undecidable"] = true;
  if (request.recipe) {
    value["recipe"] = {{"revision", request.recipe->revision},
                       {"digest", request.recipe->digest},
                       {"parts", request.recipe->parts}};
    if (!request.recipe->set_by.empty()) value["recipe"]["set_by"] = request.recipe->set_by;
  }
  return schema::canonical_json(value);
}

schema::Result<EngineRequest> parse_engine_request(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "the engine"));
  Members top(parsed, "",
              {"name", "url", "kernel", "checkpoint", "max_requests_per_second", "key_file", "key_header",
               "ca_file"});
  EngineRequest request;
  request.name = top.name("name");
  request.url = top.string_at("url", true);
  request.kernel = top.name("kernel");
  request.max_requests_per_second = top.count("max_requests_per_second", kMaxRequestsPerSecond);
  request.key_file = top.string_at("key_file", false);
  request.key_header = top.string_at("key_header", false);
  request.ca_file = top.string_at("ca_file", false);
  if (const auto* checkpoint = top.find("checkpoint")) {
    Members inner(*checkpoint, "/checkpoint", {"uri", "digest"});
    request.checkpoint_uri = inner.string_at("uri", false);
    request.checkpoint_digest = inner.string_at("digest", false);
    top.take(inner);
  }
  if (top.error()) return std::unexpected(*top.error());
  return request;
}

schema::Result<ModelRequest> parse_model_request(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {}, "the model"));
  Members top(parsed, "", {"name", "engine", "reason"});
  ModelRequest request;
  request.name = top.name("name");
  request.engine = top.name("engine");
  request.reason = top.string_at("reason", true);
  if (top.error()) return std::unexpected(*top.error());
  return request;
}

}  // namespace driftgate::pipeline
