#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/cli/setup/setup_file.hpp"
#include "schema/document/fields.hpp"

namespace driftgate::cli {

/// Reads the parts of promotion requests in a file that people write, with paths taken from a folder. What is
/// null stays null: it stands for nothing, and not for what is not said.
class RequestPartsReader {
 public:
  explicit RequestPartsReader(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// A recipe; `also` are fields that it may have beside its own.
  [[nodiscard]] nlohmann::json recipe(schema::Fields& fields);
  /// A promotion as it is asked for.
  [[nodiscard]] nlohmann::json promotion(const schema::Cursor& at);
  /// What was named that has to be registered, since the reader was made.
  std::vector<SetupReference> take_needs() { return std::move(needs_); }

  /// A path as the daemon is told it.
  [[nodiscard]] std::string absolute(const std::string& path) const;

 private:
  void parts(schema::Fields& fields, nlohmann::json& into);
  [[nodiscard]] nlohmann::json kernels(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json captures(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json stage(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json source(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json floor(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json path(const schema::Cursor& at);
  [[nodiscard]] nlohmann::json named(const schema::Cursor& at, SetupKind kind);

  std::filesystem::path folder_;
  std::vector<SetupReference> needs_{};
};

}  // namespace driftgate::cli
