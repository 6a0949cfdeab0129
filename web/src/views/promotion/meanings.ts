// What each link of the bound chain means (docs/design/measurement.md, "The bound chain").

const MEANINGS: Record<string, string> = {
  span_log_ratio: 'No token of a measured row is more than e to this power likelier under one kernel than under the other.',
  span_tv: 'No measured row has a total variation above this, whatever the model: tanh(s/4) of the largest logit span s.',
  span_kl: 'No measured row has a KL divergence above this, in either direction: s²/8.',
  tv_measured:
    'The measured mean total variation, each sequence counting once: of this share of a sequence’s tokens the inference kernel draws another one than the training kernel would.',
  tv_upper: 'What the mean total variation is at most, given the part of the distributions that the captures hold.',
  tv_from_kl: 'What the mean KL divergence alone allows the mean total variation to be, by Pinsker’s and by Bretagnolle and Huber’s inequality.',
  head_tail: 'As span_tv, without letting tokens of no mass set the span: the mass outside a head of likely tokens, plus the span inside it.',
  head_tail_mean: 'The mean over rows of the same bound.',
  reward: 'The expected reward of one token differs by no more than this between the kernels: the reward’s range times the mean total variation.',
  reward_sequence: 'The expected reward of a whole response differs by no more than this between the kernels.',
  sequence_tv: 'Whole responses differ in distribution by at most this total variation: the sum over positions of their expected total variation.',
  sequence_kl: 'The same from the KL divergence of whole responses, which adds up over positions: usually far the smaller.',
  sequence_sampled: 'The same from the tokens that the inference kernel sampled, exactly: their mean of (1 − W)⁺ is the total variation of whole responses.',
  sequence_best: 'The best of these, which counts: the share of whole responses that another kernel would have written otherwise is at most this.',
  tv_sequence: 'The total variation of whole responses itself, estimated without bias from the tokens that the inference kernel sampled.',
  sequence_sup_tv: 'What it would be over max_tokens tokens if no reachable prefix were worse than the worst measured row: 1 − (1 − tv)^T.',
  sequence_sup_span: 'The same from the largest span: (s/4)·√T.',
  support: 'The largest mass that the training kernel gives to tokens which the inference kernel can all but not take; the bounds on policy gradients need it to be nothing.',
  policy_gradient: 'A policy gradient computed from the inference kernel’s tokens without correction is off by at most this, in norm and per token.',
  policy_gradient_clipped: 'The same when each token is weighted by its importance ratio, clipped at is_clip: only what the clip cuts off is left.',
  policy_gradient_sequence: 'The same without correction for the gradient of whole responses.',
  clip_room: 'How far a policy update may move its own log-ratio before the PPO clip cuts it, the kernels’ drift taken off; negative: the kernels alone exceed the clip.',
  inversion: 'For authors of contracts: the largest logit span on every reachable prefix that keeps the reward of a whole response within the tolerance.',
  filters: 'Sampling filters break every bound above when they are applied before the comparison; captures taken after one are refused.',
};

/** One sentence, '' for a link that this page does not know. */
export function linkMeaning(name: string): string {
  return MEANINGS[name] ?? '';
}
