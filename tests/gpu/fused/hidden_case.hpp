#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/fused/fused_rows.hpp"
#include "gpu/fused/head_pair.hpp"
#include "tests/gpu/logits.hpp"
#include "tests/gpu/oracle.hpp"
#include "tests/gpu/temporary.hpp"

namespace driftgate::gpu::test {

inline constexpr std::uint32_t kF32 = DRIFTGATE_F32;
inline constexpr double kMaskedBias = -std::numeric_limits<double>::infinity();

inline DType safetensors_dtype(std::uint32_t dtype) {
  if (dtype == DRIFTGATE_F32) return DType::f32;
  return dtype == DRIFTGATE_F16 ? DType::f16 : DType::bf16;
}

inline void write_tensors(const std::filesystem::path& path,
                          const std::vector<SafetensorsWriter::Tensor>& tensors,
                          const std::vector<std::span<const std::byte>>& bytes,
                          const std::map<std::string, std::string>& metadata) {
  auto writer = SafetensorsWriter::create(path, tensors, metadata);
  if (!writer) throw std::runtime_error(writer.error().describe());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (auto ok = writer->write(i, 0, bytes[i]); !ok) throw std::runtime_error(ok.error().describe());
  }
  if (auto ok = writer->finish(); !ok) throw std::runtime_error(ok.error().describe());
}

inline std::span<const std::byte> bytes_of(const Stored& values) {
  return std::as_bytes(std::span(values.bytes)).subspan(1);  // so that the values begin at an odd address
}

/// A head to be written, and the logits that it gives in long double.
struct HeadDraft {
  std::uint32_t vocabulary = 0, width = 0;
  Stored weight;
  std::vector<double> bias;  ///< F32 values; empty: no bias
  double scale = 1, cap = 0;

  void write(const std::filesystem::path& path) const {
    std::vector<SafetensorsWriter::Tensor> tensors = {
        {"lm_head.weight", safetensors_dtype(weight.dtype), {vocabulary, width}}};
    std::vector<std::span<const std::byte>> bytes = {bytes_of(weight)};
    const Stored stored_bias = store(bias, DRIFTGATE_F32);
    if (!bias.empty()) {
      tensors.push_back({"lm_head.bias", DType::f32, {vocabulary}});
      bytes.push_back(bytes_of(stored_bias));
    }
    write_tensors(path, tensors, bytes, {});
  }
  [[nodiscard]] std::map<std::string, std::string> metadata(const std::string& file) const {
    std::map<std::string, std::string> out = {{"lm_head", file + "#lm_head.weight"}};
    if (!bias.empty()) out["lm_head.bias"] = "lm_head.bias";
    if (scale != 1) out["lm_head.scale"] = std::to_string(scale);
    if (cap > 0) out["lm_head.soft_cap"] = std::to_string(cap);
    return out;
  }
  [[nodiscard]] std::vector<double> logits(std::span<const double> hidden) const {
    std::vector<double> out;
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      long double sum = bias.empty() ? 0.0L : static_cast<long double>(bias[v]);
      for (std::uint32_t k = 0; k < width; ++k) {
        sum += static_cast<long double>(weight.values[std::size_t{v} * width + k]) * hidden[k];
      }
      sum *= scale;
      if (cap > 0 && std::isfinite(static_cast<double>(sum))) sum = cap * tanhl(sum / cap);
      out.push_back(static_cast<double>(sum));
    }
    return out;
  }
};

/// Hidden states of some rows with the metadata of a capture.
struct HiddenDraft {
  std::uint32_t width = 0;
  Stored hidden;
  std::vector<std::int32_t> tokens, sequences;
  std::map<std::string, std::string> metadata = {
      {"capture.version", "1"}, {"kernel", "k"}, {"temperature", "1.0"}};

  void write(const std::filesystem::path& path) const {
    const std::uint64_t rows = sequences.size();
    write_tensors(path,
                  {{"hidden", safetensors_dtype(hidden.dtype), {rows, width}},
                   {"sequence_ids", DType::i32, {rows}},
                   {"token_ids", DType::i32, {rows}}},
                  {bytes_of(hidden), std::as_bytes(std::span(sequences)), std::as_bytes(std::span(tokens))},
                  metadata);
  }
  [[nodiscard]] std::span<const double> row(std::size_t at) const {
    return std::span(hidden.values).subspan(at * width, width);
  }
};

