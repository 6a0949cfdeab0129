"""One look at a policy: what driftgate bounds, beside what is true. numpy only; K_train's logits and hidden states
are handed in, so that any program may be the training kernel."""
import numpy as np

import chain

ADVANTAGE_MAX = 1.0
IS_CLIP = 1.0
LEAST = 1e-9  # a bias below this is rounding, and no ratio is taken


def ratio(bound, truth):
    return None if bound is None or truth is None or truth < LEAST else bound / truth


def interval(figure):
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def least_ratio(bound, truth):
    """Smallest and median bound / truth over rows."""
    at = truth > LEAST
    if not at.any():
        return None, None
    ratios = bound[at] / truth[at]
    return float(ratios.min()), float(np.median(ratios))


def token_horizon(report, rollouts, logits, hidden, reward, baseline, score_norm_max):
    """Per prefix, exactly over all tokens that may follow it, and the mean over the prefixes of the rollouts."""
    p, q = chain.softmax(logits), chain.softmax(rollouts.logits)
    earns = reward.of_candidates(rollouts.before)
    norm = np.linalg.norm(hidden.astype(np.float64), axis=-1)
    row_tv = np.zeros(len(p)) if report.refused else report.row_tv
    bound = 2 * ADVANTAGE_MAX * score_norm_max * row_tv
    own = chain.row_bias(p, q, earns - baseline)
    truths = {"token": np.linalg.norm(own, axis=-1) * norm, "worst": chain.worst_row_bias(p, q) * norm}
    full = np.flatnonzero(np.diff(rollouts.starts) == rollouts.tokens.shape[1] - rollouts.prompt_length)
    last = rollouts.starts[full + 1] - 1
    before = rollouts.sums(reward.of_tokens(rollouts.before, rollouts.token))[full] - earns[last, rollouts.token[last]]
    total = (before[:, None] + earns[last]) / (rollouts.tokens.shape[1] - rollouts.prompt_length)
    response = np.linalg.norm(chain.row_bias(p[last], q[last], total - baseline), axis=-1) * norm[last]
    out = {"rows": len(p), "tv_mean": float(chain.tv(p, q).mean())}
    for name, truth, of in (("token", truths["token"], bound), ("worst", truths["worst"], bound), ("response", response, bound[last])):
        out[f"row_least_{name}"], out[f"row_median_{name}"] = (None, None) if report.refused else least_ratio(of, truth)
    if not report.refused:
        out["tv_largest_difference"] = float(np.abs(chain.tv(p, q) - row_tv).max())
        gap = np.abs(((p - q) * earns).sum(-1))
        out["row_least_reward"], out["row_median_reward"] = least_ratio(row_tv, gap)
    clipped = chain.row_bias_clipped(p, q, earns - baseline, IS_CLIP)
    # The product's token links count each response once, its link on clipped ratios each token.
    once = (1 / np.diff(rollouts.starts) / len(rollouts.sequences))[rollouts.owner]
    out["bias"] = chain.mean_head_bias(own, hidden, once)
    out["bias_clipped"] = chain.mean_head_bias(clipped, hidden, np.full(len(p), 1 / len(p)))
    out["gradient"] = chain.mean_head_bias(chain.row_bias(np.zeros_like(p), p, earns - baseline), hidden, once)
    out["clip_excess_exact"] = float(ADVANTAGE_MAX * score_norm_max * chain.clip_excess(p, q, IS_CLIP).mean())
    out["reward_gap"] = float(abs((((p - q) * earns).sum(-1) * once).sum()))
    out["p_mass_outside_q"] = float((p * (q == 0)).sum(-1).mean())
    return out


def sequence_horizon(of_inf, of_train, inf_scores, train_scores, inf_rewards, train_rewards, baseline):
    """Whole responses: K_inf's against K_train's own, from pairs that share their random numbers.

    `of_train` are rollouts of tinylm's f32 kernel, whose distributions are K_train's but for roundings; each is weighted
    by its ratio, so that the expectation is K_train's exactly."""
    def sums(rollouts, logits, rewards, hidden, correct=None):
        p = chain.softmax(logits)
        weights = (rewards - baseline)[rollouts.owner]
        if correct is not None:
            weights = weights * correct
        return chain.response_gradients(p, rollouts.token, hidden, weights, rollouts.starts)

    def log_ratio(rollouts, logits):
        rows = np.arange(len(rollouts.token))
        return np.log(chain.softmax(logits)[rows, rollouts.token]) - np.log(chain.softmax(rollouts.logits)[rows, rollouts.token])

    train_weight = np.exp(of_train.sums(log_ratio(of_train, train_scores[0])))
    train = sums(of_train, train_scores[0], train_rewards, train_scores[1], train_weight[of_train.owner])
    plain = sums(of_inf, inf_scores[0], inf_rewards, inf_scores[1])
    token_ratio = np.clip(np.exp(log_ratio(of_inf, inf_scores[0])), 1 - IS_CLIP, 1 + IS_CLIP)
    corrected = sums(of_inf, inf_scores[0], inf_rewards, inf_scores[1], token_ratio)
    return {"pairs": len(inf_rewards), "weight_furthest_from_1": float(np.abs(train_weight - 1).max()),
            "bias": interval(chain.difference_of_gradients(plain, train)),
            "bias_corrected": interval(chain.difference_of_gradients(corrected, train)),
            "gradient": interval(chain.difference_of_gradients(train, np.zeros_like(train))),
            "reward_gap": interval(chain.reward_gap(inf_rewards, train_rewards * train_weight)),
            "reward_inf": float(inf_rewards.mean()), "reward_train": float((train_rewards * train_weight).mean()),
            "different": float(np.mean([not np.array_equal(a, b) for a, b in zip(of_inf.tokens, of_train.tokens)]))}


LINKS = ("tv_measured", "tv_from_kl", "sequence_best", "reward", "reward_sequence", "policy_gradient", "policy_gradient_clipped",
         "policy_gradient_sequence", "support")


def bounds(report):
    """The links that the comparison needs, as the product gave them."""
    if report.refused:
        return {"refused": report.refused}
    return {name: {"value": report.bound(name), "upper": report.bound(name, "upper"), "status": report.links[name]["status"]}
            for name in LINKS if name in report.links}


def ratios(report, token, sequence):
    """Bound over truth; for whole responses over the lower end of the truth's interval too."""
    out = {"reward": ratio(report.bound("reward"), token["reward_gap"]),
           "policy_gradient": ratio(report.bound("policy_gradient"), token["bias"]),
           "policy_gradient_clipped": ratio(report.bound("policy_gradient_clipped", "upper"), token["bias_clipped"])}
    if sequence is not None:
        for link, truth in (("reward_sequence", "reward_gap"), ("policy_gradient_sequence", "bias")):
            out[link] = ratio(report.bound(link), sequence[truth]["value"])
            out[link + "_low"] = ratio(report.bound(link), sequence[truth]["low"])
    return out
