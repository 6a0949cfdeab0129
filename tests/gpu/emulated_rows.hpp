#pragma once

#include <cstring>
#include <type_traits>

#include "gpu/cuda/finish_part.hpp"
#include "tests/gpu/emulated_gpu.hpp"
#include "tests/gpu/random_rows.hpp"

/// Rows measured by the kernels of the CUDA backend over emulated threads.
namespace driftgate::gpu::test {

struct Shape {
  unsigned blocks = 2, threads = 64;
  std::uint32_t cache = 4'096;  ///< vectors of each kernel that a block keeps
};

/// The rows of a batch at 16-byte addresses, as the backend stages them.
class Staged {
 public:
  explicit Staged(const Case& test, cuda::Mode mode = cuda::Mode::all) {
    const auto columns = static_cast<std::uint32_t>(test.pair.train.size());
    stage(test.train, train_);
    stage(test.inf, inf_);
    token_ = *test.pair.token;
    view = {reinterpret_cast<const unsigned char*>(train_.data()),
            reinterpret_cast<const unsigned char*>(inf_.data()),
            train_.size() * 16,
            inf_.size() * 16,
            test.train.dtype,
            test.inf.dtype,
            columns,
            test.pair.top_k,
            1,
            &token_,
            test.pair.temperature,
            mode};
  }
  cuda::BatchView view{};

 private:
  static void stage(const Stored& from, std::vector<cuda::Vector>& to) {
    to.resize((from.bytes.size() - 1 + 15) / 16);
    std::memcpy(to.data(), from.bytes.data() + 1, from.bytes.size() - 1);
  }
  std::vector<cuda::Vector> train_, inf_;
  std::int64_t token_ = 0;
};

template <class Body>
void by_dtype(std::uint32_t dtype, Body body) {
  if (dtype == DRIFTGATE_F32) body(std::integral_constant<std::uint32_t, DRIFTGATE_F32>{});
  if (dtype == DRIFTGATE_F16) body(std::integral_constant<std::uint32_t, DRIFTGATE_F16>{});
  if (dtype == DRIFTGATE_BF16) body(std::integral_constant<std::uint32_t, DRIFTGATE_BF16>{});
}

inline driftgate_row run_wide(const cuda::BatchView& view, unsigned threads, std::uint64_t seed) {
  EmulatedCluster cluster(1, threads, 0, seed);
  cuda::RowSums sums{};
  cluster.run([&](EmulatedThread& thread) { cuda::measure_wide_row(thread, view, 0, sums); });
  driftgate_row out{};
  cuda::finish_row(sums, view, 0, cuda::offset_of(sums.pass), out);
  return out;
}

/// False when the row is left to the float64 form.
inline bool run_fast(const cuda::BatchView& view, const Shape& shape, std::uint64_t seed,
                     driftgate_row& out) {
  if (view.train_dtype != view.inf_dtype || view.temperature != 1.0) return false;
  const std::uint32_t size = std::max<std::uint32_t>(view.top_k, 2);
  if (size > cuda::kMaxFastTopK) return false;
  cuda::FastRow row{};
  std::vector<cuda::FastPart> parts(shape.blocks);
  std::vector<cuda::TopEntry> lists(std::size_t{2} * shape.blocks * size);
  const cuda::BatchScratch scratch{&row, parts.data(), lists.data(), nullptr, {}, shape.blocks, size, true};
  EmulatedCluster cluster(shape.blocks, shape.threads, shape.cache, seed);
  by_dtype(view.train_dtype, [&](auto dtype) {
    cluster.run([&](EmulatedThread& thread) {
      cuda::measure_row<decltype(dtype)::value>(thread, view, scratch, 0, shape.cache);
    });
  });
  return cuda::finish_fast_row(view, scratch, 0, out);
}

/// The row as the backend would give it: in float32 if its figures allow, else in float64.
inline driftgate_row run(const Case& test, const Shape& shape, std::uint64_t seed, bool* fast = nullptr,
                         cuda::Mode mode = cuda::Mode::all) {
  const Staged staged(test, mode);
  driftgate_row out{};
  const bool taken = run_fast(staged.view, shape, seed, out);
  if (fast != nullptr) *fast = taken;
  return taken ? out : run_wide(staged.view, 64, seed);
}

}  // namespace driftgate::gpu::test
