#include "gpu/fused/head.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture_modes.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/row_figures.hpp"
#include "gpu/fused/head_file.hpp"
#include "schema/sha256.hpp"

namespace driftgate::gpu::fused {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr const char* kHeadKeys[] = {"lm_head",          "lm_head.bias",       "lm_head.scale",
                                     "lm_head.soft_cap", "lm_head.vocabulary", "lm_head.digest"};

const std::string* find_text(const SafetensorsFile& file, const char* key) {
  const auto found = file.header().metadata.find(key);
  return found == file.header().metadata.end() ? nullptr : &found->second;
}

/// A number greater than 0, or `absent`.
Result<double> read_positive(const SafetensorsFile& file, const char* key, double absent) {
  const std::string* text = find_text(file, key);
  if (text == nullptr) return absent;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc{} && stopped == end && std::isfinite(value) && value > 0) return value;
  return invalid(file, fmt::format("metadata {} '{}' is not a number greater than 0", key, *text));
}

std::span<const std::uint8_t> as_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

bool is_logit_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::uint32_t backend_dtype(DType dtype) {
  if (dtype == DType::f32) return DRIFTGATE_F32;
  return dtype == DType::f16 ? DRIFTGATE_F16 : DRIFTGATE_BF16;
}

std::unexpected<schema::Error> refuse(const std::string& head, const std::string& text) {
  return schema::fail(ErrorCode::invalid_capture, "the head " + head + ": " + text);
}

}  // namespace

std::string head_difference(const SafetensorsFile& a, const SafetensorsFile& b) {
  for (const char* key : kHeadKeys) {
    const std::string* left = find_text(a, key);
    const std::string* right = find_text(b, key);
    if ((left == nullptr) != (right == nullptr)) return fmt::format("only one has the metadata {}", key);
    if (left != nullptr && *left != *right) {
      return fmt::format("metadata {} differs: '{}' and '{}'", key, *left, *right);
    }
  }
  return {};
}

Result<std::shared_ptr<const LmHead>> LmHead::open(const SafetensorsFile& capture, const HeadSource& source) {
  auto name = TRY(parse_head_name(capture));
  auto file = TRY(open_head_file(capture, name, source));
  const std::shared_ptr<LmHead> head(new LmHead(std::move(file.file)));
  head->name_ = std::move(file.name);
  TRY(head->read_weight(name.tensor));
  TRY(head->read_shape(capture));
  const std::string* bias = find_text(capture, "lm_head.bias");
  TRY(head->read_bias(bias == nullptr ? "" : *bias));
  TRY(head->check_digest(capture));
  return std::shared_ptr<const LmHead>(head);
}

Result<std::shared_ptr<const LmHead>> LmHead::of_memory(SafetensorsFile file) {
  const std::shared_ptr<LmHead> head(new LmHead(std::move(file)));
  head->name_ = head->file_.path().string();
  TRY(head->read_weight(kDefaultHeadTensor));
  TRY(head->read_shape(head->file_));
  TRY(head->read_bias(head->file_.find("lm_head.bias") == nullptr ? "" : "lm_head.bias"));
  return std::shared_ptr<const LmHead>(head);
}

Result<void> LmHead::read_weight(const std::string& tensor) {
  const TensorInfo* info = file_.find(tensor);
  if (info == nullptr) return refuse(name_, fmt::format("there is no tensor '{}'", tensor));
  if (!is_logit_type(info->dtype)) {
    return refuse(name_, fmt::format("tensor '{}' is {}; allowed are F32, F16 and BF16", tensor,
                                     to_string(info->dtype)));
  }
  if (info->shape.size() != 2 || info->shape[0] == 0 || info->shape[1] == 0) {
    return refuse(name_,
                  fmt::format("tensor '{}' has the shape {}; [V, D] is needed", tensor, shape_text(*info)));
  }
  if (info->shape[0] > cpu::kMaxVocabulary) {
    return refuse(name_, fmt::format("tensor '{}' has {} rows; a vocabulary has at most {}", tensor,
                                     info->shape[0], cpu::kMaxVocabulary));
  }
  if (info->shape[1] > kMaxHiddenWidth) {
    return refuse(name_, fmt::format("tensor '{}' is {} wide, but hidden states have at most {} elements",
                                     tensor, info->shape[1], kMaxHiddenWidth));
  }
  weight_info_ = info;
  dtype_ = backend_dtype(info->dtype);
  vocabulary_ = static_cast<std::uint32_t>(info->shape[0]);
  width_ = static_cast<std::uint32_t>(info->shape[1]);
  row_bytes_ = width_ * size_bytes(info->dtype);
  weight_ = reinterpret_cast<const unsigned char*>(file_.bytes(*info).data());
  return {};
}

Result<void> LmHead::read_shape(const SafetensorsFile& capture) {
  auto scale = TRY(read_positive(capture, "lm_head.scale", 1));
  auto cap = TRY(read_positive(capture, "lm_head.soft_cap", 0));
  scale_ = scale;
  soft_cap_ = cap;
  const std::string* text = find_text(capture, "lm_head.vocabulary");
  if (text == nullptr) return {};
  std::uint32_t count = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc{} || stopped != end || count == 0 || count > vocabulary_) {
    return invalid(capture,
                   fmt::format("metadata lm_head.vocabulary '{}' is not a count between 1 and the {} rows of "
                               "the head",
                               *text, vocabulary_));
  }
  vocabulary_ = count;
  return {};
}

Result<void> LmHead::read_bias(const std::string& tensor) {
  if (tensor.empty()) return {};
  bias_info_ = file_.find(tensor);
  if (bias_info_ == nullptr) return refuse(name_, fmt::format("there is no tensor '{}' (the bias)", tensor));
  if (!is_logit_type(bias_info_->dtype) ||
      bias_info_->shape != std::vector<std::uint64_t>{weight_info_->shape[0]}) {
    return refuse(name_,
                  fmt::format("the bias '{}' is {} {}; F32, F16 or BF16 [{}] is needed", tensor,
                              to_string(bias_info_->dtype), shape_text(*bias_info_), weight_info_->shape[0]));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(file_.bytes(*bias_info_).data());
  bias_.resize(vocabulary_);
  for (std::uint32_t v = 0; v < vocabulary_; ++v) {
    bias_[v] = cpu::logit_at(bytes, backend_dtype(bias_info_->dtype), v);
  }
  return {};
}

Result<void> LmHead::check_digest(const SafetensorsFile& capture) {
  schema::Sha256 hash;
  hash.update(as_bytes(file_.bytes(*weight_info_)));
  if (bias_info_ != nullptr) hash.update(as_bytes(file_.bytes(*bias_info_)));
  digest_ = schema::digest_text(hash.finish());
  const std::string* wanted = find_text(capture, "lm_head.digest");
  if (wanted == nullptr || *wanted == digest_) return {};
  return refuse(name_, fmt::format("its digest is {} and {} says '{}': it is not the head that was captured "
                                   "with",
                                   digest_, capture.path().string(), *wanted));
}

bool LmHead::same_weight(const LmHead& other) const {
  if (dtype_ != other.dtype_ || vocabulary_ != other.vocabulary_ || width_ != other.width_) return false;
  return weight_ == other.weight_ ||
         std::memcmp(weight_, other.weight_, std::size_t{vocabulary_} * row_bytes_) == 0;
}

}  // namespace driftgate::gpu::fused
