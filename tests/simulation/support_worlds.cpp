#include "tests/simulation/support_worlds.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace driftgate::simulation {
namespace {

using Logits = std::span<float>;
using Set = std::vector<bool>;  ///< of tokens

constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Rounds to so many significant bits, ties to even: 8 bits are bf16, 11 are fp16.
double rounded(double value, int bits) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

std::vector<double> softmax(std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  std::vector<double> out(logits.size());
  double total = 0;
  for (std::size_t i = 0; i < out.size(); ++i) total += out[i] = std::exp(logits[i] - top);
  for (double& share : out) share /= total;
  return out;
}

/// Writes a capture row by row: `begin`, fill the logits, mark what is lost, `take`.
class Writer {
 public:
  Writer(std::uint64_t seed, std::uint32_t rows, std::uint32_t vocabulary) : random_(seed), rows_(rows) {
    out_.vocabulary = vocabulary;
    out_.train.reserve(std::size_t{rows} * vocabulary);
    out_.inf.reserve(std::size_t{rows} * vocabulary);
  }

  /// Starts a row, of a new sequence if the last one has `longest` rows; false when the capture is complete.
  bool begin(std::uint32_t longest) {
    if (out_.tokens.size() == rows_) return false;
    if (position_ >= longest) end_sequence();
    out_.sequences.push_back(sequence_);
    out_.positions.push_back(position_++);
    out_.train.resize(out_.train.size() + size());
    out_.inf.resize(out_.inf.size() + size());
    lost_.assign(size(), false);
    return true;
  }
  void end_sequence() { sequence_ += std::exchange(position_, 0) > 0; }
  /// Takes a token from the softmax of the row without the lost tokens.
  std::size_t take();

