// Every link of the bound chain against exact computation on random small distributions, sequences, rewards
// and gradients.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "stages/bounds/bounds.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Metric;

namespace {

constexpr std::uint64_t kSeed = 20260611;
constexpr int kTrees = 80'000, kRows = 20'000;
// Probabilities are good to 1e-16, so the differences of two that differ by 1e-6 of themselves to 1e-10.
constexpr double kRounding = 1e-9;

using Vector = std::array<double, 2>;
double norm(const Vector& v) {
  return std::hypot(v[0], v[1]);
}

/// e^x − 1 − x; by its series where that cancels.
double phi(double x) {
  if (std::abs(x) > 0.01) return std::expm1(x) - x;
  return x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5)));
}

/// One next-token distribution under both kernels, with everything that a token can be worth.
struct Node {
  std::vector<double> y, q, p, drift;  ///< q = softmax(y), p = softmax(y − drift)
  std::vector<double> log_ratio;       ///< log p − log q, also where both underflow
  std::vector<int> weight;             ///< q in units of 1/Σ weight; empty where q is arbitrary
  std::vector<double> reward, advantage;
  std::vector<Vector> score;
  double tv = 0, kl_pq = 0, kl_qp = 0, span = 0, head_tail = 1;
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}
  double uniform(double low = 0, double high = 1) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double normal() { return normal_(random_); }

  /// q is `weights` over their sum; z = log q − drift.
  Node node(const std::vector<int>& weights, double size) {
    Node out;
    out.weight = weights;
    double total = 0;
    for (const int w : weights) total += w;
    for (const int w : weights) out.y.push_back(std::log(w / total)), out.q.push_back(w / total);
    const bool two_sided = uniform() < 0.3;  // the drifts for which tanh(s/4) is tight
    for (std::size_t v = 0; v < weights.size(); ++v) {
      out.drift.push_back(size * (two_sided ? (integer(0, 1) == 0 ? -1.0 : 1.0) : normal()));
    }
    finish(out);
    return out;
  }
  /// Arbitrary logits.
  Node wild(std::size_t vocabulary, double spread, double size) {
    Node out;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      out.y.push_back(spread * normal());
      out.drift.push_back(size * normal());
    }
    out.q = softmax(out.y);
    finish(out);
    return out;
  }
  static std::vector<double> softmax(std::vector<double> x) {
    const double most = *std::ranges::max_element(x);
    double sum = 0;
    for (double& value : x) sum += value = std::exp(value - most);
    for (double& value : x) value /= sum;
    return x;
  }
  /// p = q·e^{−k·drift}, normalised.
  static std::vector<double> shifted(const Node& node, double k) {
    std::vector<double> z;
    for (std::size_t v = 0; v < node.y.size(); ++v) z.push_back(node.y[v] - k * node.drift[v]);
    return softmax(std::move(z));
  }

 private:
  void finish(Node& n) {
    n.p = shifted(n, 1);
    const double offset = offset_of(n);
    const auto [low, high] = std::ranges::minmax(n.drift);
    n.span = high - low;
    for (std::size_t v = 0; v < n.q.size(); ++v) {
      const double p = n.p[v], q = n.q[v];
      const double d = n.log_ratio.emplace_back(-n.drift[v] - offset);
      n.tv += std::abs(p - q) / 2;
      n.kl_pq += std::abs(d) > 1 ? q - p + p * d : p * phi(-d);
      n.kl_qp += std::abs(d) > 1 ? p - q - q * d : q * phi(d);
      n.reward.push_back(uniform());
      n.advantage.push_back(uniform(-1, 1));
      const double angle = uniform(0, 6.3), length = uniform();
      n.score.push_back({length * std::cos(angle), length * std::sin(angle)});
    }
    for (int i = 0; i < 3; ++i) n.head_tail = std::min(n.head_tail, head_bound(n, i == 0));
  }
  /// log Σ q·e^{−drift}.
  static double offset_of(const Node& n) {
    double sum = 0, far = 0, most_y = -HUGE_VAL, most_z = -HUGE_VAL;
    for (std::size_t v = 0; v < n.q.size(); ++v) {
      sum += n.q[v] * std::expm1(-n.drift[v]);
      far = std::max(far, std::abs(n.drift[v]));
      most_y = std::max(most_y, n.y[v]), most_z = std::max(most_z, n.y[v] - n.drift[v]);
    }
    if (far < 1) return std::log1p(sum);
    double l_y = 0, l_z = 0;
    for (std::size_t v = 0; v < n.q.size(); ++v)
      l_y += std::exp(n.y[v] - most_y), l_z += std::exp(n.y[v] - n.drift[v] - most_z);
    return (most_z + std::log(l_z)) - (most_y + std::log(l_y));
  }
  /// m + (1 − m)·tanh(s_H/4) of all tokens or of a random head.
  double head_bound(const Node& n, bool all) {
    double p_out = 0, q_out = 0, low = HUGE_VAL, high = -HUGE_VAL;
    for (std::size_t v = 0; v < n.q.size(); ++v) {
      if (all || uniform() < 0.6) {
        low = std::min(low, n.drift[v]), high = std::max(high, n.drift[v]);
      } else {
        p_out += n.p[v], q_out += n.q[v];
      }
    }
    const double m = std::min(1.0, std::max(p_out, q_out));
    return m + (1 - m) * (high > low ? std::tanh((high - low) / 4) : 0);
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

struct Limits {
  double reward_least = -1, reward_most = 1, advantage = 1, score = 1, clip = 0.2, is_clip = 0.5,
         tolerance = 0.1;
};

/// A model of T tokens: a node for each prefix, in the order of the prefixes.
struct Tree {
  std::size_t tokens = 1, vocabulary = 2;
  std::vector<std::vector<Node>> levels;
  struct Path {
    std::vector<std::size_t> choice;
    double p = 1, q = 1, reward = 0, advantage = 0;
    int weight = 1;
  };
  std::vector<Path> paths;
};

Tree make_tree(Maker& maker) {
  Tree tree;
  tree.tokens = static_cast<std::size_t>(maker.uniform() < 0.5 ? 1 : maker.uniform() < 0.8 ? 2 : 3);
  tree.vocabulary = static_cast<std::size_t>(maker.integer(2, tree.tokens == 1 ? 5 : 3));
  const int units = tree.tokens == 1 ? 8 : tree.tokens == 2 ? 4 : 3;
  const double size = std::pow(10, maker.uniform(-5, 0.7));
  tree.paths.resize(1);
  for (std::size_t t = 0; t < tree.tokens; ++t) {
    tree.levels.emplace_back();
    std::vector<Tree::Path> longer;
    for (const Tree::Path& prefix : tree.paths) {
      std::vector<int> weights(tree.vocabulary, 1);
      for (int i = static_cast<int>(tree.vocabulary); i < units; ++i)
        ++weights[static_cast<std::size_t>(maker.integer(0, static_cast<int>(tree.vocabulary) - 1))];
      const Node& node = tree.levels.back().emplace_back(maker.node(weights, size));
      for (std::size_t v = 0; v < tree.vocabulary; ++v) {
        Tree::Path path = prefix;
        path.choice.push_back(v);
        path.p *= node.p[v], path.q *= node.q[v];
        path.weight *= weights[v];
        longer.push_back(std::move(path));
      }
    }
    tree.paths = std::move(longer);
  }
  const bool adverse = maker.uniform() < 0.5;  // the rewards and advantages for which tv is the exact gap
  for (Tree::Path& path : tree.paths) {
    path.reward = adverse ? (path.p > path.q ? 1 : 0) : maker.uniform();
    path.advantage = adverse ? (path.p > path.q ? 1 : -1) : maker.uniform(-1, 1);
  }
  return tree;
}

/// Index of the node at depth t on the way of `path` among those of its level.
std::size_t node_at(const Tree& tree, const Tree::Path& path, std::size_t t) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < t; ++i) at = at * tree.vocabulary + path.choice[i];
  return at;
}

