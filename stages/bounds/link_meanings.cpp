#include <algorithm>
#include <array>

#include "stages/report/certificate.hpp"

namespace driftgate::stages {
namespace {

struct Meaning {
  std::string_view name, text;
};

constexpr std::array kMeanings = {
    Meaning{
        "span_log_ratio",
        "No token of a measured row is more than e to this power likelier under one kernel than under the "
        "other."},
    Meaning{"span_tv",
            "No measured row has a total variation above this, whatever the model: tanh(s/4) of the largest "
            "logit_span s, which is at most s/4."},
    Meaning{"span_kl", "No measured row has a KL divergence above this, in either direction: s²/8."},
    Meaning{"tv_measured",
            "The measured mean total variation, each sequence counting once: of this share of a sequence's "
            "tokens "
            "K_inf draws another one than K_train would, when the two are coupled as well as can be."},
    Meaning{"tv_upper",
            "What the mean total variation is at most, given the part of the distributions that the captures "
            "hold."},
    Meaning{"tv_from_kl",
            "What the mean KL divergence alone allows the mean total variation to be, by Pinsker's and by "
            "Bretagnolle and Huber's inequality."},
    Meaning{"head_tail",
            "As span_tv, without letting tokens of no mass set the span: the mass outside a head of likely "
            "tokens, plus the span inside it."},
    Meaning{"head_tail_mean", "The mean over rows of the same bound."},
    Meaning{"reward",
            "The expected reward of one token differs by no more than this between the kernels: the reward's "
            "range times the mean total variation."},
    Meaning{"reward_sequence",
            "The expected reward of a whole response differs by no more than this between the kernels."},
    Meaning{
        "sequence_tv",
        "Whole responses differ in distribution by at most this total variation: the sum over positions of "
        "their expected total variation."},
    Meaning{
        "sequence_kl",
        "The same from the KL divergence of whole responses, which adds up over positions: usually far the "
        "smaller."},
    Meaning{"sequence_sampled",
            "The same from the tokens that K_inf sampled, exactly: betting on (1 − W)⁺ of each response, "
            "whose mean is "
            "the total variation of whole responses."},
    Meaning{"sequence_best",
            "The best of these, which counts: the share of whole responses that another kernel would have "
            "written otherwise is at most this."},
    Meaning{
        "tv_sequence",
        "The total variation of whole responses itself, estimated without bias from the tokens that K_inf "
        "sampled: the mean of (1 − W)⁺ over responses, W being the product of their importance ratios. "
        "upper_exact is its limit by betting, which assumes nothing of how responses scatter."},
    Meaning{
        "sequence_sup_tv",
        "What it would be over max_tokens tokens if no reachable prefix were worse than the worst measured "
        "row: 1 − (1 − tv)^T."},
    Meaning{"sequence_sup_span", "The same from the largest span: (s/4)·√T."},
    Meaning{"support",
            "The largest mass that K_train gives to tokens which K_inf can all but not take; the bounds on "
            "policy gradients need it to be nothing."},
    Meaning{
        "policy_gradient",
        "A policy gradient computed from K_inf's tokens without correction is off by at most this, in norm "
        "and per token."},
    Meaning{"policy_gradient_clipped",
            "The same when each token is weighted by its importance ratio, clipped at is_clip: only what the "
            "clip cuts off is left. A clip of 0 corrects nothing."},
    Meaning{"policy_gradient_sequence", "The same without correction for the gradient of whole responses."},
    Meaning{
        "clip_room",
        "How far a policy update may move its own log-ratio before the PPO clip cuts it, the kernels' drift "
        "taken off; negative: the kernels alone exceed the clip."},
    Meaning{
        "inversion",
        "For authors of contracts: the largest logit_span on every reachable prefix that keeps the reward of "
        "a whole response within the tolerance."},
    Meaning{"filters",
            "Sampling filters break every bound above when they are applied before the comparison; captures "
            "taken after one are refused."},
};

}  // namespace

std::string_view link_meaning(std::string_view name) {
  const auto found = std::ranges::find(kMeanings, name, &Meaning::name);
  return found == kMeanings.end() ? std::string_view{} : found->text;
}

}  // namespace driftgate::stages
