#include "gpu/capture.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "gpu/cpu/row_engine.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

std::unexpected<schema::Error> invalid(const SafetensorsFile& file, const std::string& text) {
  return schema::fail(ErrorCode::invalid_capture, file.path().string() + ": " + text);
}

std::string shape_text(const TensorInfo& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

std::string text_of(const SafetensorsFile& file, const std::string& key, const std::string& absent) {
  const auto found = file.header().metadata.find(key);
  return found == file.header().metadata.end() ? absent : found->second;
}

Result<CaptureIdentity> read_identity(const SafetensorsFile& file) {
  CaptureIdentity out;
  if (const std::string version = text_of(file, "capture.version", "1"); version != "1") {
    return schema::fail(ErrorCode::unsupported, file.path().string() + " is a capture of version '" +
                                                    version + "'; this program reads 1");
  }
  out.kernel = text_of(file, "kernel", "");
  out.checkpoint_digest = text_of(file, "checkpoint.digest", "");
  out.corpus_digest = text_of(file, "corpus.digest", "");
  out.token_source = text_of(file, "token_source", "corpus");
  out.sampling_filter = text_of(file, "sampling_filter", "none");
  const std::string temperature = text_of(file, "temperature", "1");
  const char* end = temperature.data() + temperature.size();
  const auto [stopped, error] = std::from_chars(temperature.data(), end, out.temperature);
  if (error != std::errc{} || stopped != end || !std::isfinite(out.temperature) || out.temperature <= 0) {
    return invalid(file, "metadata temperature '" + temperature + "' is not a number greater than 0");
  }
  return out;
}

/// Refuses by name the modes that carry no logits.
Result<const TensorInfo*> find_logits(const SafetensorsFile& file) {
  if (const TensorInfo* logits = file.find("logits")) return logits;
  const auto refuse = [&](std::string_view mode) {
    return schema::fail(ErrorCode::unsupported,
                        file.path().string() + " is a capture in " + std::string(mode) +
                            " mode, which this build does not evaluate; capture 'logits'");
  };
  if (file.find("hidden") != nullptr) return refuse("fused (hidden states)");
  if (file.find("topk_ids") != nullptr || file.find("topk_logprobs") != nullptr) return refuse("top-k");
  if (file.find("logprobs") != nullptr) return refuse("realised-token (logprobs only)");
  return invalid(file, "there is no tensor 'logits' [N, V] (nor hidden, topk_logprobs or logprobs)");
}

Result<void> check_logits(const SafetensorsFile& file, const TensorInfo& logits) {
  if (logits.dtype != DType::f32 && logits.dtype != DType::f16 && logits.dtype != DType::bf16) {
    return invalid(
        file, fmt::format("tensor 'logits' is {}; allowed are F32, F16 and BF16", to_string(logits.dtype)));
  }
  if (logits.shape.size() != 2 || logits.shape[1] == 0) {
    return invalid(file, "tensor 'logits' has the shape " + shape_text(logits) + "; [N, V] is needed");
  }
  if (logits.shape[1] > cpu::kMaxVocabulary) {
    return invalid(
        file, fmt::format("the vocabulary of {} is larger than {}", logits.shape[1], cpu::kMaxVocabulary));
  }
  return {};
}

/// Appends an [N] I32 or I64 tensor to `out`.
Result<void> append_integers(const SafetensorsFile& file, const TensorInfo& tensor, std::uint64_t rows,
                             std::vector<std::int64_t>& out) {
  if (tensor.dtype != DType::i32 && tensor.dtype != DType::i64) {
    return invalid(
        file, fmt::format("tensor '{}' is {}; I32 or I64 is needed", tensor.name, to_string(tensor.dtype)));
  }
  if (tensor.shape != std::vector<std::uint64_t>{rows}) {
    return invalid(file,
                   fmt::format("tensor '{}' has the shape {}; [{}] is needed, one for each row of logits",
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

/// Every file of a capture tells the same story; names the first field that differs.
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
  if (error) return schema::fail(ErrorCode::io, "can not list " + path.string() + ": " + error.message());
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
      fmt::format("the captures can not be compared: {} differs first in row {}: {} (train) and {} (inf)",
                  name, a - train.begin(), *a, *b));
}

}  // namespace

Result<Capture> Capture::open(const std::filesystem::path& path) {
  auto files = files_of(path);
  if (!files) return std::unexpected(files.error());
  Capture capture;
  capture.name_ = path.string();
  for (const auto& file : *files) {
    if (auto added = capture.add_file(file); !added) return std::unexpected(added.error());
  }
  if (capture.rows() == 0) return schema::fail(ErrorCode::invalid_capture, path.string() + " has no rows");
  if (capture.positions_.empty()) capture.number_positions();
  return capture;
}

Result<void> Capture::add_file(const std::filesystem::path& path) {
  auto opened = SafetensorsFile::open(path);
  if (!opened) return std::unexpected(opened.error());
  CaptureSegment segment{std::move(*opened), rows(), 0, {}, nullptr};
  const SafetensorsFile& file = segment.file;
  auto logits = find_logits(file);
  if (!logits) return std::unexpected(logits.error());
  if (auto ok = check_logits(file, **logits); !ok) return ok;
  auto identity = read_identity(file);
  if (!identity) return std::unexpected(identity.error());
  segment.rows = (*logits)->shape[0];
  segment.dtype = (*logits)->dtype;
  segment.logits = file.bytes(**logits).data();
  const bool first = segments_.empty();
  const auto width = static_cast<std::uint32_t>((*logits)->shape[1]);
  if (first) {
    identity_ = std::move(*identity);
    vocabulary_ = width;
  } else {
    std::string other = difference(identity_, *identity);
    if (identity_.kernel != identity->kernel) other = "kernel differs";
    if (vocabulary_ != width) other = "the vocabulary differs";
    if (!other.empty())
      return invalid(file, "does not belong to the files before it in the capture: " + other);
  }
  const TensorInfo* sequences = file.find("sequence_ids");
  if (sequences == nullptr) {
    return invalid(file, "there is no tensor 'sequence_ids' [N]: it says which rows belong together");
  }
  const std::uint64_t before = rows();
  if (auto ok = append_integers(file, *sequences, segment.rows, sequence_ids_); !ok) return ok;
  for (auto [name, values] : {std::pair{"positions", &positions_}, std::pair{"token_ids", &token_ids_}}) {
    const TensorInfo* tensor = file.find(name);
    if (!first && (tensor != nullptr) != (values->size() == before)) {
      return invalid(file,
                     fmt::format("tensor '{}' is in some files of the capture and not in others", name));
    }
    if (tensor == nullptr) continue;
    if (auto ok = append_integers(file, *tensor, segment.rows, *values); !ok) return ok;
  }
  for (std::size_t row = static_cast<std::size_t>(before); row < token_ids_.size(); ++row) {
    if (token_ids_[row] >= 0 && token_ids_[row] < vocabulary_) continue;
    return invalid(file, fmt::format("token_ids of row {} is {}, outside the vocabulary of {}", row - before,
                                     token_ids_[row], vocabulary_));
  }
  segments_.push_back(std::move(segment));
  return {};
}

void Capture::number_positions() {
  std::map<std::int64_t, std::int64_t> next;
  positions_.reserve(sequence_ids_.size());
  for (const std::int64_t sequence : sequence_ids_) positions_.push_back(next[sequence]++);
}

Result<void> Capture::check_unchanged() const {
  for (const CaptureSegment& segment : segments_) {
    if (auto ok = segment.file.check_unchanged(); !ok) return ok;
  }
  return {};
}

Result<void> check_comparable(const Capture& train, const Capture& inf) {
  const auto refuse = [](const std::string& what) {
    return schema::fail(ErrorCode::not_comparable, "the captures can not be compared: " + what);
  };
  if (const std::string what = difference(train.identity(), inf.identity()); !what.empty()) {
    return refuse(what + " (train and inf)");
  }
  if (train.vocabulary() != inf.vocabulary()) {
    return refuse(
        fmt::format("the vocabulary differs: {} (train) and {} (inf)", train.vocabulary(), inf.vocabulary()));
  }
  if (train.rows() != inf.rows()) {
    return refuse(
        fmt::format("the number of rows differs: {} (train) and {} (inf)", train.rows(), inf.rows()));
  }
  if (train.has_tokens() != inf.has_tokens()) {
    return refuse(fmt::format("only the capture of {} has token_ids", train.has_tokens() ? "train" : "inf"));
  }
  if (auto ok = compare_rows("sequence_ids", train.sequence_ids(), inf.sequence_ids()); !ok) return ok;
  if (auto ok = compare_rows("positions", train.positions(), inf.positions()); !ok) return ok;
  return compare_rows("token_ids", train.token_ids(), inf.token_ids());
}

}  // namespace driftgate::gpu