/// Two kernels' hidden states and heads.
struct HiddenCase {
  HeadDraft head_train, head_inf;
  HiddenDraft train, inf;
  bool same_head = true;
  double temperature = 1, drift = 0;
  std::uint32_t top_k = 10;
  std::string text;
  [[nodiscard]] std::size_t rows() const { return train.sequences.size(); }

  void write(const TemporaryFolder& folder) const {
    head_train.write(folder / "train.head");
    head_inf.write(folder / "inf.head");
    for (const bool is_train : {true, false}) {
      HiddenDraft draft = is_train ? train : inf;
      const HeadDraft& head = is_train ? head_train : head_inf;
      draft.metadata.merge(head.metadata(is_train || same_head ? "train.head" : "inf.head"));
      draft.metadata["temperature"] = std::to_string(temperature);
      draft.write(folder / (is_train ? "train.safetensors" : "inf.safetensors"));
    }
  }
  [[nodiscard]] Pair pair(std::size_t row) const {
    return {head_train.logits(train.row(row)), head_inf.logits(inf.row(row)), temperature, train.tokens[row],
            top_k};
  }
};

/// A token for each row, none of them masked in `head`, and four rows to a sequence.
inline void draw_tokens(std::mt19937_64& random, const HeadDraft& head, std::size_t rows, HiddenDraft& out) {
  for (std::size_t row = 0; row < rows; ++row) {
    out.sequences.push_back(static_cast<std::int32_t>(row / 4));
    auto token = static_cast<std::int32_t>(random() % head.vocabulary);
    while (!head.bias.empty() && head.bias[static_cast<std::size_t>(token)] == kMaskedBias) --token;
    out.tokens.push_back(token);
  }
}

/// A share `masked` of them masked, but never that of token 0.
inline std::vector<double> draw_bias(std::mt19937_64& random, std::normal_distribution<double>& normal,
                                     std::uint32_t vocabulary, double size, double masked) {
  std::vector<double> out;
  for (std::uint32_t v = 0; v < vocabulary; ++v) {
    const bool mask = v > 0 && std::generate_canonical<double, 53>(random) < masked;
    out.push_back(mask ? kMaskedBias : static_cast<double>(static_cast<float>(size * normal(random))));
  }
  return out;
}

/// Hidden states of both sides, `drift` apart; `count` values each.
inline void draw_hidden(std::mt19937_64& random, std::normal_distribution<double>& normal, std::size_t count,
                        double scale, double drift, std::uint32_t dtype, HiddenCase& out) {
  std::vector<double> train, inf;
  for (std::size_t i = 0; i < count; ++i) {
    train.push_back(normal(random) / scale);
    inf.push_back(train.back() + drift / scale * normal(random));
  }
  out.train.hidden = store(train, dtype);
  out.inf.hidden = store(inf, dtype);
}

