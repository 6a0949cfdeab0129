#include "bench/row_loop.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <thread>

namespace driftgate::bench {

namespace {

constexpr float kLeastLogprob = -16.0F;  // less likely tokens are left out

struct Softmax {
  float top;
  double log_sum;
  std::size_t best;
};

Softmax softmax_of(const float* logits, std::uint32_t count) {
  Softmax out{logits[0], 0, 0};
  for (std::uint32_t i = 1; i < count; ++i) {
    if (logits[i] > out.top) out.top = logits[i], out.best = i;
  }
  double sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) sum += static_cast<double>(expf(logits[i] - out.top));
  out.log_sum = std::log(sum);
  return out;
}

}  // namespace

RowLoopData make_row_loop(std::vector<float> base_logits, std::vector<float> logits,
                          std::uint32_t vocabulary) {
  RowLoopData out{vocabulary, std::move(logits), {}, {}};
  out.base.resize(base_logits.size());
  out.rows.resize(base_logits.size() / vocabulary);
  for (std::size_t row = 0; row < out.rows.size(); ++row) {
    const float* from = base_logits.data() + row * vocabulary;
    const Softmax softmax = softmax_of(from, vocabulary);
    const float least = std::max(*std::min_element(from, from + vocabulary), softmax.top + kLeastLogprob);
    const float scale = (softmax.top - least) / 65'535.0F;
    out.rows[row] = {scale, least - softmax.top - static_cast<float>(softmax.log_sum)};
    for (std::uint32_t i = 0; i < vocabulary; ++i) {
      const float steps = scale > 0 ? (std::max(from[i], least) - least) / scale : 0.0F;
      out.base[row * vocabulary + i] = static_cast<std::uint16_t>(std::lround(std::min(steps, 65'535.0F)));
    }
  }
  return out;
}

RowLoopSums run_row_loop(const RowLoopData& data, std::uint32_t threads) {
  std::mutex lock;
  std::size_t next = 0;
  RowLoopSums out;
  const auto work = [&] {
    RowLoopSums mine;
    for (;;) {
      std::unique_lock held(lock);
      const std::size_t row = next++;
      if (row >= data.rows.size()) {
        out.kl += mine.kl, out.kl_squares += mine.kl_squares;
        out.same_top += mine.same_top, out.rows += mine.rows;
        return;
      }
      held.unlock();
      const float* logits = data.logits.data() + row * data.vocabulary;
      const std::uint16_t* base = data.base.data() + row * data.vocabulary;
      const Softmax softmax = softmax_of(logits, data.vocabulary);
      const float shift = softmax.top + static_cast<float>(softmax.log_sum);
      const BaseRow of_base = data.rows[row];
      double kl = 0;
      std::size_t best = 0;
      for (std::uint32_t i = 0; i < data.vocabulary; ++i) {
        const float log_p = of_base.scale * static_cast<float>(base[i]) + of_base.least;
        if (base[i] > base[best]) best = i;
        if (log_p > kLeastLogprob) kl += static_cast<double>(expf(log_p) * (log_p - logits[i] + shift));
      }
      mine.kl += kl, mine.kl_squares += kl * kl;
      mine.same_top += best == softmax.best ? 1U : 0U;
      ++mine.rows;
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::uint32_t t = 1; t < threads; ++t) others.emplace_back(work);
    work();
  }
  return out;
}

}  // namespace driftgate::bench