void add_row(gpu::SequenceRow& row, const Node& node, std::size_t token, const Limits& limits) {
  ++row.rows;
  row.metrics[make::at(Metric::tv)].add(node.tv);
  row.metrics[make::at(Metric::logit_span)].add(node.span);
  row.metrics[make::at(Metric::kl_train_inf)].add(node.kl_pq);
  row.metrics[make::at(Metric::kl_inf_train)].add(node.kl_qp);
  row.metrics[make::at(Metric::nonfinite)].add(0);
  row.head_tail_tv.add(node.head_tail);
  row.metrics[make::at(Metric::log_ratio)].add(node.log_ratio[token]);
  ++row.target.n;
  row.target.log_w += node.log_ratio[token];
  row.target.excess_is_clip += std::max(0.0, std::abs(std::expm1(node.log_ratio[token])) - limits.is_clip);
  row.target.min_log_q = std::min(row.target.min_log_q, std::log(node.q[token]));
}

gpu::MeasurementTable empty_table(std::size_t vocabulary, const Limits& limits) {
  gpu::MeasurementTable table;
  table.vocabulary = static_cast<std::uint32_t>(vocabulary);
  table.has_tokens = true;
  table.is_clip = limits.is_clip;
  table.inf.kernel = table.inf.token_source = table.train.token_source = "k";
  return table;
}