  std::size_t size() const { return out_.vocabulary; }
  Logits train() { return Logits(out_.train).last(size()); }
  Logits inf() { return Logits(out_.inf).last(size()); }
  Set& lost() { return lost_; }
  bool first() const { return position_ <= 1; }  ///< of its sequence
  std::int64_t sequence() const { return sequence_; }
  std::int64_t position() const { return position_ - 1; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double normal() { return normal_(random_); }
  std::mt19937_64& random() { return random_; }
  SupportCapture finish() { return std::move(out_); }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uint32_t rows_ = 0;
  std::int64_t sequence_ = 0, position_ = 0;
  Set lost_;
  SupportCapture out_;
};

std::size_t Writer::take() {
  std::vector<double> q = softmax(inf());
  if (std::ranges::find(lost_, true) != lost_.end()) {
    const std::vector<double> p = softmax(train());
    for (std::size_t i = 0; i < q.size(); ++i) {
      if (!lost_[i]) continue;
      out_.p_lost += p[i] / rows_;
      out_.q_lost += std::exchange(q[i], 0) / rows_;
    }
  }
  double left = uniform() * std::accumulate(q.begin(), q.end(), 0.0);
  std::size_t token = 0;
  for (std::size_t i = 0; i < q.size() && left >= 0; ++i) {
    if (q[i] > 0) token = i;
    left -= q[i];
  }
  out_.tokens.push_back(static_cast<std::int64_t>(token));
  return token;
}

/// The base logits follow Zipf's law; q's have normal noise on top of them, and p's a drift on top of q's.
struct Law {
  double exponent = 0, noise = 1, drift = 0.1;
  std::uint32_t longest = 100;  ///< rows of a sequence
  bool shuffled = true;         ///< else token ids are in the order of frequency
};

std::vector<double> zipf(Writer& to, double exponent, bool shuffled = true) {
  std::vector<double> out(to.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = -exponent * std::log(static_cast<double>(i + 1));
  if (shuffled) std::ranges::shuffle(out, to.random());
  return out;
}

void scatter(Writer& to, const std::vector<double>& base, double noise, double drift) {
  const Logits z = to.train(), y = to.inf();
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<float>(base[i] + noise * to.normal());
    z[i] = static_cast<float>(y[i] + drift * to.normal());
  }
}

/// Shifts the logits of the tokens in the set so that together they hold this mass.
void give_mass(Logits logits, const Set& set, double mass) {
  const std::vector<double> share = softmax(logits);
  double held = 0, rest = 0;
  for (std::size_t i = 0; i < share.size(); ++i) (set[i] ? held : rest) += share[i];
  const double shift = std::log(mass / (1 - mass) * rest / held);
  for (std::size_t i = 0; i < share.size(); ++i) {
    if (set[i]) logits[i] = static_cast<float>(logits[i] + shift);
  }
}

template <std::size_t first, std::size_t count>
Set tokens_from(Writer& of) {
  Set out(of.size());
  for (std::size_t i = 0; i < count; ++i) out[first + i] = true;
  return out;
}

template <std::size_t count>
Set some_tokens(Writer& of) {
  Set out = tokens_from<0, count>(of);
  std::shuffle(out.begin(), out.end(), of.random());
  return out;
}

/// All tokens of the row but one hold this mass of q, and of p up to a log-normal factor.
void sharpen(Writer& to, double rest, double drift) {
  const Set top = some_tokens<1>(to);
  give_mass(to.inf(), top, 1 - rest);
  give_mass(to.train(), top, 1 - rest * std::exp(drift * to.normal()));
}

using Change = void (*)(Writer&);

/// A capture of such rows, each of which is changed, or has tokens marked as lost.
template <std::uint32_t vocabulary, Law law, Change change>
SupportCapture plain(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, vocabulary);
  for (const auto base = zipf(to, law.exponent, law.shuffled); to.begin(law.longest); to.take()) {
    scatter(to, base, law.noise, law.drift);
    change(to);
  }
  return to.finish();
}

void lose_less_likely(Writer& to, float least) {
  for (std::size_t i = 0; i < to.size(); ++i) to.lost()[i] = to.inf()[i] < least;
}

template <double kept>
void top_p(Writer& to) {
  std::vector<float> sorted(to.inf().begin(), to.inf().end());
  std::ranges::sort(sorted, std::greater{});
  const std::vector<double> share = softmax(sorted);
  std::size_t last = 0;
  for (double held = share[0]; held < kept && last + 1 < share.size();) held += share[++last];
  lose_less_likely(to, sorted[last]);
}

template <std::size_t k>
void top_k(Writer& to) {
  std::vector<float> sorted(to.inf().begin(), to.inf().end());
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(k - 1), std::greater{});
  lose_less_likely(to, sorted[k - 1]);
}

// Worlds without loss.

void skew(Writer& to) {
  for (float& logit : to.train()) logit += static_cast<float>(0.4 * std::exp(to.normal()));
}

void late_training(Writer& to) {
  sharpen(to, std::pow(10, -1.5 - 5 * to.uniform()), 0.01);
  const std::size_t token = to.random()() % to.size();
  if (to.uniform() < 0.02) to.train()[token] += static_cast<float>(6 + 6 * to.uniform());
}

void replace_train(Writer& to) {
  for (float& logit : to.train()) logit = static_cast<float>(3 * to.normal());
}

void heavy_tails(Writer& to) {
  std::student_t_distribution<double> token(2);
  std::cauchy_distribution<double> drift(0, 0.02);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to.inf()[i] = static_cast<float>(token(to.random()));
    to.train()[i] = static_cast<float>(to.inf()[i] + drift(to.random()));
  }
}

void two_tokens(Writer& to) {
  for (const auto& [logits, rare] : {std::pair(to.inf(), 1.0 / 700), std::pair(to.train(), 0.1)}) {
    std::ranges::fill(logits, kMasked);
    logits[2] = 0;
    logits[5] = static_cast<float>(std::log(rare));
  }
}

/// All but one token can be masked, in both kernels.
void mask_some(Writer& to) {
  const double share = 0.5 + 0.5 * to.uniform();
  for (std::size_t i = 1; i < to.size(); ++i) {
    if (to.uniform() < share) to.inf()[i] = to.train()[i] = kMasked;
  }
}

/// Near 40 neighbours in bf16 are a quarter apart, so that ties and large ratios abound.
void round_near_40(Writer& to) {
  for (const Logits logits : {to.inf(), to.train()}) {
    for (float& logit : logits) logit = static_cast<float>(rounded(40.0 + logit, 8));
  }
}

