#include "gpu/row_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/fused/hidden_rows.hpp"
#include "gpu/measure_rows.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// Rows of stored logits, evaluated by a backend.
class LogitRows : public RowSource {
 public:
  LogitRows(const Capture& train, const Capture& inf, Backend backend)
      : captures_{&train, &inf},
        train_(train),
        inf_(inf),
        most_(batch_rows(train)),
        backend_(std::move(backend)) {}
  std::uint64_t available(std::uint64_t row) override {
    return std::min({most_, train_.available(row), inf_.available(row)});
  }
  Result<void> measure(std::uint64_t row, std::span<driftgate_row> out) override {
    for (const Capture* capture : captures_) {
      TRY(capture->check_unchanged());
    }
    const Capture& train = *captures_[0];
    const driftgate_batch batch{sizeof(driftgate_batch),
                                train.vocabulary(),
                                out.size(),
                                train_.view(row),
                                inf_.view(row),
                                train.has_tokens() ? train.token_ids().data() + row : nullptr,
                                train.identity().temperature};
    return backend_.measure(batch, out);
  }
  [[nodiscard]] std::string engine() const override { return backend_.arithmetic(); }

 private:
  const Capture* captures_[2];
  LogitsCursor train_, inf_;
  std::uint64_t most_;
  Backend backend_;
};

}  // namespace

Result<void> check_reachable(const Capture& train, const Capture& inf, const std::string& device) {
  for (const Capture* capture : {&train, &inf}) {
    if (capture->on_device() && device == "cpu") {
      return schema::fail(ErrorCode::invalid_argument,
                          capture->name() +
                              ": the rows are in the memory of a device, which the cpu cannot read; "
                              "measure them on that device");
    }
  }
  return {};
}

std::unique_ptr<RowSource> logit_rows(const Capture& train, const Capture& inf, Backend backend) {
  return std::make_unique<LogitRows>(train, inf, std::move(backend));
}

Result<std::unique_ptr<RowSource>> open_rows(const Capture& train, const Capture& inf,
                                             const MeasureOptions& options) {
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  const std::uint32_t threads = options.threads == 0 ? processors : options.threads;
  if (auto ok = check_reachable(train, inf, options.device); !ok) return std::unexpected(ok.error());
  if (train.mode() == CaptureMode::hidden) return fused::hidden_rows(train, inf, options, threads);
  if (train.mode() != CaptureMode::full) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("{} is a capture in {} mode, which this build does not evaluate",
                                    train.name(), to_string(train.mode())));
  }
  auto backend = TRY(Backend::open(options.device, threads, options.top_k, kCudaLibrary, options.metrics));
  return logit_rows(train, inf, std::move(backend));
}

}  // namespace driftgate::gpu
