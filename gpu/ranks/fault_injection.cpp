#include "gpu/ranks/fault_injection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <set>
#include <vector>

#include "gpu/cpu/half.hpp"

namespace driftgate::gpu {
namespace {

using schema::ErrorCode;
using schema::Result;

constexpr float kWrongScale = 1.25F;
constexpr std::size_t kScaledShare = 10;  ///< one sequence in ten

/// Row `row` of the capture, widened to float32.
void read_row(const Capture& capture, std::uint64_t row, std::span<float> out) {
  const auto after = std::ranges::upper_bound(capture.segments(), row, {}, &CaptureSegment::first_row);
  const CaptureSegment& segment = *std::prev(after);
  const std::size_t width = size_bytes(segment.dtype);
  const std::byte* from = segment.logits + (row - segment.first_row) * segment.row_bytes;
  if (segment.dtype == DType::f32) {
    std::memcpy(out.data(), from, out.size_bytes());
    return;
  }
  for (std::size_t v = 0; v < out.size(); ++v) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + v * width, width);
    out[v] = segment.dtype == DType::bf16 ? cpu::from_bf16(bits) : cpu::from_f16(bits);
  }
}

/// A standard normal number by the method of Box and Muller, the same on every platform.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : bits_(seed) {}
  float operator()() {
    const double u = 1 - uniform();
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * uniform()));
  }

 private:
  double uniform() { return static_cast<double>(bits_() >> 11U) * 0x1.0p-53; }
  std::mt19937_64 bits_;
};

/// Copies the rows of a capture and injects the fault.
class Injector {
 public:
  Injector(const Capture& inf, const Corpus* corpus, Fault fault, const SliceAttributes& slice,
           std::uint64_t seed)
      : inf_(inf), corpus_(corpus), fault_(fault), slice_(slice), noise_(seed) {
    const std::set<std::int64_t> sequences(inf.sequence_ids().begin(), inf.sequence_ids().end());
    std::size_t at = 0;
    for (const std::int64_t sequence : sequences) {
      if (at++ % kScaledShare == seed % std::min(kScaledShare, sequences.size())) scaled_.insert(sequence);
    }
  }

  [[nodiscard]] bool touches(std::uint64_t row) const {
    const std::int64_t sequence = inf_.sequence_ids()[row];
    if (fault_ == Fault::scaled_rows) return scaled_.contains(sequence);
    if (fault_ == Fault::nan) return row == inf_.rows() / 2;
    if (fault_ != Fault::corrupted_slice) return true;
    const SequenceInfo* info = corpus_ == nullptr ? nullptr : corpus_->find(sequence);
    return info != nullptr && in_slice(*info, slice_);
  }

  void fill(std::uint64_t row, std::span<float> out) {
    const bool has_next = row + 1 < inf_.rows() && inf_.sequence_ids()[row + 1] == inf_.sequence_ids()[row];
    read_row(inf_, fault_ == Fault::off_by_one && has_next ? row + 1 : row, out);
    if (!touches(row)) return;
    switch (fault_) {
      case Fault::scaled_rows:
        for (float& z : out) z *= kWrongScale;
        break;
      case Fault::permuted_head:
        std::ranges::rotate(out, out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2));
        break;
      case Fault::corrupted_slice:
        for (float& z : out) z += noise_();
        break;
      case Fault::nan:
        out[out.size() / 3] = std::numeric_limits<float>::quiet_NaN();
        break;
      case Fault::off_by_one:
        break;
    }
  }

 private:
  const Capture& inf_;
  const Corpus* corpus_;
  Fault fault_;
  const SliceAttributes& slice_;
  Noise noise_;
  std::set<std::int64_t> scaled_;
};

Result<SafetensorsWriter> begin_copy(const Capture& inf, const std::filesystem::path& path) {
  std::vector<SafetensorsWriter::Tensor> tensors{{"logits", DType::f32, {inf.rows(), inf.vocabulary()}},
                                                 {"sequence_ids", DType::i64, {inf.rows()}},
                                                 {"positions", DType::i64, {inf.rows()}}};
  std::vector<std::span<const std::int64_t>> columns{inf.sequence_ids(), inf.positions()};
  if (inf.has_tokens()) {
    tensors.push_back({"token_ids", DType::i64, {inf.rows()}});
    columns.push_back(inf.token_ids());
  }
  auto writer = SafetensorsWriter::create(path, tensors, inf.segments().front().file.header().metadata);
  if (!writer) return writer;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    TRY(writer->write(i + 1, 0, std::as_bytes(columns[i])));
  }
  return writer;
}

}  // namespace

std::string_view to_string(Fault fault) {
  constexpr std::array<std::string_view, kFaultCount> names{"scaled-rows", "permuted-head", "corrupted-slice",
                                                            "nan", "off-by-one"};
  return names.at(static_cast<std::size_t>(fault));
}

Result<void> write_faulty_capture(const Capture& inf, const Corpus* corpus, Fault fault,
                                  const SliceAttributes& slice, std::uint64_t seed,
                                  const std::filesystem::path& path) {
  if (inf.mode() != CaptureMode::full) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("faults are injected into logits, and {} is a capture in {} mode",
                                    inf.name(), to_string(inf.mode())));
  }
  Injector injector(inf, corpus, fault, slice, seed);
  bool any = false;
  for (std::uint64_t row = 0; row < inf.rows() && !any; ++row) any = injector.touches(row);
  if (!any) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("the fault {} finds no rows: the slice to corrupt has none in this "
                                    "capture; name another slice or another corpus",
                                    to_string(fault)));
  }
  auto writer = TRY(begin_copy(inf, path));
  std::vector<float> logits(inf.vocabulary());
  for (std::uint64_t row = 0; row < inf.rows(); ++row) {
    injector.fill(row, logits);
    const auto bytes = std::as_bytes(std::span<const float>(logits));
    TRY(writer.write(0, row * bytes.size(), bytes));
  }
  return writer.finish();
}

}  // namespace driftgate::gpu
