#include "gpu/fused/hidden_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/fused/fused_rows.hpp"

namespace driftgate::gpu::fused {

using schema::ErrorCode;
using schema::Result;

namespace {

std::uint32_t backend_dtype(DType dtype) {
  if (dtype == DType::f32) return DRIFTGATE_F32;
  return dtype == DType::f16 ? DRIFTGATE_F16 : DRIFTGATE_BF16;
}

/// The hidden states of a capture's rows, in row order.
class HiddenCursor {
 public:
  explicit HiddenCursor(const Capture& capture) : capture_(capture) {}
  std::pair<const unsigned char*, std::uint32_t> at(std::uint64_t row) {
    while (row >= segment().first_row + segment().rows) ++at_;
    const std::uint64_t bytes = capture_.columns() * size_bytes(segment().dtype);
    const std::byte* from = segment().hidden + (row - segment().first_row) * bytes;
    return {reinterpret_cast<const unsigned char*>(from), backend_dtype(segment().dtype)};
  }

 private:
  [[nodiscard]] const CaptureSegment& segment() const { return capture_.segments()[at_]; }
  const Capture& capture_;
  std::size_t at_ = 0;
};

class HiddenRows : public RowSource {
 public:
  HiddenRows(const Capture& train, const Capture& inf, const MeasureOptions& options, std::uint32_t threads)
      : train_(train),
        inf_(inf),
        heads_(pair_heads(best_product(), train.head(), inf.head(), train.identity().temperature)),
        train_rows_(train),
        inf_rows_(inf) {
    const std::uint64_t most = std::min<std::uint64_t>(block_rows(best_product(), train.columns()),
                                                       (train.rows() + threads - 1) / threads);
    const std::uint64_t needed = std::min<std::uint64_t>(threads, (train.rows() + most - 1) / most);
    for (std::uint64_t i = 0; i < needed; ++i) {
      engines_.push_back(std::make_unique<FusedRows>(best_product(), heads_, options.top_k, options.metrics,
                                                     static_cast<std::size_t>(most)));
    }
    batch_ = most * needed;
    rows_.reserve(static_cast<std::size_t>(batch_));
  }

  std::uint64_t available(std::uint64_t row) override { return std::min(batch_, train_.rows() - row); }

  Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) override {
    for (const Capture* capture : {&train_, &inf_}) {
      if (auto ok = capture->check_unchanged(); !ok) return ok;
    }
    rows_.clear();
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const auto [a, a_dtype] = train_rows_.at(row + i);
      const auto [b, b_dtype] = inf_rows_.at(row + i);
      rows_.push_back({a, b, a_dtype, b_dtype});
    }
    const std::int64_t* tokens = train_.has_tokens() ? train_.token_ids().data() + row : nullptr;
    const auto work = [&](std::size_t thread) {
      const std::size_t begin = out.size() * thread / engines_.size();
      const std::size_t end = out.size() * (thread + 1) / engines_.size();
      engines_[thread]->measure(std::span(rows_).subspan(begin, end - begin),
                                tokens == nullptr ? nullptr : tokens + begin,
                                out.subspan(begin, end - begin));
    };
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < engines_.size(); ++thread) others.emplace_back(work, thread);
    work(0);
    return {};
  }

 private:
  const Capture& train_;
  const Capture& inf_;
  HeadPair heads_;
  HiddenCursor train_rows_, inf_rows_;
  std::uint64_t batch_ = 0;
  std::vector<std::unique_ptr<FusedRows>> engines_;  // one for each thread
  std::vector<HiddenRow> rows_;
};

}  // namespace

Result<std::unique_ptr<RowSource>> hidden_rows(const Capture& train, const Capture& inf,
                                               const MeasureOptions& options, std::uint32_t threads) {
  if (options.device != "cpu") {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("captures of hidden states are evaluated on the CPU and not on '{}'; use "
                                    "--device cpu, or capture logits",
                                    options.device));
  }
  if (threads > kMaxThreads || options.top_k == 0 || options.top_k > cpu::kMaxTopK) {
    return schema::fail(ErrorCode::invalid_argument, "threads and top_k must be between 1 and 1,024");
  }
  if (train.identity().temperature < kLeastTemperature)
    return schema::fail(ErrorCode::invalid_argument, "the temperature must be a number of at least 1e-6");
  if (train.columns() != inf.columns()) {
    return schema::fail(ErrorCode::not_comparable,
                        fmt::format("the captures can not be compared: the hidden states are {} (train) and "
                                    "{} (inf) wide",
                                    train.columns(), inf.columns()));
  }
  return std::make_unique<HiddenRows>(train, inf, options, threads);
}

}  // namespace driftgate::gpu::fused
