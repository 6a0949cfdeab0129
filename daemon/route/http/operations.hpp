#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::route {

/// Whose API a request and its answer belong to: how they are read, and how the router writes its own errors.
enum class ApiShape : std::uint8_t {
  completion,  ///< OpenAI completions and chat completions
  response,    ///< OpenAI responses
  message,     ///< Anthropic messages
  embedding,   ///< OpenAI embeddings
  unread,      ///< passed on without being read
};

/// What the router passes on to engines under one path (docs/endpoints.md, "What is passed on").
struct Operation {
  std::string path;  ///< or, with `below`, what the path begins with, "/" included
  bool below = false;
  ApiShape shape = ApiShape::unread;
  bool judged = false;    ///< its answer is ok, failed or outside the count, and telemetry has it
  bool mirrored = false;  ///< copies may go to a candidate
  bool timed = false;  ///< it takes as long as a completion: the engine's learned limits are for it as well
  bool any_method = false;  ///< GET, POST, PUT, PATCH and DELETE; else POST alone

  [[nodiscard]] bool takes(std::string_view method) const;
  /// Asking twice does no more than asking once, so that another engine may be asked after a failure.
  [[nodiscard]] bool repeatable(std::string_view method) const { return !any_method || method == "GET"; }
};

inline constexpr std::string_view kHealthPath = "/health";
inline constexpr std::string_view kModelsPath = "/v1/models";
inline constexpr std::string_view kLeasePath = "/driftgate/lease";

inline constexpr std::size_t kMaxFurtherPaths = 64;
inline constexpr std::size_t kMaxPathBytes = 256;

/// Reads `router.further_paths`, joined by commas: exact paths, or "/v1/audio/*" for all below one.
/// `invalid_argument` for what is no path, what the router answers or passes on already, and too many.
[[nodiscard]] schema::Result<std::vector<std::string>> parse_further_paths(std::string_view list);

/// The operations of a router. Immutable.
class Operations {
 public:
  /// `further` as parse_further_paths gave it.
  explicit Operations(const std::vector<std::string>& further = {});
  /// The operation of a path (without its query), or null. Nothing lies below a path through "." or "..",
  /// plain or encoded: engines might read such a path as another one.
  [[nodiscard]] const Operation* find(std::string_view path) const;
  /// "POST /v1/completions, POST /v1/chat/completions, …", for people.
  [[nodiscard]] std::string list() const;

 private:
  std::vector<Operation> operations_;
};

/// The model that `/v1/models/{id}` names, decoded; nothing for another path, an empty id, or an encoding
/// that is broken.
[[nodiscard]] std::optional<std::string> model_of_path(std::string_view path);

}  // namespace driftgate::route
