#include "schema/evidence/canonical_entry.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "schema/utf8.hpp"

namespace driftgate::schema {

namespace {

bool key_is_valid(std::string_view key) {
  if (key.empty() || key.size() > 64 || key[0] < 'a' || key[0] > 'z') return false;
  for (const char c : key) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

/// RFC 8785 section 3.2.2.2.
void append_escaped(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<std::uint8_t>(c) >= 0x20) {
    out += c;
    return;
  }
  out += "\\u00";
  out += kDigits[static_cast<std::size_t>(c) >> 4];
  out += kDigits[static_cast<std::size_t>(c) & 15];
}

/// Eight characters at once: the high bit of each byte that needs a look of its own, for not being printable
/// ASCII or being '"' or '\\'. A byte behind one with the bit may have it for no reason, never the other way
/// round.
constexpr std::uint64_t marks_of(std::uint64_t eight) {
  constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101;
  constexpr std::uint64_t kHigh = 0x80 * kOnes;
  const auto zero = [](std::uint64_t bytes) { return (bytes - kOnes) & ~bytes; };
  const std::uint64_t low = (eight - 0x20 * kOnes) & ~eight;
  return (eight | low | zero(eight ^ '"' * kOnes) | zero(eight ^ '\\' * kOnes) | zero(eight ^ 0x7f * kOnes)) &
         kHigh;
}

/// Where the characters from `at` on end that stand for themselves.
std::size_t end_of_plain(std::string_view text, std::size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if (marks_of(eight) != 0) break;
  }
  const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  while (at < text.size() && is_plain(text[at])) ++at;
  return at;
}

bool append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_plain(text, at);
    out.append(text.data() + at, end - at);
    at = end;
    if (at == text.size()) break;
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    if (length == 1) {
      append_escaped(out, text[at]);
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  out += '"';
  return true;
}

/// Appends to a text. The pointer of an error is put together on the way back.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  Result<void> write(const EntryValue& value, std::size_t depth) {
    if (out_.size() > kMaxEntryBytes) return too_long();
    if (const bool* flag = value.boolean()) {
      out_ += *flag ? "true" : "false";
    } else if (const std::int64_t* integer = value.integer()) {
      return write_integer(*integer);
    } else if (const std::string* text = value.text()) {
      return write_text(*text);
    } else if (const EntryValue::Array* array = value.array()) {
      return write_array(*array, depth);
    } else if (const EntryValue::Object* object = value.object()) {
      return write_object(*object, depth);
    } else {
      out_ += "null";
    }
    return {};
  }

  Result<void> write_integer(std::int64_t integer) {
    if (integer > kMaxEntryInteger || integer < -kMaxEntryInteger) {
      return refuse(ErrorCode::invalid_document, "an integer beyond 2^53 − 1: write it as a string");
    }
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), integer);
    out_.append(digits.data(), end.ptr);
    return {};
  }

  Result<void> write_text(std::string_view text) {
    if (append_string(out_, text)) return {};
    return refuse(ErrorCode::invalid_document, "a string that is not UTF-8");
  }

  Result<void> write_object(const EntryValue::Object& object, std::size_t depth) {
    if (depth >= kMaxEntryDepth) return too_deep();
    if (!measured_is_consistent(object)) {
      return refuse(ErrorCode::invalid_document, "a measured number whose dec and hex differ");
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, member] : object) {
      if (!key_is_valid(key)) {
        return refuse(ErrorCode::invalid_document,
                      "the key '" + key.substr(0, 80) + "': use [a-z][a-z0-9_]{0,63}");
      }
      if (!std::exchange(first, false)) out_ += ',';
      out_ += '"';
      out_ += key;
      out_ += "\":";
      auto done = write(member, depth + 1);
      if (!done) return within(key, std::move(done.error()));
    }
    out_ += '}';
    return {};
  }

  [[nodiscard]] Result<void> check_length() const {
    if (out_.size() > kMaxEntryBytes) return too_long();
    return {};
  }

 private:
  Result<void> write_array(const EntryValue::Array& array, std::size_t depth) {
    if (depth >= kMaxEntryDepth) return too_deep();
    out_ += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
      if (i > 0) out_ += ',';
      auto done = write(array[i], depth + 1);
      if (!done) return within(std::to_string(i), std::move(done.error()));
    }
    out_ += ']';
    return {};
  }

  static std::unexpected<Error> within(std::string_view step, Error error) {
    error.where = "/" + std::string(step) + error.where;
    return std::unexpected(std::move(error));
  }
  static std::unexpected<Error> refuse(ErrorCode code, const std::string& what) {
    return fail(code, "an evidence entry cannot hold " + what);
  }
  static std::unexpected<Error> too_deep() {
    return refuse(ErrorCode::limit_exceeded, "more than 32 nested values");
  }
  static std::unexpected<Error> too_long() {
    return refuse(ErrorCode::limit_exceeded,
                  "more than 65,535 bytes: store the rest as a blob and name its digest");
  }

  std::string& out_;
};

