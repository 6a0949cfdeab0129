#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "gpu/capture/safetensors.hpp"

namespace driftgate::gpu {

namespace {

using schema::ErrorCode;
using schema::Result;

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeRow, 15> kDTypes{{{DType::boolean, "BOOL", 1},
                                            {DType::u8, "U8", 1},
                                            {DType::i8, "I8", 1},
                                            {DType::f8_e4m3, "F8_E4M3", 1},
                                            {DType::f8_e5m2, "F8_E5M2", 1},
                                            {DType::i16, "I16", 2},
                                            {DType::u16, "U16", 2},
                                            {DType::f16, "F16", 2},
                                            {DType::bf16, "BF16", 2},
                                            {DType::i32, "I32", 4},
                                            {DType::u32, "U32", 4},
                                            {DType::f32, "F32", 4},
                                            {DType::f64, "F64", 8},
                                            {DType::i64, "I64", 8},
                                            {DType::u64, "U64", 8}}};

constexpr std::size_t kPrefixBytes = 8;

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kShown = 80;
  std::string out = "'";
  for (const char c : name.substr(0, kShown)) out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return out + (name.size() > kShown ? "…'" : "'");
}

std::unexpected<schema::Error> broken(std::string_view rule, std::string detail) {
  return schema::fail(ErrorCode::invalid_capture, "rule \"" + std::string(rule) + "\": " + std::move(detail));
}

/// Builds the header while the JSON text is parsed: nothing that breaks the rules is stored, and nested
/// values cannot grow a stack.
class HeaderSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::optional<schema::Error> error;

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a fraction"); }
  bool binary(binary_t&) override { return value("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (state_ == State::shape) {
      if (tensor_.shape.size() == kMaxSafetensorsRank) {
        return stop("shape",
                    tensor_text() + " has more than " + std::to_string(kMaxSafetensorsRank) + " dimensions");
      }
      tensor_.shape.push_back(number);
      return true;
    }
    if (state_ == State::offsets) {
      if (offsets_ == 2) return stop("byte range", tensor_text() + " has more than two data_offsets");
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = number;
      return true;
    }
    return value("a number");
  }

  bool string(string_t& text) override {
    if (state_ == State::metadata) {
      header.metadata[key_] = text;
      return true;
    }
    if (state_ != State::tensor || key_ != "dtype") return value("a string");
    for (const DTypeRow& row : kDTypes) {
      if (row.name != text) continue;
      tensor_.dtype = row.dtype;
      return true;
    }
    return stop("dtype known",
                tensor_text() + " has the dtype " + in_quotes(text) +
                    "; known are BOOL, U8, I8, F8_E4M3, F8_E5M2, I16, U16, F16, BF16, I32, U32, F32, "
                    "F64, I64 and U64");
  }

  bool start_object(std::size_t) override {
    if (state_ == State::begin) {
      state_ = State::top;
    } else if (state_ == State::top && key_ == "__metadata__") {
      state_ = State::metadata;
    } else if (state_ == State::top) {
      if (header.tensors.size() == kMaxSafetensorsTensors) {
        return stop("tensor count", "the file has more than 200,000 tensors");
      }
      state_ = State::tensor;
      tensor_ = TensorInfo{};
      tensor_.name = key_;
      offsets_ = 0;
    } else {
      return value("an object");
    }
    if (state_ != State::top) inner_keys_.clear();
    return true;
  }

  bool key(string_t& name) override {
    if (name.size() > kMaxSafetensorsNameBytes)
      return stop("header structure", "a name is longer than 4096 bytes");
    auto& keys = state_ == State::top ? top_keys_ : inner_keys_;
    if (!keys.insert(name).second) {
      return stop("no duplicate keys",
                  in_quotes(name) + " appears twice" +
                      (state_ == State::tensor ? " in " + tensor_text() : std::string{}));
    }
    if (state_ == State::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      return stop("header structure", tensor_text() + " has the field " + in_quotes(name) +
                                          "; allowed are dtype, shape and data_offsets");
    }
    key_ = name;
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) {
      if (inner_keys_.size() != 3) {
        return stop("header structure", tensor_text() + " needs dtype, shape and data_offsets");
      }
      header.tensors.push_back(std::move(tensor_));
    }
    state_ = state_ == State::top ? State::end : State::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::tensor && key_ == "shape") {
      state_ = State::shape;
      return true;
    }
    if (state_ == State::tensor && key_ == "data_offsets") {
      state_ = State::offsets;
      return true;
    }
    return value("an array");
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2) {
      return stop("byte range", tensor_text() + " needs two data_offsets");
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop("header is JSON", "the header is not valid JSON near its byte " + std::to_string(position));
  }

 private:
  enum class State : std::uint8_t { begin, top, metadata, tensor, shape, offsets, end };

  [[nodiscard]] std::string tensor_text() const { return "tensor " + in_quotes(tensor_.name); }

  bool stop(std::string_view rule, std::string detail) {
    error = broken(rule, std::move(detail)).error();
    return false;
  }

  bool value(std::string_view found) {
    std::string where = "the header";
    if (state_ == State::metadata) where = "__metadata__ " + in_quotes(key_) + " (its values are strings)";
    if (state_ == State::top) where = in_quotes(key_) + " (an object is needed)";
    if (state_ == State::tensor || state_ == State::shape || state_ == State::offsets) {
      where = tensor_text() + ", field " + in_quotes(key_);
    }
    return stop("header structure", "found " + std::string(found) + " in " + where);
  }

  State state_ = State::begin;
  std::string key_;
  TensorInfo tensor_;
  int offsets_ = 0;
  std::unordered_set<std::string> top_keys_, inner_keys_;
};

