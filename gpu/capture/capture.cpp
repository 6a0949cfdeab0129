#include "gpu/capture/capture.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "gpu/capture/capture_head.hpp"
#include "gpu/capture/capture_modes.hpp"
#include "gpu/fused/capture_hidden.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// Reads the tensors of the file's mode into the segment.
Result<CaptureLayout> read_mode(CaptureSegment& segment, const fused::HeadSource& source,
                                std::shared_ptr<const fused::LmHead>& head) {
  const SafetensorsFile& file = segment.file;
  if (file.find("logits") != nullptr) return read_full(segment);
  if (file.find("hidden") != nullptr) return fused::read_hidden(segment, source, head);
  if (file.find("topk_ids") != nullptr || file.find("topk_logprobs") != nullptr) return read_lists(segment);
  if (file.find("logprobs") != nullptr) return read_realised(segment);
  return invalid(file, "there is no tensor 'logits' [N, V] (nor hidden, topk_logprobs or logprobs)");
}

/// Appends an [N] I32 or I64 tensor to `out`.
Result<void> append_integers(const SafetensorsFile& file, const TensorInfo& tensor, std::uint64_t rows,
                             std::vector<std::int64_t>& out) {
  if (tensor.dtype != DType::i32 && tensor.dtype != DType::i64) {
    return invalid(
        file, fmt::format("tensor '{}' is {}; I32 or I64 is needed", tensor.name, to_string(tensor.dtype)));
  }
  if (tensor.shape != std::vector<std::uint64_t>{rows}) {
    return invalid(file, fmt::format("tensor '{}' has the shape {}; [{}] is needed, one for each row",
                                     tensor.name, shape_text(tensor), rows));
  }
  const auto bytes = file.bytes(tensor);
  const std::size_t size = size_bytes(tensor.dtype);
  out.reserve(out.size() + static_cast<std::size_t>(rows));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    if (size == 4) {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data() + at, size);
      out.push_back(value);
    } else {
      std::int64_t value = 0;
      std::memcpy(&value, bytes.data() + at, size);
      out.push_back(value);
    }
  }
  return {};
}

/// Appends the [N] F32 log-probabilities to `out`.
Result<void> append_logprobs(const SafetensorsFile& file, const TensorInfo& tensor, std::uint64_t rows,
                             std::vector<float>& out) {
  if (tensor.dtype != DType::f32 || tensor.shape != std::vector<std::uint64_t>{rows}) {
    return invalid(file, fmt::format("tensor '{}' is {} {}; F32 [{}] is needed, one for each row",
                                     tensor.name, to_string(tensor.dtype), shape_text(tensor), rows));
  }
  const std::size_t before = out.size();
  out.resize(before + static_cast<std::size_t>(rows));
  const auto bytes = file.bytes(tensor);
  if (!bytes.empty()) std::memcpy(out.data() + before, bytes.data(), bytes.size());
  return {};
}

/// All files of a capture must have the same identity; returns a description of the first field that differs.
std::string difference(const CaptureIdentity& a, const CaptureIdentity& b) {
  const auto differ = [](std::string_view field, const std::string& left, const std::string& right) {
    return fmt::format("{} differs: '{}' and '{}'", field, left, right);
  };
  if (a.corpus_digest != b.corpus_digest) return differ("corpus.digest", a.corpus_digest, b.corpus_digest);
  if (a.checkpoint_digest != b.checkpoint_digest) {
    return differ("checkpoint.digest", a.checkpoint_digest, b.checkpoint_digest);
  }
  if (a.temperature != b.temperature)
    return fmt::format("temperature differs: {} and {}", a.temperature, b.temperature);
  if (a.token_source != b.token_source) return differ("token_source", a.token_source, b.token_source);
  if (a.sampling_filter != b.sampling_filter)
    return differ("sampling_filter", a.sampling_filter, b.sampling_filter);
  return {};
}

