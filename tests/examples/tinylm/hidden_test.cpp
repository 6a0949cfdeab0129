#include <cmath>

#include "gpu/drift.hpp"
#include "gpu/table/summary.hpp"
#include "tests/examples/tinylm/fixtures.hpp"

using namespace tinylm;
using tinylm_tests::engine;
using tinylm_tests::shipped;
using tinylm_tests::TemporaryFolder;

namespace gpu = driftgate::gpu;

namespace {

gpu::Capture captured(Precision precision, bool hidden, const std::string& out) {
  Engine kernel = engine(precision);
  const CaptureOptions options{
      .corpus = shipped("data/numeric.jsonl"), .out = out, .positions = 4, .hidden = hidden};
  const auto rows = write_capture(kernel, tinylm_tests::model().checkpoint_digest, options);
  REQUIRE_MESSAGE(rows.has_value(), (rows ? "" : rows.error().message));
  auto capture = gpu::Capture::open(out, {{}, shipped("model")});
  REQUIRE_MESSAGE(capture.has_value(), (capture ? "" : capture.error().describe()));
  return std::move(*capture);
}

double mean(const gpu::MeasurementTable& table, gpu::Metric metric) {
  return gpu::summarise(table).metrics[static_cast<std::size_t>(metric)].mean;
}

}  // namespace

TEST_CASE("hidden states and the checkpoint's head give the figures of the kernels' logits") {
  const TemporaryFolder folder;
  const auto full = gpu::measure(captured(Precision::f32, false, folder.file("a.safetensors")),
                                 captured(Precision::int8, false, folder.file("b.safetensors")), nullptr, {});
  const auto hidden =
      gpu::measure(captured(Precision::f32, true, folder.file("c.safetensors")),
                   captured(Precision::int8, true, folder.file("d.safetensors")), nullptr, {});
  REQUIRE(full.has_value());
  REQUIRE(hidden.has_value());
  CHECK(hidden->rows == full->rows);
  CHECK(hidden->vocabulary == full->vocabulary);
  CHECK(mean(*full, gpu::Metric::tv) > 1e-3);
  // The kernels round logits of up to 30 to float32, sums of 128 terms: 2e-6 of drifts of about 0.05.
  for (const gpu::Metric metric :
       {gpu::Metric::tv, gpu::Metric::kl_train_inf, gpu::Metric::kl_inf_train, gpu::Metric::js,
        gpu::Metric::logit_rms, gpu::Metric::logit_span, gpu::Metric::entropy_inf}) {
    CAPTURE(driftgate::schema::to_string(metric));
    CHECK(mean(*hidden, metric) == doctest::Approx(mean(*full, metric)).epsilon(1e-4));
  }
  CHECK(mean(*hidden, gpu::Metric::log_ratio) ==
        doctest::Approx(mean(*full, gpu::Metric::log_ratio)).epsilon(1e-3));
}

TEST_CASE("a kernel that rounds its head writes no hidden states") {
  const TemporaryFolder folder;
  Engine kernel = engine(Precision::bf16);
  const auto refused =
      write_capture(kernel, tinylm_tests::model().checkpoint_digest,
                    {.corpus = shipped("data/numeric.jsonl"), .out = folder.file("x"), .hidden = true});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("rounds lm_head") != std::string::npos);
}