/// Rollouts of K_inf in exactly their proportions: the table's means are the expectations.
gpu::MeasurementTable population(const Tree& tree, const Limits& limits) {
  gpu::MeasurementTable table = empty_table(tree.vocabulary, limits);
  for (const Tree::Path& path : tree.paths) {
    gpu::SequenceRow row;
    for (std::size_t t = 0; t < tree.tokens; ++t)
      add_row(row, tree.levels[t][node_at(tree, path, t)], path.choice[t], limits);
    for (int i = 0; i < path.weight; ++i) {
      row.sequence = static_cast<std::int64_t>(table.sequences.size());
      table.sequences.push_back(row);
      table.infos.emplace_back().sequence = row.sequence;
    }
  }
  return table;
}

schema::Assumptions assumptions_of(const Tree& tree, const Limits& limits) {
  schema::Assumptions out;
  out.reward = schema::Assumptions::Reward{limits.reward_least, limits.reward_most};
  out.policy = schema::Assumptions::Policy{limits.advantage, limits.score, limits.clip, limits.is_clip};
  out.max_tokens = static_cast<std::uint32_t>(tree.tokens);
  return out;
}

/// Compares exact figures with the links of one chain and counts what it compared.
class Judge {
 public:
  Judge(const BoundChain& chain, std::map<std::string, int>& counts) : chain_(chain), counts_(counts) {}
  double value(const std::string& name) {
    ++counts_[name];
    const auto link = std::ranges::find(chain_.links, name, &BoundLink::name);
    if (link == chain_.links.end() || !link->value) {
      FAIL("no link ", name);
      return 0;
    }
    return *link->value;
  }
  void at_most(double exact, const std::string& name) {
    const double bound = value(name);
    CAPTURE(name);
    if (!(exact <= bound * (1 + kRounding) + kRounding * 1e-3)) REQUIRE(exact <= bound);
  }

 private:
  const BoundChain& chain_;
  std::map<std::string, int>& counts_;
};

/// Links 1, 2, 6 and the support check on one distribution.
void judge_node(const Node& node, const Limits& limits, Judge& judge, Maker& maker) {
  double underflows = 0;
  for (std::size_t v = 0; v < node.q.size(); ++v) {
    if (node.q[v] < 0x1p-126) underflows += node.p[v];
    judge.at_most(std::abs(node.log_ratio[v]), "span_log_ratio");
  }
  judge.at_most(node.tv, "span_tv");
  judge.at_most(std::tanh(node.span / 4), "span_tv");
  judge.at_most(std::max(node.kl_pq, node.kl_qp), "span_kl");
  judge.at_most(node.tv, "head_tail");
  judge.at_most(underflows, "support");
  // A policy's own log-ratio u inside the budget leaves the whole ratio inside the clip.
  const double low = std::log1p(-limits.clip) + node.span, high = std::log1p(limits.clip) - node.span;
  const double room = judge.value("clip_room");
  if (low > high) return;
  REQUIRE(room <= high + kRounding);
  for (const double u : {low, high, maker.uniform(low, high)}) {
    for (std::size_t v = 0; v < node.q.size(); ++v) {
      for (const double sign : {-1.0, 1.0}) {
        const double ratio = std::exp(u + sign * node.log_ratio[v]);
        REQUIRE(ratio >= 1 - limits.clip - kRounding);
        REQUIRE(ratio <= 1 + limits.clip + kRounding);
      }
    }
  }
}

