#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "gpu/table/measurement.hpp"

using namespace driftgate;
using namespace driftgate::gpu;

namespace {

struct Small {
  std::vector<float> train = {1, 2, 3, 4, 5, 6, 7, 8}, inf = {1, 2, 3, 4, 5, 6, 8, 7};
  std::vector<std::int64_t> tokens = {0, 3};
  driftgate_batch batch{sizeof(driftgate_batch),
                        4,
                        2,
                        {train.data(), 16, DRIFTGATE_F32, 0},
                        {inf.data(), 16, DRIFTGATE_F32, 0},
                        tokens.data(),
                        1.0};
  std::vector<driftgate_row> rows = std::vector<driftgate_row>(2);
};

}  // namespace

TEST_CASE("the CPU backend measures through the table") {
  auto backend = Backend::open("cpu", 2, 2);
  REQUIRE(backend);
  CHECK(backend->describe().starts_with("cpu, "));
  Small small;
  REQUIRE(backend->measure(small.batch, small.rows));
  CHECK(small.rows[0].values[static_cast<std::size_t>(Metric::tv)] == 0);
  CHECK(small.rows[1].values[static_cast<std::size_t>(Metric::top1_flip)] == 1);
}

TEST_CASE("a backend that is requested and absent is an error, never another backend") {
  const auto absent = Backend::open("cuda", 1, 10, "libdriftgate_no_such_backend.so");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == schema::ErrorCode::unavailable);
  CHECK(absent.error().message.find("libdriftgate_no_such_backend.so") != std::string::npos);
  CHECK(absent.error().message.find("--device cpu") != std::string::npos);
}

TEST_CASE("a library that is not a backend is refused") {
  const auto other = Backend::open("cuda:0", 1, 10, "libm.so.6");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == schema::ErrorCode::unsupported);
}

TEST_CASE("invalid device names are refused") {
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU"}) {
    CAPTURE(device);
    const auto backend = Backend::open(device, 1, 10);
    REQUIRE_FALSE(backend);
    CHECK(backend.error().code == schema::ErrorCode::invalid_argument);
  }
}

TEST_CASE("batches and configurations that make no sense are refused with a reason") {
  CHECK_FALSE(Backend::open("cpu", 0, 10));
  CHECK_FALSE(Backend::open("cpu", 1, 0));
  CHECK_FALSE(Backend::open("cpu", 1, 1'025));
  auto backend = Backend::open("cpu", 1, 10);
  REQUIRE(backend);
  const auto refused = [&](auto change) {
    Small small;
    change(small);
    const auto result = backend->measure(small.batch, small.rows);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == schema::ErrorCode::invalid_argument);
    CHECK(result.error().message.starts_with("the cpu backend reports: "));
  };
  refused([](Small& s) { s.batch.temperature = 0; });
  refused([](Small& s) { s.batch.temperature = std::numeric_limits<double>::quiet_NaN(); });
  refused([](Small& s) { s.batch.vocabulary = 0; });
  refused([](Small& s) { s.batch.vocabulary = 1U << 30; });
  refused([](Small& s) { s.batch.train.dtype = 7; });
  refused([](Small& s) { s.batch.train.data = nullptr; });
  refused([](Small& s) { s.tokens[1] = 4; });
  refused([](Small& s) { s.tokens[0] = -1; });
  refused([](Small& s) { s.batch.struct_size = 8; });
}

TEST_CASE("core metrics leave the others out and are those of a full measurement") {
  auto all = Backend::open("cpu", 1, 2);
  auto core = Backend::open("cpu", 1, 2, kCudaLibrary, DRIFTGATE_METRICS_CORE);
  REQUIRE(all);
  REQUIRE(core);
  Small a, b;
  REQUIRE(all->measure(a.batch, a.rows));
  REQUIRE(core->measure(b.batch, b.rows));
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    for (const Metric metric : {Metric::logit_max_abs, Metric::logit_span, Metric::kl_train_inf,
                                Metric::kl_inf_train, Metric::top1_flip, Metric::nonfinite,
                                Metric::logprob_train, Metric::logprob_inf, Metric::log_ratio}) {
      CAPTURE(schema::to_string(metric));
      const auto at = static_cast<std::size_t>(metric);
      CHECK(b.rows[i].values[at] == doctest::Approx(a.rows[i].values[at]).epsilon(1e-6));
    }
    for (const Metric metric :
         {Metric::logit_rms, Metric::tv, Metric::js, Metric::hellinger2, Metric::chi2, Metric::entropy_train,
          Metric::entropy_inf, Metric::topk_overlap, Metric::top1_margin}) {
      CAPTURE(schema::to_string(metric));
      CHECK(std::isnan(b.rows[i].values[static_cast<std::size_t>(metric)]));
    }
    CHECK(std::isnan(b.rows[i].head_tail_tv));
    CHECK(b.rows[i].top_train == doctest::Approx(a.rows[i].top_train).epsilon(1e-6));
  }
  CHECK_FALSE(Backend::open("cpu", 1, 2, kCudaLibrary, 2));
}

TEST_CASE("messages fit the caller's buffer whatever its size") {
  const driftgate_backend* table = cpu::backend_table();
  driftgate_config config{sizeof(driftgate_config), 0, 0, 10, DRIFTGATE_METRICS_ALL};
  void* engine = nullptr;
  char tiny[4] = {'x', 'x', 'x', 'x'};
  CHECK(table->open(&config, &engine, tiny, 3) == DRIFTGATE_INVALID);
  CHECK(tiny[2] == '\0');
  CHECK(tiny[3] == 'x');
  CHECK(table->open(&config, &engine, nullptr, 0) == DRIFTGATE_INVALID);
  CHECK(table->open(nullptr, &engine, tiny, 3) == DRIFTGATE_INVALID);
}