/// `large`: of that many tokens, and of few rows.
inline HiddenCase random_hidden_case(std::mt19937_64& random, std::uint32_t large = 0) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  std::normal_distribution<double> normal;
  HiddenCase out;
  const auto width = static_cast<std::uint32_t>(pick(1, 5, 64, 127, 128, 129, 300));
  const auto usual = static_cast<std::uint32_t>(pick(1, 2, 9, 31, 255, 257, 600, 1100));
  const std::uint32_t vocabulary = large > 0 ? large : usual;
  const auto rows = static_cast<std::size_t>(large > 0 ? pick(2, 4) : pick(1, 2, 15));
  const double size = pick(0.1, 1, 5, 12), common = pick(0, 0, 1, 10);
  const double bias = pick(0, 0, 0.5, 3), masked = pick(0, 0.05);
  out.drift = pick(0, 1e-7, 1e-6, 1e-4, 1e-2, 0.3, 1, 5);
  out.same_head = random() % 3 > 0;
  out.temperature = pick(1, 1, 0.7, 2.5);
  const auto head_dtype = static_cast<std::uint32_t>(random() % 3);
  const auto dtype = static_cast<std::uint32_t>(out.drift < 1e-2 ? kF32 : random() % 3);

  const double spread = size / std::sqrt(static_cast<double>(width));
  std::vector<double> direction, weights, other;
  for (std::uint32_t k = 0; k < width; ++k) direction.push_back(common * normal(random));
  for (std::size_t i = 0; i < std::size_t{vocabulary} * width; ++i) {
    weights.push_back(spread * (normal(random) + direction[i % width]));
    other.push_back(weights.back() + (out.same_head ? 0 : spread * out.drift * normal(random)));
  }
  HeadDraft& head = out.head_train;
  head = {vocabulary, width, store(weights, head_dtype), {}, pick(1, 1, 0.0625, 3), 0};
  // Far beyond the cap logits are equal in float64 and which is the largest is left to rounding.
  if (random() % 3 == 0) {
    head.cap = std::ceil(2 * (size * std::sqrt(1 + common * common) + head.scale * bias + out.drift));
  }
  if (bias > 0) head.bias = draw_bias(random, normal, vocabulary, bias, masked);
  out.head_inf = head;
  if (!out.same_head) {
    out.head_inf.weight = store(other, random() % 3 == 0 ? kF32 : head_dtype);
    for (double& value : out.head_inf.bias) {
      value = static_cast<double>(static_cast<float>(value + out.drift * normal(random)));
    }
  }
  out.train.width = out.inf.width = width;
  draw_hidden(random, normal, rows * width, head.scale, out.drift / size, dtype, out);
  draw_tokens(random, head, rows, out.train);
  out.inf.sequences = out.train.sequences;
  out.inf.tokens = out.train.tokens;
  out.top_k = static_cast<std::uint32_t>(pick(1, 10, 10, 40));
  out.text = "D " + std::to_string(width) + ", V " + std::to_string(vocabulary) + ", size " +
             std::to_string(size) + ", common " + std::to_string(common) + ", drift " +
             std::to_string(out.drift) + ", scale " + std::to_string(head.scale) + ", cap " +
             std::to_string(head.cap) + ", bias " + std::to_string(bias) +
             (out.same_head ? ", one head" : "") + ", dtypes " + std::to_string(dtype) + " " +
             std::to_string(head_dtype) + ", temperature " + std::to_string(out.temperature);
  return out;
}

/// Every product kernel that this processor runs.
inline std::vector<const fused::ProductKernel*> products() {
  std::vector<const fused::ProductKernel*> out = {&fused::kPortableProduct};
#ifdef DRIFTGATE_X86
  if (&fused::best_product() != &fused::kPortableProduct) out.push_back(&fused::kAvx2Product);
  if (&fused::best_product() == &fused::kAvx512Product) out.push_back(&fused::kAvx512Product);
#endif
  return out;
}

struct OpenedCase {
  Capture train, inf;
};
inline OpenedCase open_case(const HiddenCase& test, const TemporaryFolder& folder) {
  test.write(folder);
  auto train = Capture::open(folder / "train.safetensors");
  if (!train) throw std::runtime_error(train.error().describe());
  auto inf = Capture::open(folder / "inf.safetensors");
  if (!inf) throw std::runtime_error(inf.error().describe());
  return {std::move(*train), std::move(*inf)};
}

/// The rows of a case in memory, those of the two kernels at different distances; between them are NaNs.
class SpacedCase {
 public:
  SpacedCase(const HiddenCase& test, const OpenedCase& heads)
      : sequences_(test.train.sequences.begin(), test.train.sequences.end()),
        tokens_(test.train.tokens.begin(), test.train.tokens.end()),
        train_(spread(test.train, 3)),
        inf_(spread(test.inf, 1)),
        captures_{capture(test, test.train, train_, 3, heads.train),
                  capture(test, test.inf, inf_, 1, heads.inf)} {}
  SpacedCase(const SpacedCase&) = delete;
  SpacedCase& operator=(const SpacedCase&) = delete;
  [[nodiscard]] const Capture& train() const { return captures_.train; }
  [[nodiscard]] const Capture& inf() const { return captures_.inf; }