/// The drift is that of the token, the same in all rows.
void drift_by_token(Writer& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to.train()[i] += static_cast<float>(std::sin(i));
}

/// The first response has half of all rows, others one, a few or hundreds; q is p at half the temperature.
SupportCapture uneven_lengths(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, 64);
  const std::vector<double> base = zipf(to, 1);
  for (std::uint32_t length = rows / 2; to.begin(length); to.take()) {
    if (to.first() && to.sequence() > 0) {
      length = static_cast<std::uint32_t>(std::min(500.0, 1 / (1 - to.uniform())));
    }
    scatter(to, base, 1, 0);
    for (float& logit : to.inf()) logit *= 2;
  }
  return to.finish();
}

/// Each token decides what follows; after one of them the kernels disagree to the end of the response, which
/// comes as soon as its tokens fit p a hundred times worse than q.
SupportCapture markov_chain(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, 16);
  std::vector<std::vector<double>> after(16);
  for (std::vector<double>& base : after) base = zipf(to, 1.5);
  double drift = 0, fit = 0;
  for (std::size_t token = 0; to.begin(300);) {
    if (to.first()) token = 0, drift = 0.2, fit = 0;
    scatter(to, after[token], 0.1, drift);
    token = to.take();
    if (token == 15) drift = 1;
    fit += std::log(softmax(to.train())[token] / softmax(to.inf())[token]);
    if (fit < -std::log(100)) to.end_sequence();
  }
  return to.finish();
}

/// Each token is taken once a response: its captured logits fall by 9, or the sampler alone loses it.
template <bool captured, std::uint32_t longest>
SupportCapture once_each(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, 100);
  const std::vector<double> base = zipf(to, 0.7);
  for (Set taken; to.begin(longest); taken[to.take()] = true) {
    if (to.first()) taken.assign(to.size(), false);
    scatter(to, base, 0.5, 0.1);
    if (!captured) to.lost() = taken;
    for (std::size_t i = 0; captured && i < to.size(); ++i) {
      if (taken[i]) to.inf()[i] -= 9, to.train()[i] -= 9;
    }
  }
  return to.finish();
}

/// Thirty tokens hold a third of p and this share of q.
template <double share>
SupportCapture nearly_lost(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, 100);
  const Set set = some_tokens<30>(to);
  for (const std::vector<double> base(to.size()); to.begin(64); to.take()) {
    scatter(to, base, 1.5, 0.1);
    give_mass(to.inf(), set, share);
    give_mass(to.train(), set, 0.33);
    if (share < 0x1p-126) to.lost() = set;  // nothing in float32
  }
  return to.finish();
}

// Worlds with loss.

/// The tokens of the set are never taken. They hold this mass on average, and up to 1.9 times as much.
template <std::uint32_t vocabulary, double exponent, Set (*choose)(Writer&), double mass, double drift = 0.1>
SupportCapture ban(std::uint64_t seed, std::uint32_t rows) {
  Writer to(seed, rows, vocabulary);
  const Set set = choose(to);
  for (const std::vector<double> base = zipf(to, exponent, false); to.begin(100); to.take()) {
    scatter(to, base, 0.7, drift);
    const double held = mass * (0.1 + 1.8 * to.uniform());
    give_mass(to.inf(), set, held);
    give_mass(to.train(), set, held);
    to.lost() = set;
  }
  return to.finish();
}

void top_p_one_in_four(Writer& to) {
  if (to.sequence() % 4 == 3) top_p<0.78>(to);
}

void late_min_p(Writer& to) {
  if (to.position() >= 100) lose_less_likely(to, *std::ranges::max_element(to.inf()) + std::log(0.003F));
}

void greedy_late(Writer& to) {
  sharpen(to, 0.08 * std::exp(-6.5 * to.uniform()), 0.05);
  top_k<1>(to);
}

