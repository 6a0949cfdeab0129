#include "daemon/route/http/operations.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::array<std::string_view, 5> kMethods{"GET", "POST", "PUT", "PATCH", "DELETE"};
constexpr std::string_view kBelow = "/*";

Operation judged(std::string path, ApiShape shape) {
  Operation operation;
  operation.path = std::move(path);
  operation.shape = shape;
  operation.judged = true;
  operation.mirrored = shape == ApiShape::completion;
  operation.timed = shape != ApiShape::embedding;
  return operation;
}

Operation unread(std::string path) {
  Operation operation;
  operation.path = std::move(path);
  return operation;
}

Operation further(const std::string& pattern) {
  Operation operation;
  operation.below = pattern.ends_with(kBelow);
  operation.path = operation.below ? pattern.substr(0, pattern.size() - 1) : pattern;
  operation.any_method = true;
  return operation;
}

std::vector<Operation> known_operations() {
  return {judged("/v1/completions", ApiShape::completion),
          judged("/v1/chat/completions", ApiShape::completion),
          judged("/v1/responses", ApiShape::response),
          judged("/v1/messages", ApiShape::message),
          judged("/v1/embeddings", ApiShape::embedding),
          unread("/tokenize"),
          unread("/detokenize")};
}

bool is_path_byte(char byte) {
  return base::is_alphanumeric(byte, "/-._~!$&'()+;=:@");
}

bool equal_but_for_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {}, base::lower);
}

/// No part that a server could take for "." or "..", and no other spelling of "/".
bool is_plain(std::string_view path) {
  for (std::size_t at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
    const auto code = path.substr(at + 1, 2);
    for (const std::string_view hidden : {"2e", "2f", "5c", "00"}) {
      if (equal_but_for_case(code, hidden)) return false;
    }
  }
  if (path.contains('\\') || path.contains("//")) return false;
  while (!path.empty()) {
    const auto end = path.find('/');
    const auto part = path.substr(0, end);
    if (part == "." || part == "..") return false;
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
  }
  return true;
}

/// The router answers it itself.
bool is_own(std::string_view path) {
  return path == kHealthPath || path == kModelsPath || path.starts_with("/v1/models/") ||
         path.starts_with("/driftgate/");
}

schema::Result<void> check_further_path(std::string_view path) {
  const auto refuse = [path](std::string_view why) {
    return schema::failf(schema::ErrorCode::invalid_argument, "further path '{}' {}", path, why);
  };
  auto exact = path;
  if (exact.ends_with(kBelow)) exact.remove_suffix(1);
  if (path.size() > kMaxPathBytes) return refuse("is longer than 256 bytes");
  if (!exact.starts_with('/') || !std::ranges::all_of(exact, is_path_byte) || !is_plain(exact))
    return refuse("is no path: write it as /v1/rerank, or as /v1/audio/* for all below it");
  if (exact == "/") return refuse("would pass on everything: name what engines may be asked");
  if (is_own(exact)) return refuse("is answered by the router itself");
  for (const auto& operation : known_operations()) {
    if (operation.path == path) return refuse("is passed on without being named");
  }
  return {};
}

}  // namespace

bool Operation::takes(std::string_view method) const {
  return any_method ? std::ranges::find(kMethods, method) != kMethods.end() : method == "POST";
}

schema::Result<std::vector<std::string>> parse_further_paths(std::string_view list) {
  std::vector<std::string> paths;
  while (!list.empty()) {
    const auto end = list.find(',');
    const auto path = list.substr(0, end);
    TRY(check_further_path(path));
    if (std::ranges::find(paths, path) == paths.end()) paths.emplace_back(path);
    if (paths.size() > kMaxFurtherPaths)
      return schema::failf(schema::ErrorCode::invalid_argument, "there are more than {} further paths",
                           kMaxFurtherPaths);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return paths;
}

Operations::Operations(const std::vector<std::string>& further_paths) : operations_(known_operations()) {
  for (const auto& path : further_paths) operations_.push_back(further(path));
}

const Operation* Operations::find(std::string_view path) const {
  for (const auto& operation : operations_) {
    if (!operation.below && operation.path == path) return &operation;
  }
  for (const auto& operation : operations_) {
    const bool under =
        operation.below && path.size() > operation.path.size() && path.starts_with(operation.path);
    if (under && is_plain(path) && !is_own(path)) return &operation;
  }
  return nullptr;
}

std::string Operations::list() const {
  std::string text;
  for (const auto& operation : operations_) {
    if (!text.empty()) text += ", ";
    if (!operation.any_method) text += "POST ";
    text += operation.path;
    if (operation.below) text += '*';
  }
  return text;
}

std::optional<std::string> model_of_path(std::string_view path) {
  if (!path.starts_with(kModelsPath) || path.substr(kModelsPath.size()).size() < 2) return std::nullopt;
  auto rest = path.substr(kModelsPath.size());
  if (rest.front() != '/') return std::nullopt;
  rest.remove_prefix(1);
  std::string model;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] != '%') {
      model += rest[i];
      continue;
    }
    unsigned code = 0;
    const auto digits = rest.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + digits.size())
      return std::nullopt;
    model += static_cast<char>(static_cast<unsigned char>(code));
    i += 2;
  }
  return model;
}

}  // namespace driftgate::route