 private:
  static std::size_t row_bytes(const HiddenDraft& draft) {
    return draft.width * (draft.hidden.dtype == DRIFTGATE_F32 ? 4U : 2U);
  }
  static std::size_t stride(const HiddenDraft& draft, std::size_t times) {
    return times * row_bytes(draft) + 16;
  }
  static std::vector<unsigned char> spread(const HiddenDraft& draft, std::size_t times) {
    std::vector<unsigned char> out(draft.sequences.size() * stride(draft, times), 0xff);
    for (std::size_t row = 0; row < draft.sequences.size(); ++row) {
      std::copy_n(draft.hidden.bytes.begin() + 1 + static_cast<std::ptrdiff_t>(row * row_bytes(draft)),
                  row_bytes(draft), out.begin() + static_cast<std::ptrdiff_t>(row * stride(draft, times)));
    }
    return out;
  }
  Capture capture(const HiddenCase& test, const HiddenDraft& draft, const std::vector<unsigned char>& hidden,
                  std::size_t times, const Capture& with_head) const {
    const std::uint64_t rows = sequences_.size();
    MemoryRows out{"spaced",
                   {{"hidden",
                     safetensors_dtype(draft.hidden.dtype),
                     {rows, draft.width},
                     std::as_bytes(std::span(hidden)).data()},
                    {"sequence_ids", DType::i64, {rows}, std::as_bytes(std::span(sequences_)).data()},
                    {"token_ids", DType::i64, {rows}, std::as_bytes(std::span(tokens_)).data()}},
                   draft.metadata};
    out.metadata["temperature"] = std::to_string(test.temperature);
    out.row_stride_bytes = stride(draft, times);
    out.head = with_head.head();
    auto made = Capture::of_memory(out);
    if (!made) throw std::runtime_error(made.error().describe());
    return std::move(*made);
  }

  std::vector<std::int64_t> sequences_, tokens_;
  std::vector<unsigned char> train_, inf_;
  OpenedCase captures_;
};

inline std::vector<fused::HiddenRow> hidden_rows_of(const HiddenCase& test) {
  std::vector<fused::HiddenRow> rows;
  for (std::size_t row = 0; row < test.rows(); ++row) {
    const auto at = [&](const HiddenDraft& draft) {
      return draft.hidden.bytes.data() + 1 +
             row * draft.width * (draft.hidden.dtype == DRIFTGATE_F32 ? 4U : 2U);
    };
    rows.push_back({at(test.train), at(test.inf), test.train.hidden.dtype, test.inf.hidden.dtype});
  }
  return rows;
}

inline std::vector<driftgate_row> evaluate(const HiddenCase& test, const fused::HeadPair& heads,
                                           const fused::ProductKernel& kernel,
                                           std::uint32_t metrics = DRIFTGATE_METRICS_ALL,
                                           std::size_t most_rows = 252) {
  fused::FusedRows engine(kernel, heads, test.top_k, metrics, most_rows);
  const std::vector<std::int64_t> tokens(test.train.tokens.begin(), test.train.tokens.end());
  std::vector<driftgate_row> out(test.rows());
  engine.measure(hidden_rows_of(test), tokens.data(), out);
  return out;
}

/// The first difference of a row from the expected one, beyond the error of docs/design/measurement.md,
/// "Error bounds". The log-ratio of a token for which it is small compared with the drift of the row must
/// agree to 1e-6 of tv, since the normalisers of the row have the rounding errors of all tokens.
inline std::string fault_of(Row wanted, const driftgate_row& row) {
  const auto ratio = static_cast<std::size_t>(Metric::log_ratio);
  const auto tv = static_cast<double>(wanted[static_cast<std::size_t>(Metric::tv)]);
  if (std::abs(static_cast<double>(wanted[ratio]) - row.values[ratio]) <= 1e-6 * tv) {
    wanted[ratio] = row.values[ratio];
  }
  return disagreement(wanted, row.values);
}

}  // namespace driftgate::gpu::test
