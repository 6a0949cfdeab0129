#include "gpu/partial/partial_top.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "gpu/partial/listed_masses.hpp"

namespace driftgate::gpu {

namespace {

/// Orders tokens by falling probability, ties by ascending id.
bool before(const ListedToken& a, const ListedToken& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
}

std::vector<ListedToken> in_order(std::span<const ListedToken> list) {
  std::vector<ListedToken> out(list.begin(), list.end());
  std::ranges::sort(out, before);
  return out;
}

/// The tokens of the list that are the most likely ones, most likely first. The target token is left out
/// where no other token is certainly less likely, since it may have been appended.
std::vector<ListedToken> most_likely(const PartialSide& side, std::optional<std::int64_t> token) {
  std::vector<ListedToken> out = in_order(side.list);
  if (out.empty() || !token) return out;
  const auto target = std::ranges::find(out, *token, &ListedToken::id);
  if (target == out.end()) return out;
  const double least = out.back().logprob, own = target->logprob;
  if (own - error_of(own, side.error) <= least + error_of(least, side.error)) out.erase(target);
  return out;
}

/// The tokens that may be the most likely one. `unnamed`: mass that a token outside the list may have.
struct Top {
  std::vector<std::int64_t> ids;
  bool other = false;  ///< a token outside the list may be the most likely one
};

Top top_of(const PartialInput& input, const PartialSide& side, double unnamed) {
  const bool top_list = input.mode == CaptureMode::topk;
  const std::vector<ListedToken> order = in_order(side.list);
  Top out;
  if (order.empty()) return {{}, true};
  const double top = order.front().logprob, sure = top - error_of(top, side.error);
  out.other = top_list
                  ? most_likely(side, input.token).empty()
                  : mass_of(top, side.error, normaliser_error(side.error, input.vocabulary)).lower <= unnamed;
  for (const ListedToken& token : order) {
    if (token.logprob + error_of(token.logprob, side.error) >= sure) out.ids.push_back(token.id);
  }
  return out;
}

/// Whether the last of the first k tokens is certainly more likely than the next one.
bool cut_is_sure(const PartialSide& side, const std::vector<ListedToken>& order, std::size_t k,
                 std::optional<std::int64_t> token) {
  if (order.size() < k || k == 0) return true;
  const double in = order[k - 1].logprob;
  const auto below = [&](const ListedToken& other) {
    return in - error_of(in, side.error) > other.logprob + error_of(other.logprob, side.error);
  };
  if (order.size() > k && !below(order[k])) return false;
  if (!token || order.size() == side.list.size()) return true;
  // The target token was left out of the order and may belong before the cut.
  const auto target = std::ranges::find(side.list, *token, &ListedToken::id);
  return target == side.list.end() || below(*target);
}

}  // namespace

double least_listed(const PartialInput& input, const PartialSide& side) {
  const std::vector<ListedToken> listed = most_likely(side, input.token);
  if (listed.empty()) return 1;
  const double normaliser = normaliser_error(side.error, input.vocabulary);
  return mass_of(listed.back().logprob, side.error, normaliser).upper;
}

std::vector<ListedToken> surely_listed(std::span<const ListedToken> list, const PartialInput& input) {
  std::vector<ListedToken> out = in_order(list);
  const bool full = input.mode == CaptureMode::topk && out.size() >= input.columns;
  if (full && !out.empty()) out.pop_back();
  std::ranges::sort(out, {}, &ListedToken::id);
  return out;
}

Interval top1_bounds(const PartialInput& input, double unnamed_train, double unnamed_inf) {
  const Top train = top_of(input, input.train, unnamed_train);
  const Top inf = top_of(input, input.inf, unnamed_inf);
  if (train.other || inf.other) return {0, 1};
  const bool meet = std::ranges::any_of(
      train.ids, [&](std::int64_t id) { return std::ranges::find(inf.ids, id) != inf.ids.end(); });
  const bool single = train.ids.size() == 1 && inf.ids.size() == 1;
  return {meet ? 0.0 : 1.0, meet && single ? 0.0 : 1.0};
}

Interval overlap_bounds(const PartialInput& input) {
  std::size_t k = input.top_k;
  if (input.vocabulary > 0) k = std::min<std::size_t>(k, input.vocabulary);
  std::vector<ListedToken> a = most_likely(input.train, input.token);
  std::vector<ListedToken> b = most_likely(input.inf, input.token);
  if (!cut_is_sure(input.train, a, k, input.token) || !cut_is_sure(input.inf, b, k, input.token)) {
    return {0, 1};
  }
  a.resize(std::min(a.size(), k));
  b.resize(std::min(b.size(), k));
  std::ranges::sort(a, {}, &ListedToken::id);
  std::ranges::sort(b, {}, &ListedToken::id);
  std::vector<ListedToken> common_tokens;
  std::ranges::set_intersection(a, b, std::back_inserter(common_tokens), {}, &ListedToken::id,
                                &ListedToken::id);
  const std::size_t common = common_tokens.size();
  // A free place of a short list may be taken by a token of the other list, or by one of neither.
  const std::size_t open = (k - a.size()) + (k - b.size());
  const auto whole = static_cast<double>(k);
  return {static_cast<double>(common) / whole, static_cast<double>(std::min(k, common + open)) / whole};
}

Interval margin_bounds(const PartialInput& input) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const PartialSide& side = input.train;
  if (most_likely(side, input.token).size() < 2) return {0, kInfinity};
  // The two largest of the lower bounds, and of the upper bounds.
  std::array<double, 2> least{-kInfinity, -kInfinity}, most = least;
  const auto offer = [](std::array<double, 2>& top, double value) {
    top[1] = std::max(top[1], std::min(top[0], value));
    top[0] = std::max(top[0], value);
  };
  for (const ListedToken& token : side.list) {
    const double slack = source_error_of(token.logprob, side.error);
    offer(least, token.logprob - slack);
    offer(most, token.logprob + slack);
  }
  return {std::max(0.0, least[0] - most[1]), most[0] - least[1]};
}

}  // namespace driftgate::gpu
