#pragma once

#include <cstdint>
#include <initializer_list>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

/// A line holds at most a blob of 32 MiB as base 64.
inline constexpr std::size_t kMaxBundleLine = std::size_t{48} << 20;

/// One line of a bundle, with its members read strictly: `invalid_document` names the member that is not as
/// it must be.
class BundleRecord {
 public:
  /// An object of exactly the form {"t": kind, …}, in canonical form (RFC 8785) to the byte.
  [[nodiscard]] static Result<BundleRecord> parse(std::string_view line);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }
  /// That there are exactly these members beside "t".
  [[nodiscard]] Result<void> expect(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] Result<std::string> text(const char* name) const;
  [[nodiscard]] Result<std::uint64_t> number(const char* name) const;
  [[nodiscard]] Result<Hash> hash(const char* name) const;
  [[nodiscard]] Result<std::vector<Hash>> hashes(const char* name) const;
  [[nodiscard]] const nlohmann::json& member(const char* name) const { return object_.at(name); }

 private:
  BundleRecord(std::string kind, nlohmann::json object)
      : kind_(std::move(kind)), object_(std::move(object)) {}
  std::string kind_;
  nlohmann::json object_;
};

enum class LineEnd : std::uint8_t { whole, cut, none, too_long };

/// Reads the next line without its end. `cut`: the input ends within it.
[[nodiscard]] LineEnd read_line(std::istream& in, std::string& line);

}  // namespace driftgate::evidence