/// Links 1 (from KL), 2 (mean), 3 and 5 per token: expectations over prefixes that K_inf samples.
void judge_tokens(const Tree& tree, const Limits& limits, Judge& judge) {
  double tv = 0, reward = 0;
  Vector plain{}, clipped{};
  for (const Tree::Path& path : tree.paths) {
    for (std::size_t t = 0; t < tree.tokens; ++t) {
      const Node& node = tree.levels[t][node_at(tree, path, t)];
      const double share = path.q / static_cast<double>(tree.tokens);
      tv += share * node.tv;
      for (std::size_t v = 0; v < tree.vocabulary; ++v) {
        const double p = node.p[v], q = node.q[v], w = p / q;
        const double range = limits.reward_most - limits.reward_least;
        reward += share * (p - q) * (limits.reward_least + range * node.reward[v]);
        const double cut = std::clamp(w, 1 - limits.is_clip, 1 + limits.is_clip);
        const double advantage = limits.advantage * node.advantage[v];
        for (std::size_t i = 0; i < plain.size(); ++i) {
          const double gradient = advantage * limits.score * node.score[v][i];
          plain[i] += share * (q - p) * gradient;
          clipped[i] += share * q * (cut - w) * gradient;
        }
      }
    }
  }
  judge.at_most(tv, "tv_measured");
  judge.at_most(tv, "tv_from_kl");
  judge.at_most(tv, "head_tail_mean");
  judge.at_most(std::abs(reward), "reward");
  judge.at_most(norm(plain), "policy_gradient");
  judge.at_most(norm(clipped), "policy_gradient_clipped");
}

/// Probability of each path when every drift is `k` times what it is.
std::vector<double> path_probabilities(const Tree& tree, double k) {
  std::vector<double> out(1, 1.0);
  for (const auto& level : tree.levels) {
    std::vector<double> longer;
    for (std::size_t i = 0; i < level.size(); ++i) {
      for (const double p : Maker::shifted(level[i], k)) longer.push_back(out[i] * p);
    }
    out = std::move(longer);
  }
  return out;
}

/// Links 3, 4, 5 and 7 for whole sequences.
void judge_sequences(const Tree& tree, const Limits& limits, Judge& judge) {
  double tv = 0, reward = 0, span = 0;
  Vector bias{};
  const double range = limits.reward_most - limits.reward_least;
  for (const Tree::Path& path : tree.paths) {
    tv += std::abs(path.p - path.q) / 2;
    reward += (path.p - path.q) * (limits.reward_least + range * path.reward);
    for (std::size_t t = 0; t < tree.tokens; ++t) {
      const Node& node = tree.levels[t][node_at(tree, path, t)];
      span = std::max(span, node.span);
      for (std::size_t i = 0; i < bias.size(); ++i)
        bias[i] += (path.q - path.p) * limits.advantage * path.advantage * limits.score *
                   node.score[path.choice[t]][i];
    }
  }
  for (const char* name :
       {"sequence_tv", "sequence_kl", "sequence_best", "sequence_sup_tv", "sequence_sup_span"})
    judge.at_most(tv, name);
  // This one is no bound: its expectation is the total variation itself.
  const double estimated = judge.value("tv_sequence");
  if (!(std::abs(estimated - tv) <= kRounding)) REQUIRE(estimated == tv);
  judge.at_most(std::abs(reward), "reward_sequence");
  judge.at_most(norm(bias), "policy_gradient_sequence");
  // Drifts scaled to the largest span that link 7 allows keep the worst reward within its tolerance.
  const double allowed = judge.value("inversion");
  if (span == 0) return;
  double worst = 0;
  const auto probabilities = path_probabilities(tree, allowed / span);
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    worst += range * std::abs(probabilities[i] - tree.paths[i].q) / 2;
  if (!(worst <= limits.tolerance + kRounding)) REQUIRE(worst <= limits.tolerance);
}

