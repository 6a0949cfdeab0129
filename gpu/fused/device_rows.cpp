#include "gpu/fused/device_rows.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/fused/device_heads.hpp"
#include "gpu/fused/host_engines.hpp"

namespace driftgate::gpu::fused {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::uint64_t kMostRows = 2'048;  ///< of a call; small enough for regular progress reports

class DeviceRows : public RowSource {
 public:
  DeviceRows(const Capture& train, const Capture& inf, const MeasureOptions& options, std::uint32_t threads,
             Backend backend)
      : train_(train),
        inf_(inf),
        options_(options),
        threads_(threads),
        backend_(std::move(backend)),
        heads_(pair_heads(best_product(), train.head(), inf.head(), train.identity().temperature)),
        train_rows_(train),
        inf_rows_(inf) {}

  Result<void> bring_heads() { return backend_.open_hidden(device_heads(heads_)); }

  [[nodiscard]] std::string engine() const override {
    return backend_.arithmetic() + ", " + best_product().name;  // of the rows that the device leaves
  }
  [[nodiscard]] std::uint64_t rows_on_cpu() const override { return rows_on_cpu_; }

  std::uint64_t available(std::uint64_t row) override {
    return std::min({kMostRows, train_rows_.available(row), inf_rows_.available(row)});
  }

  Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) override {
    for (const Capture* capture : {&train_, &inf_}) {
      TRY(capture->check_unchanged());
    }
    const std::int64_t* tokens = train_.has_tokens() ? train_.token_ids().data() + row : nullptr;
    const driftgate_logits train = view(train_rows_, row), inf = view(inf_rows_, row);
    const driftgate_hidden_batch batch{sizeof(driftgate_hidden_batch), 0, out.size(), train, inf, tokens};
    TRY(backend_.measure_hidden(batch, out));
    measure_the_rest(batch, out);
    return {};
  }

 private:
  static driftgate_logits view(HiddenCursor& cursor, std::uint64_t row) {
    const auto [data, dtype] = cursor.at(row);
    return {data, cursor.row_bytes(), dtype, 0};
  }

  /// Measures on the CPU the rows that the backend has not measured.
  void measure_the_rest(const driftgate_hidden_batch& batch, std::span<driftgate_row> out) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].status == DRIFTGATE_ROW_NOT_MEASURED) left.push_back(i);
    }
    if (left.empty()) return;
    rows_on_cpu_ += left.size();
    if (!host_) host_.emplace(heads_, options_, threads_, kMostRows);
    const auto at = [](const driftgate_logits& side, std::size_t row) {
      return static_cast<const unsigned char*>(side.data) + row * side.row_stride_bytes;
    };
    const auto most = static_cast<std::size_t>(host_->batch());
    for (std::size_t begin = 0; begin < left.size(); begin += most) {
      const std::size_t count = std::min(most, left.size() - begin);
      std::vector<HiddenRow> rows;
      std::vector<std::int64_t> tokens;
      std::vector<driftgate_row> measured(count);
      for (std::size_t i = begin; i < begin + count; ++i) {
        rows.push_back(
            {at(batch.train, left[i]), at(batch.inf, left[i]), batch.train.dtype, batch.inf.dtype});
        if (batch.tokens != nullptr) tokens.push_back(batch.tokens[left[i]]);
      }
      host_->measure(rows, batch.tokens == nullptr ? nullptr : tokens.data(), measured);
      for (std::size_t i = 0; i < count; ++i) out[left[begin + i]] = measured[i];
    }
  }

  const Capture& train_;
  const Capture& inf_;
  MeasureOptions options_;
  std::uint32_t threads_;
  Backend backend_;
  HeadPair heads_;
  HiddenCursor train_rows_, inf_rows_;
  std::optional<HostEngines> host_;
  std::uint64_t rows_on_cpu_ = 0;
};

}  // namespace

Result<std::unique_ptr<RowSource>> device_rows(const Capture& train, const Capture& inf,
                                               const MeasureOptions& options, std::uint32_t threads,
                                               Backend backend) {
  if (!backend.can_measure_hidden()) {
    return schema::fail(ErrorCode::unsupported, "the backend of '" + options.device +
                                                    "' does not measure hidden states; use --device cpu, or "
                                                    "capture logits");
  }
  auto rows = std::make_unique<DeviceRows>(train, inf, options, threads, std::move(backend));
  TRY(rows->bring_heads());
  return rows;
}

}  // namespace driftgate::gpu::fused
