#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

/// Reads one JSON object member by member and keeps the first fault; for .cpp files only. After all
/// members were asked for, `finish` refuses members that nobody asked for.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fault("must be an object", where_);
  }

  void read(const char* name, std::string& out) {
    if (const auto* member = take(name)) {
      if (member->is_string())
        out = member->get_ref<const std::string&>();
      else
        fault("must be a string", at(name));
    }
  }
  void read(const char* name, bool& out) {
    if (const auto* member = take(name)) {
      if (member->is_boolean())
        out = member->get<bool>();
      else
        fault("must be true or false", at(name));
    }
  }
  template <std::unsigned_integral T>
  void read(const char* name, T& out) {
    if (const auto* member = take(name)) {
      if (member->is_number_unsigned() && member->get<std::uint64_t>() <= std::numeric_limits<T>::max()) {
        out = member->get<T>();
      } else {
        fault("must be an integer from 0 that fits", at(name));
      }
    }
  }
  void read(const char* name, std::int64_t& out) {
    if (const auto* member = take(name)) {
      if (member->is_number_integer())
        out = member->get<std::int64_t>();
      else
        fault("must be an integer", at(name));
    }
  }
  void read(const char* name, std::map<std::string, std::string>& out) {
    if (const auto* member = take(name)) {
      if (!member->is_object()) return fault("must be an object of strings", at(name));
      for (const auto& [key, value] : member->items()) {
        if (!value.is_string()) return fault("must be a string", at(name) + "/" + key);
        out.emplace(key, value.get<std::string>());
      }
    }
  }
  /// An array or object for the caller to read; null when it is absent or another type.
  const nlohmann::json* array(const char* name) {
    const auto* member = take(name);
    if (member != nullptr && !member->is_array()) {
      fault("must be an array", at(name));
      return nullptr;
    }
    return member;
  }
  /// A member that may be absent or null.
  const nlohmann::json* optional(const char* name) {
    ++taken_;
    const auto found = json_.is_object() ? json_.find(name) : json_.end();
    if (!json_.is_object() || found == json_.end()) {
      --taken_;
      return nullptr;
    }
    return found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] std::string at(std::string_view name) const { return fmt::format("{}/{}", where_, name); }

  void fault(std::string_view why, std::string where) {
    if (!error_)
      error_ = schema::Error{schema::ErrorCode::invalid_document, fmt::format("value {}", why),
                             std::move(where), nullptr};
  }
  void fault(const schema::Error& error) {
    if (!error_) error_ = error;
  }
  [[nodiscard]] schema::Result<void> finish() {
    if (!error_ && json_.size() != taken_) fault("has a member that is not known here", where_);
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  const nlohmann::json* take(const char* name) {
    if (error_) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      fault("is missing", at(name));
      return nullptr;
    }
    ++taken_;
    return &*found;
  }

  const nlohmann::json& json_;
  std::string where_;
  std::size_t taken_ = 0;
  std::optional<schema::Error> error_;
};

}  // namespace driftgate::route