/// Recursive descent that accepts the canonical form and nothing else.
class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  Result<EntryValue> document() {
    if (bytes_.size() > kMaxEntryBytes)
      return fail(ErrorCode::limit_exceeded, "an entry of more than 65,535 bytes");
    auto parsed = value(0);
    if (parsed && at_ != bytes_.size()) return refuse("bytes after its end");
    return parsed;
  }

 private:
  Result<EntryValue> value(std::size_t depth) {
    if (at_ >= bytes_.size()) return refuse("an early end");
    switch (bytes_[at_]) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return text();
      case 't':
        return word("true", EntryValue(true));
      case 'f':
        return word("false", EntryValue(false));
      case 'n':
        return word("null", EntryValue(nullptr));
      default:
        return integer();
    }
  }

  Result<EntryValue> word(std::string_view spelled, EntryValue meant) {
    if (!bytes_.substr(at_).starts_with(spelled)) return refuse("an unknown word");
    at_ += spelled.size();
    return meant;
  }

  Result<EntryValue> integer() {
    const char* const begin = bytes_.data() + at_;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(begin, bytes_.data() + bytes_.size(), number);
    const std::string_view spelled(begin, static_cast<std::size_t>(end - begin));
    if (error != std::errc() || spelled != std::to_string(number))
      return refuse("something that is no integer");
    if (number > kMaxEntryInteger || number < -kMaxEntryInteger) return refuse("an integer beyond 2^53 − 1");
    at_ += spelled.size();
    return EntryValue(number);
  }

  Result<EntryValue> text() {
    const std::size_t begin = at_++;
    std::string content;
    while (at_ < bytes_.size() && bytes_[at_] != '"') {
      const std::size_t length = utf8_length(bytes_, at_);
      if (length == 0) return refuse("a string that is not UTF-8");
      if (bytes_[at_] == '\\') {
        if (!unescape(content)) return refuse("an escape that is not canonical");
        continue;
      }
      if (static_cast<std::uint8_t>(bytes_[at_]) < 0x20) return refuse("a bare control character");
      content += bytes_.substr(at_, length);
      at_ += length;
    }
    if (at_ >= bytes_.size()) {
      at_ = begin;
      return refuse("a string without its end");
    }
    ++at_;
    return EntryValue(std::move(content));
  }

  /// Only the spellings that append_escaped writes.
  bool unescape(std::string& content) {
    for (int c = 0; c < 0x60; ++c) {
      std::string spelled;
      append_escaped(spelled, static_cast<char>(c));
      if (spelled.size() > 1 && bytes_.substr(at_).starts_with(spelled)) {
        content += static_cast<char>(c);
        at_ += spelled.size();
        return true;
      }
    }
    return false;
  }

  Result<EntryValue> array(std::size_t depth) {
    if (depth >= kMaxEntryDepth) return refuse("more than 32 nested values");
    EntryValue::Array items;
    ++at_;
    if (take(']')) return EntryValue(std::move(items));
    while (true) {
      auto item = value(depth + 1);
      if (!item) return item;
      items.push_back(std::move(*item));
      if (take(']')) return EntryValue(std::move(items));
      if (!take(',')) return refuse("a list without ',' or ']'");
    }
  }

  Result<EntryValue> object(std::size_t depth) {
    if (depth >= kMaxEntryDepth) return refuse("more than 32 nested values");
    const std::size_t begin = at_;
    EntryValue::Object members;
    ++at_;
    bool more = !take('}');
    while (more) {
      TRY(member(members, depth));
      more = !take('}');
      if (more && !take(',')) return refuse("an object without ',' or '}'");
    }
    if (!measured_is_consistent(members)) {
      at_ = begin;
      return refuse("a measured number whose dec and hex differ");
    }
    return EntryValue(std::move(members));
  }

  Result<void> member(EntryValue::Object& members, std::size_t depth) {
    if (at_ >= bytes_.size() || bytes_[at_] != '"') return refuse("an object without a key");
    const std::size_t end = bytes_.find('"', at_ + 1);
    const std::string_view key = bytes_.substr(at_ + 1, end == bytes_.npos ? bytes_.npos : end - at_ - 1);
    if (end == bytes_.npos || !key_is_valid(key)) return refuse("a key that is not [a-z][a-z0-9_]{0,63}");
    if (!members.empty() && std::string_view(members.rbegin()->first) >= key) {
      return refuse("keys that are doubled or not sorted");
    }
    at_ = end + 1;
    if (!take(':')) return refuse("a key without ':'");
    auto parsed = TRY(value(depth + 1));
    members.emplace(key, std::move(parsed));
    return {};
  }

  bool take(char c) {
    if (at_ >= bytes_.size() || bytes_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] std::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorCode::invalid_document, "not a canonical evidence entry: it has " + std::string(what),
                "byte " + std::to_string(at_));
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::string> write_canonical(const EntryValue& value) {
  std::string out;
  Writer writer(out);
  auto done = writer.write(value, 0);
  if (done) done = writer.check_length();
  if (!done) return std::unexpected(std::move(done.error()));
  return out;
}

Result<void> append_canonical(std::string& out, const CanonicalPart& part, std::size_t depth) {
  Writer writer(out);
  Result<void> done;
  if (const auto* integer = std::get_if<std::int64_t>(&part)) {
    done = writer.write_integer(*integer);
  } else if (const auto* text = std::get_if<std::string_view>(&part)) {
    done = writer.write_text(*text);
  } else {
    done = writer.write_object(*std::get<const EntryValue::Object*>(part), depth);
  }
  return done ? writer.check_length() : done;
}

Result<EntryValue> parse_canonical(std::string_view bytes) {
  return Parser(bytes).document();
}

}  // namespace driftgate::schema
