#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::pipeline {

/// The result, an error as one about the member at a JSON pointer.
template <typename T>
schema::Result<T> about(std::string pointer, schema::Result<T> result) {
  if (!result) result.error() = {result.error().code, result.error().message, std::move(pointer), nullptr};
  return result;
}

/// `not_found` for a request that names an engine, a kernel or a contract that was not registered.
[[nodiscard]] std::unexpected<schema::Error> unregistered(std::string_view what, std::string_view name,
                                                          std::string pointer);

/// Where a capture comes from: a path below a configured root, or an adapter of the daemon's settings
/// that produces it in a job. Exactly one of the two is set.
struct CaptureSource {
  std::string uri;      ///< path, or "file://" and a path
  std::string adapter;  ///< name in the settings; the API only names it
  bool operator==(const CaptureSource&) const = default;
};

/// A noise floor: two runs of one kernel on the stage's corpus, batched differently.
struct FloorCaptures {
  std::optional<CaptureSource> first;  ///< absent = the stage's own capture of that kernel
  CaptureSource second{};
  bool operator==(const FloorCaptures&) const = default;
};

/// The captures of one fixed-data stage.
struct StageCaptures {
  CaptureSource train{}, inf{};
  std::string corpus{};  ///< JSON Lines below a configured root; empty = none
  std::optional<FloorCaptures> floor_train{}, floor_inf{};
  bool operator==(const StageCaptures&) const = default;
};

/// Which recipe completed a request, and which parts of the request came from it (recipe.hpp).
struct RecipeUse {
  std::uint64_t revision = 0;
  std::string digest{};
  std::vector<std::string> parts{};  ///< JSON pointers into the request: of its leaves
  std::string set_by{};  ///< who set that revision: stands behind the promotion as its requester does
  bool operator==(const RecipeUse&) const = default;
};

/// What `POST /v1/promotions` carries (docs/design/pipeline.md, "Asking for a promotion"), complete.
struct PromotionRequest {
  std::string model;     ///< the name that clients send
  std::string engine;    ///< name of a registered engine: the candidate
  std::string contract;  ///< digest "sha256:…", or a contract's name = its newest registration
  std::optional<StageCaptures> numeric, slice;
  std::string note;  ///< free text, kept in evidence
  /// Registered engine of the contract's fallback kernel; empty = the only one that serves the candidate's
  /// checkpoint with it.
  std::string fallback_engine{};
  /// Starts although a hard clause cannot be decided for lack of an engine's ability (stages/abilities.hpp).
  bool accept_undecidable = false;
  std::optional<RecipeUse> recipe{};  ///< absent: everything was named
  bool operator==(const PromotionRequest&) const = default;
};

/// Reads {"model", "engine", "contract", "captures": {"numeric": {"train": SOURCE, "inf": SOURCE, "corpus":
/// URI, "floor": {"train": FLOOR, "inf": FLOOR}}, "slice": {…}}, "fallback_engine", "accept_undecidable",
/// "note", "recipe": {"revision", "digest", "parts", "set_by"}}. A SOURCE is a URI or {"adapter": NAME}. A
/// FLOOR is a SOURCE, held against the stage's own capture of that kernel, or a list of two that are held
/// against each other. Unknown members are refused; `invalid_document` with the JSON pointer in `where`.
[[nodiscard]] schema::Result<PromotionRequest> parse_promotion_request(std::string_view json);
[[nodiscard]] std::string to_json(const PromotionRequest& request);

/// The parts of a request that a recipe may supply. What is absent or null is empty, also within captures.
struct RequestParts {
  std::string contract{}, fallback_engine{};
  std::optional<StageCaptures> numeric{}, slice{};
};
/// Reads "contract", "captures" and "fallback_engine" of the value at the JSON pointer `at`, as
/// parse_promotion_request does, but none of them must be there. Members that neither this nor `beside` names
/// are refused.
[[nodiscard]] schema::Result<RequestParts> read_request_parts(const nlohmann::json& value, std::string at,
                                                              std::span<const std::string_view> beside);

/// An engine to register: a base URL that serves exactly one (checkpoint, kernel).
struct EngineRequest {
  std::string name;
  std::string url;                ///< "http[s]://host:port[/path]"; the host must be allowed in the settings
  std::string kernel;             ///< name of a registered kernel
  std::string checkpoint_uri;     ///< folder below a configured root, hashed at registration; or empty
  std::string checkpoint_digest;  ///< "sha256:…", when the folder cannot be read here; or empty
  std::int64_t max_requests_per_second = 0;  ///< what it can serve; 0 = not stated
  std::string key_file{};    ///< below Settings::engine_files: holds the key that it asks for; or empty
  std::string key_header{};  ///< header of the key; empty: "Authorization: Bearer KEY"
  std::string ca_file{};     ///< below Settings::engine_files: the CAs of its own; empty: the system's list
};

/// Reads {"name", "url", "kernel", "checkpoint": {"uri"?, "digest"?}, "max_requests_per_second"?,
/// "key_file"?, "key_header"?, "ca_file"?}; errors as above.
[[nodiscard]] schema::Result<EngineRequest> parse_engine_request(std::string_view json);

/// Reads {"name", "engine", "reason"}: installs a model's first version.
struct ModelRequest {
  std::string name, engine, reason;
};
[[nodiscard]] schema::Result<ModelRequest> parse_model_request(std::string_view json);

}  // namespace driftgate::pipeline