/// A sampler that adds up probabilities in fp16 never takes a token that does not change the sum.
void fp16_sum(Writer& to) {
  const std::vector<double> q = softmax(to.inf());
  double sum = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double next = rounded(sum + q[i], 11);
    to.lost()[i] = sum == next;
    sum = next;
  }
}

/// The least positive number of fp8 (e4m3) is 2^-9; what is at most half of it becomes 0.
void fp8_underflow(Writer& to) {
  const std::vector<double> q = softmax(to.inf());
  for (std::size_t i = 0; i < q.size(); ++i) to.lost()[i] = q[i] <= 0x1p-10;
}

constexpr SupportWorld kWorlds[] = {
    {"skewed ratios", false, false, plain<100, Law{.noise = 2, .drift = 0}, skew>},
    {"late RL: nearly all mass on one token, rare large ratios", false, false,
     plain<1000, Law{.exponent = 1, .drift = 0.001}, late_training>},
    {"large drift: the kernels have nothing in common", false, false,
     plain<200, Law{.noise = 3}, replace_train>},
    {"heavy tails: Cauchy drift", false, false, plain<300, Law{}, heavy_tails>},
    {"two tokens unmasked, p gives 10% where q gives 1 in 700", false, false,
     plain<8, Law{.longest = 10}, two_tokens>},
    {"one prefix, repeated in every row", false, false,
     plain<50, Law{.exponent = 1.5, .noise = 0, .drift = 0, .longest = 1}, drift_by_token>},
    {"one response is half of the rows, q is p at half the temperature", false, false, uneven_lengths},
    {"each token decides what follows, responses end once they fit p badly", false, false, markov_chain},
    {"tokens that were taken lose their mass, also in the capture", false, false, once_each<true, 60>},
    {"a third of p's mass where q has 1 in 3,000", false, false, nearly_lost<1.0 / 3000>},
    {"1,000 tokens of about equal chance", false, false,
     plain<1000, Law{.noise = 0.1, .drift = 0.05}, [](Writer&) {}>},
    {"half of the tokens or more masked in both kernels", false, false,
     plain<300, Law{.exponent = 1, .drift = 0.2}, mask_some>},
    {"logits near 40 rounded to bf16", false, false, plain<500, Law{.noise = 2.5}, round_near_40>},

    {"a third of p's mass where q underflows float32", true, true, nearly_lost<1e-60>},
    {"top-p 0.945", true, true, plain<400, Law{.exponent = 1}, top_p<0.945>>},
    {"top-p 0.78 in one response of four", true, true,
     plain<200, Law{.exponent = 1, .longest = 50}, top_p_one_in_four>},
    {"top-k 58 of 1,000", true, true, plain<1000, Law{.exponent = 2}, top_k<58>>},
    {"one token of 8 banned, large drift", true, true, ban<8, 0.5, some_tokens<1>, 0.0115, 2.0>},
    {"five tokens of 1,000 banned", true, true, ban<1000, 1.0, some_tokens<5>, 0.053>},
    {"one shard of eight masked in the sampler", true, true, ban<800, 1.0, tokens_from<300, 100>, 0.053>},
    {"the last shard of eight, of the rarest tokens, masked in the sampler", true, true,
     ban<800, 1.0, tokens_from<700, 100>, 0.0115>},
    {"greedy decoding late in RL", true, true, plain<200, Law{.drift = 0.02}, greedy_late>},
    {"probabilities underflow in fp8", true, true, plain<1000, Law{.exponent = 1.66}, fp8_underflow>},
    {"probabilities added up in fp16", true, true,
     plain<1000, Law{.exponent = 1.7, .shuffled = false}, fp16_sum>},
    {"ten of 1,000 equally likely tokens banned (impossible to find)", true, false,
     ban<1000, 0.0, some_tokens<10>, 0.0115>},
    {"min-p 0.003 from position 100 on (hard to find)", true, false,
     plain<100, Law{.exponent = 1.5, .longest = 200}, late_min_p>},
    {"no token is taken twice in a response (hard to find)", true, false, once_each<false, 6>},
};

}  // namespace

std::span<const SupportWorld> support_worlds() {
  return kWorlds;
}

}  // namespace driftgate::simulation