Result<std::vector<std::filesystem::path>> files_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector{path};
  std::vector<std::filesystem::path> files;
  for (auto it = std::filesystem::directory_iterator(path, error); !error && it != std::filesystem::end(it);
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") files.push_back(it->path());
    if (files.size() > kMaxCaptureFiles) {
      return schema::fail(ErrorCode::limit_exceeded, path.string() + " holds more than 10,000 files");
    }
  }
  if (error) return schema::fail(ErrorCode::io, "cannot list " + path.string() + ": " + error.message());
  if (files.empty())
    return schema::fail(ErrorCode::not_found, path.string() + " holds no *.safetensors file");
  std::ranges::sort(files);
  return files;
}

Result<void> compare_rows(std::string_view name, std::span<const std::int64_t> train,
                          std::span<const std::int64_t> inf) {
  const auto [a, b] = std::ranges::mismatch(train, inf);
  if (a == train.end()) return {};
  return schema::fail(
      ErrorCode::not_comparable,
      fmt::format("the captures cannot be compared: {} differs first in row {}: {} (train) and {} (inf)",
                  name, a - train.begin(), *a, *b));
}

}  // namespace

Result<Capture> Capture::open(const std::filesystem::path& path, const fused::HeadSource& source) {
  auto files = TRY(files_of(path));
  Capture capture;
  capture.name_ = path.string();
  for (const auto& file : files) {
    auto opened = TRY(SafetensorsFile::open(file));
    TRY(capture.add_file(std::move(opened), source));
  }
  if (capture.rows() == 0) return schema::fail(ErrorCode::invalid_capture, path.string() + " has no rows");
  if (capture.positions_.empty()) capture.number_positions();
  return capture;
}

Result<Capture> Capture::of_memory(const MemoryRows& rows) {
  auto file = TRY(SafetensorsFile::of_memory(rows.name, rows.tensors, rows.metadata));
  Capture capture;
  capture.name_ = rows.name;
  capture.first_row_ = rows.first_row;
  capture.on_device_ = rows.on_device;
  TRY(capture.add_file(std::move(file), {{}, {}, rows.head}, rows.row_stride_bytes));
  if (capture.rows() == 0) return schema::fail(ErrorCode::invalid_capture, rows.name + " has no rows");
  if (rows.on_device && capture.mode() != CaptureMode::full) {
    return schema::fail(ErrorCode::unsupported,
                        rows.name + ": only full logits may be in the memory of a device");
  }
  if (capture.positions_.empty()) capture.number_positions();
  return capture;
}

Result<void> Capture::add_file(SafetensorsFile opened, const fused::HeadSource& source,
                               std::uint64_t row_stride_bytes) {
  CaptureSegment segment{.file = std::move(opened), .first_row = rows()};
  const SafetensorsFile& file = segment.file;
  auto layout = TRY(read_mode(segment, source, head_));
  const std::uint64_t row_bytes = std::uint64_t{layout.columns} * size_bytes(segment.dtype);
  segment.row_bytes = row_stride_bytes == 0 ? row_bytes : row_stride_bytes;
  std::uint64_t reach = 0;
  if (segment.row_bytes < row_bytes || __builtin_mul_overflow(segment.row_bytes, segment.rows, &reach) ||
      reach > PTRDIFF_MAX) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("{}: rows of {} bytes cannot be {} bytes apart", file.path().string(),
                                    row_bytes, segment.row_bytes));
  }
  auto identity = TRY(capture_identity(file.header(), file.path().string()));
  if (segments_.empty()) {
    identity_ = std::move(identity);
    layout_ = layout;
  } else {
    std::string other = difference(identity_, identity);
    if (identity_.kernel != identity.kernel) other = "kernel differs";
    if (layout_.columns != layout.columns) other = "the width of the tensors differs";
    if (layout_.vocabulary != layout.vocabulary) other = "the vocabulary differs";
    if (layout_.mode != layout.mode) other = "the mode differs";
    if (other.empty() && head_ != nullptr) other = fused::head_difference(segments_.front().file, file);
    if (!other.empty()) return invalid(file, "does not match the earlier files of the capture: " + other);
  }
  TRY(add_columns(file, segment.rows));
  segments_.push_back(std::move(segment));
  return {};
}

