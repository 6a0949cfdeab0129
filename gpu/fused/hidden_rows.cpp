#include "gpu/fused/hidden_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/fused/device_rows.hpp"
#include "gpu/fused/host_engines.hpp"

namespace driftgate::gpu::fused {

using schema::ErrorCode;
using schema::Result;

namespace {

bool is_bf16(const Capture& capture) {
  return std::ranges::all_of(capture.segments(),
                             [](const CaptureSegment& part) { return part.dtype == DType::bf16; });
}

class HiddenRows : public RowSource {
 public:
  HiddenRows(const Capture& train, const Capture& inf, const MeasureOptions& options, std::uint32_t threads)
      : train_(train),
        inf_(inf),
        heads_(pair_heads(best_product(), train.head(), inf.head(), train.identity().temperature,
                          is_bf16(train) && is_bf16(inf))),
        engines_(heads_, options, threads, train.rows()),
        train_rows_(train),
        inf_rows_(inf) {
    rows_.reserve(static_cast<std::size_t>(engines_.batch()));
  }

  std::uint64_t available(std::uint64_t row) override {
    return std::min(engines_.batch(), train_.rows() - row);
  }

  [[nodiscard]] std::string engine() const override { return best_product().name; }

  Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) override {
    for (const Capture* capture : {&train_, &inf_}) {
      TRY(capture->check_unchanged());
    }
    rows_.clear();
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const auto [a, a_dtype] = train_rows_.at(row + i);
      const auto [b, b_dtype] = inf_rows_.at(row + i);
      rows_.push_back({a, b, a_dtype, b_dtype});
    }
    engines_.measure(rows_, train_.has_tokens() ? train_.token_ids().data() + row : nullptr, out);
    return {};
  }

 private:
  const Capture& train_;
  const Capture& inf_;
  HeadPair heads_;
  HostEngines engines_;
  HiddenCursor train_rows_, inf_rows_;
  std::vector<HiddenRow> rows_;
};

}  // namespace

Result<std::unique_ptr<RowSource>> hidden_rows(const Capture& train, const Capture& inf,
                                               const MeasureOptions& options, std::uint32_t threads) {
  if (threads > kMaxThreads || options.top_k == 0 || options.top_k > cpu::kMaxTopK) {
    return schema::fail(ErrorCode::invalid_argument, "threads and top_k must be between 1 and 1,024");
  }
  if (train.identity().temperature < kLeastTemperature)
    return schema::fail(ErrorCode::invalid_argument, "the temperature must be a number of at least 1e-6");
  if (train.columns() != inf.columns()) {
    return schema::fail(ErrorCode::not_comparable,
                        fmt::format("the captures cannot be compared: the hidden states are {} (train) and "
                                    "{} (inf) wide",
                                    train.columns(), inf.columns()));
  }
  if (options.device == "cpu") return std::make_unique<HiddenRows>(train, inf, options, threads);
  auto backend = TRY(Backend::open(options.device, threads, options.top_k, kCudaLibrary, options.metrics));
  return device_rows(train, inf, options, threads, std::move(backend));
}

}  // namespace driftgate::gpu::fused
