#pragma once

#include <fmt/format.h>

#include <array>
#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

// JSON of structs whose members are listed by BOOST_DESCRIBE_STRUCT; for .cpp files only. A struct is an
// object with exactly the listed members, an empty std::optional is null, and so is a double that is not a
// number.
namespace driftgate::route {

template <typename T>
concept Described = boost::describe::has_describe_members<T>::value;

template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <typename T, std::size_t size>
inline constexpr bool kIsList<std::array<T, size>> = true;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// Calls `visit` with the name and the member pointer of each listed member.
template <Described T, typename Visit>
void for_each_member(Visit visit) {
  boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_public>>(
      [&](auto member) { visit(member.name, member.pointer); });
}

template <typename T>
[[nodiscard]] nlohmann::json json_of(const T& value) {
  if constexpr (Described<T>) {
    auto object = nlohmann::json::object();
    for_each_member<T>([&](const char* name, auto member) { object[name] = json_of(value.*member); });
    return object;
  } else if constexpr (kIsOptional<T>) {
    return value ? json_of(*value) : nlohmann::json();
  } else if constexpr (kIsList<T>) {
    auto list = nlohmann::json::array();
    for (const auto& one : value) list.push_back(json_of(one));
    return list;
  } else {
    return value;
  }
}

/// Reads values strictly and keeps the first fault, with a JSON pointer to it.
class JsonReader {
 public:
  /// The members of an object that are named in `others` are left to the caller.
  template <typename T>
  void read(const nlohmann::json& json, const std::string& where, T& out,
            std::initializer_list<const char*> others = {}) {
    if constexpr (Described<T>) {
      read_object(json, where, out, others);
    } else if constexpr (kIsOptional<T>) {
      if (!json.is_null()) read(json, where, out.emplace());
    } else if constexpr (kIsList<T>) {
      read_list(json, where, out);
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      if (!json.is_object()) return fault("must be an object of strings", where);
      for (const auto& [key, value] : json.items()) read(value, fmt::format("{}/{}", where, key), out[key]);
    } else {
      read_value(json, where, out);
    }
  }

  /// Only an optional member may be absent.
  template <typename T>
  void read_member(const nlohmann::json& object, const std::string& where, const char* name, T& out) {
    const auto found = object.find(name);
    const auto at = fmt::format("{}/{}", where, name);
    if (found != object.end()) return read(*found, at, out);
    if (!kIsOptional<T>) fault("is missing", at);
  }

  void fault(std::string_view why, std::string where) {
    if (error_) return;
    error_ = schema::Error{schema::ErrorCode::invalid_document, fmt::format("value {}", why),
                           std::move(where), nullptr};
  }
  [[nodiscard]] schema::Result<void> finish() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  template <Described T>
  void read_object(const nlohmann::json& json, const std::string& where, T& out,
                   std::initializer_list<const char*> others) {
    if (!json.is_object()) return fault("must be an object", where);
    auto unknown = json.size();
    for (const char* name : others) unknown -= json.count(name);
    for_each_member<T>([&](const char* name, auto member) {
      unknown -= json.count(name);
      read_member(json, where, name, out.*member);
    });
    if (unknown > 0) fault("has an unknown member", where);
  }

  template <typename List>
  void read_list(const nlohmann::json& json, const std::string& where, List& out) {
    if (!json.is_array()) return fault("must be an array", where);
    if constexpr (requires { out.resize(json.size()); }) out.resize(json.size());
    if (out.size() != json.size()) return fault(fmt::format("must have {} elements", out.size()), where);
    for (std::size_t i = 0; i < json.size(); ++i) read(json[i], fmt::format("{}/{}", where, i), out[i]);
  }

  void read_value(const nlohmann::json& json, const std::string& where, std::string& out) {
    if (!json.is_string()) return fault("must be a string", where);
    out = json.get_ref<const std::string&>();
  }
  void read_value(const nlohmann::json& json, const std::string& where, bool& out) {
    if (!json.is_boolean()) return fault("must be true or false", where);
    out = json.get<bool>();
  }
  void read_value(const nlohmann::json& json, const std::string& where, double& out) {
    if (!json.is_number() && !json.is_null()) return fault("must be a number or null", where);
    out = json.is_null() ? std::nan("") : json.get<double>();
  }
  void read_value(const nlohmann::json& json, const std::string& where, std::int64_t& out) {
    if (!json.is_number_integer()) return fault("must be an integer", where);
    out = json.get<std::int64_t>();
  }
  template <std::integral T>
  void read_value(const nlohmann::json& json, const std::string& where, T& out) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most)
      return fault(fmt::format("must be an integer from 0 to {}", most), where);
    out = json.get<T>();
  }

  std::optional<schema::Error> error_;
};

/// Reads one described struct.
template <Described T>
[[nodiscard]] schema::Result<T> described_from_json(const nlohmann::json& json, const std::string& where) {
  T value;
  JsonReader reader;
  reader.read(json, where, value);
  TRY(reader.finish());
  return value;
}

}  // namespace driftgate::route