Limits random_limits(Maker& maker) {
  Limits out;
  out.reward_least = maker.uniform(-2, 0);
  out.reward_most = out.reward_least + maker.uniform(0.01, 3);
  out.advantage = maker.uniform(0.1, 3);
  out.score = maker.uniform(0.1, 10);
  out.clip = maker.uniform(0.01, 0.9);
  out.is_clip = maker.uniform() < 0.2 ? 0 : std::pow(10, maker.uniform(-4, 0.5));
  out.tolerance = maker.uniform(0.001, 1);
  return out;
}

}  // namespace

TEST_CASE("no link of the chain is below what it bounds, in 100,000 random small worlds") {
  CAPTURE(kSeed);
  Maker maker(kSeed);
  std::map<std::string, int> counts;
  for (int i = 0; i < kTrees; ++i) {
    CAPTURE(i);
    const Tree tree = make_tree(maker);
    const Limits limits = random_limits(maker);
    const auto table = population(tree, limits);
    const BoundChain chain = bound_values(table, assumptions_of(tree, limits), {}, limits.tolerance);
    REQUIRE(chain.refused.empty());
    Judge judge(chain, counts);
    for (const auto& level : tree.levels) {
      for (const Node& node : level) judge_node(node, limits, judge, maker);
    }
    judge_tokens(tree, limits, judge);
    judge_sequences(tree, limits, judge);
  }
  for (int i = 0; i < kRows; ++i) {
    CAPTURE(i);
    const Limits limits = random_limits(maker);
    const auto vocabulary = static_cast<std::size_t>(maker.integer(2, 40));
    const Node node =
        maker.wild(vocabulary, std::pow(10, maker.uniform(-1, 2.2)), std::pow(10, maker.uniform(-6, 2)));
    auto table = empty_table(vocabulary, limits);
    add_row(table.sequences.emplace_back(), node, 0, limits);
    table.infos.emplace_back();
    Tree tree;
    const BoundChain chain = bound_values(table, assumptions_of(tree, limits), {});
    REQUIRE(chain.refused.empty());
    Judge judge(chain, counts);
    judge_node(node, limits, judge, maker);
  }
  const std::map<std::string, int> least = {{"span_log_ratio", 100'000},
                                            {"span_tv", 100'000},
                                            {"span_kl", 100'000},
                                            {"head_tail", 100'000},
                                            {"support", 100'000},
                                            {"clip_room", 100'000},
                                            {"tv_measured", kTrees},
                                            {"tv_from_kl", kTrees},
                                            {"head_tail_mean", kTrees},
                                            {"reward", kTrees},
                                            {"policy_gradient", kTrees},
                                            {"policy_gradient_clipped", kTrees},
                                            {"sequence_tv", kTrees},
                                            {"sequence_kl", kTrees},
                                            {"sequence_best", kTrees},
                                            {"tv_sequence", kTrees},
                                            {"sequence_sup_tv", kTrees},
                                            {"sequence_sup_span", kTrees},
                                            {"reward_sequence", kTrees},
                                            {"policy_gradient_sequence", kTrees},
                                            {"inversion", kTrees}};
  for (const auto& [name, wanted] : least) {
    CAPTURE(name);
    CHECK(counts[name] >= wanted);
  }
}

TEST_CASE("a clip of zero is the biased estimator, and one beyond every ratio has no bias") {
  Maker maker(kSeed + 1);
  const Tree tree = make_tree(maker);
  double largest = 0, expected = 0;
  for (const Tree::Path& path : tree.paths) {
    for (std::size_t t = 0; t < tree.tokens; ++t) {
      const Node& node = tree.levels[t][node_at(tree, path, t)];
      const double off = std::abs(node.p[path.choice[t]] / node.q[path.choice[t]] - 1);
      largest = std::max(largest, off);
      expected += path.q * off / static_cast<double>(tree.tokens);
    }
  }
  const auto clipped_at = [&](double is_clip) {
    Limits limits;
    limits.is_clip = is_clip;
    const auto table = population(tree, limits);
    const BoundChain chain = bound_values(table, assumptions_of(tree, limits), {});
    return *std::ranges::find(chain.links, "policy_gradient_clipped", &BoundLink::name)->value;
  };
  CHECK(clipped_at(0) == doctest::Approx(expected).epsilon(1e-9));
  CHECK(clipped_at(0) > 0);
  CHECK(clipped_at(largest * (1 + kRounding)) == 0);
}

TEST_CASE("a top-k filter before the comparison breaks the links, so such a capture has no certificate") {
  // Before the filter the kernels all but agree; the second and third tokens change places at its edge.
  const std::vector<double> p = {0.5, 0.2501, 0.2499}, q = {0.5, 0.2499, 0.2501};
  double span = 0, tv_before = 0;
  for (std::size_t v = 0; v < 3; ++v) {
    span = std::max(span, 2 * std::abs(std::log(p[v] / q[v])));
    tv_before += std::abs(p[v] - q[v]) / 2;
  }
  const double kept_p = p[0] + p[1], kept_q = q[0] + q[2];
  const double tv_after = (std::abs(p[0] / kept_p - q[0] / kept_q) + p[1] / kept_p + q[2] / kept_q) / 2;
  CHECK(tv_before <= std::tanh(span / 4));
  CHECK(tv_after > 100 * std::tanh(span / 4));
  auto table = make::table();
  for (int i = 0; i < 60; ++i) make::append(table, {});
  CHECK(bound_chain(table, {}, {}, 0.05, 1).refused.empty());
  table.inf.sampling_filter = "top_k=2";
  const BoundChain chain = bound_chain(table, {}, {}, 0.05, 1);
  CHECK(chain.links.empty());
  CHECK(chain.refused.find("top_k=2") != std::string::npos);
}

TEST_CASE("the limits of the tv of whole sequences hold it in an enumerated world, exactly known") {
  Maker maker(kSeed + 3);
  // Trees in which responses of any weight can be drawn, with a tv of some percent.
  Tree tree = make_tree(maker);
  const auto exact_tv = [](const Tree& of) {
    double tv = 0;
    for (const Tree::Path& path : of.paths) tv += std::abs(path.p - path.q) / 2;
    return tv;
  };
  while (exact_tv(tree) < 0.02 || exact_tv(tree) > 0.2 || tree.paths.size() < 8) tree = make_tree(maker);
  const double tv = exact_tv(tree);
  const Limits limits = random_limits(maker);
  const auto all = population(tree, limits);
  constexpr int kRuns = 200;
  constexpr int kResponses = 200;
  constexpr double kAlpha = 0.05;
  int above = 0;
  int below = 0;
  int exact_below = 0;
  double sum = 0;
  for (int run = 0; run < kRuns; ++run) {
    auto table = empty_table(tree.vocabulary, limits);
    for (int i = 0; i < kResponses; ++i) {
      table.sequences.push_back(
          all.sequences[static_cast<std::size_t>(maker.integer(0, static_cast<int>(all.sequences.size()) - 1))]);
      table.sequences.back().sequence = i;
      table.infos.emplace_back().sequence = i;
    }
    const BoundChain chain = bound_chain(table, {}, {}, kAlpha, static_cast<std::uint64_t>(run));
    const auto link = std::ranges::find(chain.links, "tv_sequence", &BoundLink::name);
    REQUIRE(link != chain.links.end());
    REQUIRE(link->upper.has_value());
    sum += *link->value;
    below += *link->upper < tv ? 1 : 0;
    above += link->inputs.at("lower") > tv ? 1 : 0;
    exact_below += link->inputs.at("upper_exact") < tv ? 1 : 0;
  }
  const double slack = 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns);
  MESSAGE("tv " << tv << ", mean estimate " << sum / kRuns << ", upper limits below it " << below << ", exact ones "
                << exact_below << ", lower limits above it " << above << " of " << kRuns);
  CHECK(sum / kRuns == doctest::Approx(tv).epsilon(0.05));
  CHECK(exact_below <= kRuns * (kAlpha + slack));
  CHECK(below <= kRuns * (kAlpha + slack));
  CHECK(above <= kRuns * (kAlpha + slack));
}