Result<void> Capture::add_columns(const SafetensorsFile& file, std::uint64_t count) {
  const TensorInfo* sequences = file.find("sequence_ids");
  if (sequences == nullptr) {
    return invalid(file, "there is no tensor 'sequence_ids' [N], which gives the sequence of each row");
  }
  const std::uint64_t before = rows();
  const auto in_all_files = [&](const char* name, std::size_t have) -> Result<const TensorInfo*> {
    const TensorInfo* tensor = file.find(name);
    if (before > 0 && (tensor != nullptr) != (have == before)) {
      return invalid(file,
                     fmt::format("tensor '{}' is in some files of the capture and not in others", name));
    }
    return tensor;
  };
  TRY(append_integers(file, *sequences, count, sequence_ids_));
  for (auto [name, values] : {std::pair{"positions", &positions_}, std::pair{"token_ids", &token_ids_}}) {
    auto tensor = TRY(in_all_files(name, values->size()));
    if (tensor == nullptr) continue;
    TRY(append_integers(file, *tensor, count, *values));
  }
  auto logprobs = in_all_files("logprobs", logprobs_.size());
  if (!logprobs) return std::unexpected(logprobs.error());
  if (*logprobs != nullptr) {
    if (token_ids_.empty() && count != 0) {
      return invalid(file,
                     "tensor 'logprobs' holds log-probabilities of target tokens, but there is no tensor "
                     "'token_ids' [N]");
    }
    TRY(append_logprobs(file, **logprobs, count, logprobs_));
  }
  for (auto row = static_cast<std::size_t>(before); row < token_ids_.size(); ++row) {
    const std::int64_t token = token_ids_[row];
    if (token >= 0 && (layout_.vocabulary == 0 || token < layout_.vocabulary)) continue;
    return invalid(file, fmt::format("token_ids of row {} is {}, {}", row - before, token,
                                     outside_text(layout_.vocabulary)));
  }
  return {};
}

void Capture::number_positions() {
  std::map<std::int64_t, std::int64_t> next;
  positions_.reserve(sequence_ids_.size());
  for (const std::int64_t sequence : sequence_ids_) positions_.push_back(next[sequence]++);
}

Result<void> Capture::check_unchanged() const {
  for (const CaptureSegment& segment : segments_) {
    TRY(segment.file.check_unchanged());
  }
  return head_ == nullptr ? Result<void>{} : head_->check_unchanged();
}

Result<void> check_comparable(const Capture& train, const Capture& inf) {
  const auto refuse = [](const std::string& what) {
    return schema::fail(ErrorCode::not_comparable, "the captures cannot be compared: " + what);
  };
  if (const std::string what = difference(train.identity(), inf.identity()); !what.empty()) {
    return refuse(what + " (train and inf)");
  }
  if (train.mode() != inf.mode()) {
    return refuse(fmt::format("the mode differs: {} (train) and {} (inf)", to_string(train.mode()),
                              to_string(inf.mode())));
  }
  if (train.vocabulary() != inf.vocabulary()) {
    const auto size = [](const Capture& capture) {
      return capture.vocabulary() == 0 ? std::string("not stated") : std::to_string(capture.vocabulary());
    };
    return refuse(fmt::format("the vocabulary differs: {} (train) and {} (inf)", size(train), size(inf)));
  }
  if (train.rows() != inf.rows()) {
    return refuse(
        fmt::format("the number of rows differs: {} (train) and {} (inf)", train.rows(), inf.rows()));
  }
  if (train.has_tokens() != inf.has_tokens()) {
    return refuse(fmt::format("only the capture of {} has token_ids", train.has_tokens() ? "train" : "inf"));
  }
  TRY(compare_rows("sequence_ids", train.sequence_ids(), inf.sequence_ids()));
  TRY(compare_rows("positions", train.positions(), inf.positions()));
  TRY(compare_rows("token_ids", train.token_ids(), inf.token_ids()));
  return train.mode() == CaptureMode::matched ? compare_lists(train, inf) : Result<void>{};
}

}  // namespace driftgate::gpu