/// Checks that the byte count of the shape does not overflow and equals that of the byte range.
Result<void> check_size(const TensorInfo& tensor) {
  std::uint64_t count = 1;
  std::uint64_t total = 0;
  for (const std::uint64_t size : tensor.shape) {
    if (__builtin_mul_overflow(count, size, &count)) {
      return broken("shape product without overflow",
                    "tensor " + in_quotes(tensor.name) + " has too large a shape");
    }
  }
  if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size_bytes(tensor.dtype)), &total)) {
    return broken("shape product without overflow",
                  "tensor " + in_quotes(tensor.name) + " has too large a shape");
  }
  if (tensor.end < tensor.begin) {
    return broken("byte range", "tensor " + in_quotes(tensor.name) + " ends before it begins");
  }
  if (tensor.end - tensor.begin != total) {
    return broken("shape equals byte range", "tensor " + in_quotes(tensor.name) + " needs " +
                                                 std::to_string(total) + " bytes by its shape and has " +
                                                 std::to_string(tensor.end - tensor.begin));
  }
  return {};
}

/// Checks that the byte ranges follow one another from 0 to the end of the file.
Result<void> check_layout(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < at) {
      return broken("no overlap", "tensor " + in_quotes(tensor.name) + " begins at " +
                                      std::to_string(tensor.begin) +
                                      ", inside the tensor before it, which ends at " + std::to_string(at));
    }
    if (tensor.begin > at) {
      return broken("no holes", "tensor " + in_quotes(tensor.name) + " begins at " +
                                    std::to_string(tensor.begin) + " where " + std::to_string(at) +
                                    " is the next free byte");
    }
    if (tensor.end > data_bytes) {
      return broken("inside the file", "tensor " + in_quotes(tensor.name) + " ends at " +
                                           std::to_string(tensor.end) + " and the file has " +
                                           std::to_string(data_bytes) + " bytes of data (a file cut short?)");
    }
    at = tensor.end;
  }
  if (at != data_bytes) {
    return broken("no trailing bytes", std::to_string(data_bytes - at) + " bytes follow the last tensor" +
                                           (tensors.empty() ? "" : " " + in_quotes(tensors.back().name)));
  }
  return {};
}

}  // namespace

std::string_view to_string(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}
std::size_t size_bytes(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].bytes;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view bytes, std::uint64_t file_bytes) {
  if (file_bytes < kPrefixBytes || bytes.size() < kPrefixBytes) {
    return broken("header size",
                  "the file has " + std::to_string(file_bytes) + " bytes, fewer than the 8 of a size");
  }
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    size |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (size > kMaxSafetensorsHeaderBytes) {
    return broken("header size",
                  "the header claims " + std::to_string(size) + " bytes, at most 16,000,000 are allowed");
  }
  if (size > file_bytes - kPrefixBytes || size > bytes.size() - kPrefixBytes) {
    return broken("header inside the file",
                  "the header claims " + std::to_string(size) + " bytes and the file has " +
                      std::to_string(file_bytes - kPrefixBytes) + " after the size");
  }
  const std::string_view text = bytes.substr(kPrefixBytes, static_cast<std::size_t>(size));
  if (text.empty() || text.front() != '{') {
    return broken("header starts with {", "the header does not begin with an opening brace");
  }
  HeaderSax sax;
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &sax);
  if (sax.error) return std::unexpected(*sax.error);
  if (!parsed) return broken("header is JSON", "the header is not valid JSON");
  auto& tensors = sax.header.tensors;
  for (const TensorInfo& tensor : tensors) {
    TRY(check_size(tensor));
  }
  // JSON objects are unordered, so that writers may list tensors in any order; their bytes must be
  // contiguous.
  std::ranges::stable_sort(tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  sax.header.data_offset = kPrefixBytes + size;
  TRY(check_layout(tensors, file_bytes - sax.header.data_offset));
  return std::move(sax.header);
}

}  // namespace driftgate::gpu
