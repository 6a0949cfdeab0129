#include "schema/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "schema/sha256.hpp"

namespace driftgate::schema {
namespace {

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {} column {}", lines + 1, before.size() - line_start + 1);
}

// nlohmann's parser keeps its own stack, so events stay flat however deep the input is.
class LimitChecker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  LimitChecker(std::string_view text, const JsonLimits& limits, std::string_view what)
      : text_(text), limits_(limits), what_(what) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t number) override {
    return value() && (number >= -static_cast<number_integer_t>(kMaxJsonInteger) || too_large());
  }
  bool number_unsigned(number_unsigned_t number) override {
    return value() && (number <= kMaxJsonInteger || too_large());
  }
  bool number_float(number_float_t number, const string_t& token) override {
    if (!value()) return false;
    if (token.find_first_of(".eE") == string_t::npos) return too_large();
    if (!std::isfinite(number)) {
      return refuse(ErrorCode::invalid_document, "a number beyond the range of a double");
    }
    return true;
  }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return refuse(ErrorCode::invalid_document, "binary data"); }
  bool start_object(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key = name;
    if (level.keys.insert(name).second) return true;
    return refuse(ErrorCode::invalid_document, "a key that appears twice in one object");
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: text" → "text"
    std::string_view reason = fault.what();
    if (const auto colon = reason.find(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    error_ = Error{ErrorCode::invalid_document, fmt::format("{} is not valid JSON: {}", what_, reason),
                   line_and_column(text_, position == 0 ? 0 : position - 1), nullptr};
    return false;
  }

 private:
  struct Level {
    bool object = false;
    std::size_t index = 0;  // of the next element of an array
    std::string key;
    std::set<std::string> keys;
  };

  bool value() {
    if (++values_ > limits_.values) {
      return refuse(ErrorCode::limit_exceeded, fmt::format("more than {} values", limits_.values));
    }
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool open(bool object) {
    if (!value()) return false;
    if (levels_.size() >= limits_.depth) {
      return refuse(ErrorCode::limit_exceeded, fmt::format("more than {} levels of nesting", limits_.depth));
    }
    levels_.push_back({object, 0, {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  bool too_large() {
    return refuse(ErrorCode::invalid_document, "an integer beyond 2^53 - 1; write it as a string");
  }
  bool refuse(ErrorCode code, std::string_view found) {
    error_ = Error{code, fmt::format("{} holds {}", what_, found), pointer(), nullptr};
    return false;
  }
  [[nodiscard]] std::string pointer() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.object) {
        path += "/" + pointer_token(level.key);
      } else if (level.index > 0) {
        path += "/" + std::to_string(level.index - 1);
      }
    }
    return path;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  std::string_view what_;
  std::vector<Level> levels_;
  std::uint32_t values_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<void> check_json(std::string_view text, const JsonLimits& limits, std::string_view what) {
  if (text.size() > limits.bytes) {
    return fail(ErrorCode::limit_exceeded,
                fmt::format("{} is {} bytes long; at most {} are accepted", what, text.size(), limits.bytes));
  }
  // nlohmann skips a byte-order mark and takes a NUL byte for the end of the text.
  if (text.starts_with("\xEF\xBB\xBF")) {
    return fail(ErrorCode::invalid_document, fmt::format("{} begins with a byte-order mark; remove it", what),
                "line 1 column 1");
  }
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::invalid_document, fmt::format("{} holds a NUL byte", what),
                line_and_column(text, nul));
  }
  LimitChecker checker(text, limits, what);
  if (nlohmann::json::sax_parse(text, &checker)) return {};
  if (checker.error()) return std::unexpected(*checker.error());
  return fail(ErrorCode::invalid_document, fmt::format("{} is not valid JSON", what));
}

Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits, std::string_view what) {
  TRY(check_json(text, limits, what));
  return nlohmann::json::parse(text);
}

std::optional<double> number_from_json(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (text == "NaN") return std::nan("");
  if (text == "Infinity") return HUGE_VAL;
  if (text == "-Infinity") return -HUGE_VAL;
  return std::nullopt;
}

std::string document_digest(std::string_view canonical_text) {
  return sha256_digest(canonical_text);
}

std::string pointer_token(std::string_view text) {
  std::string token;
  for (const char c : text) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token += c;
    }
  }
  return token;
}

}  // namespace driftgate::schema
