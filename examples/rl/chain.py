"""What the chain of bounds speaks of, computed without it: the true bias of a policy gradient and the true gap of a
reward, exactly over the 257 tokens that may follow a prefix, and by paired samples for whole responses. numpy only.

The score of a token a after a prefix is the gradient of log p_a: with respect to the logits e_a - p, with respect to the
head (logits = W h) the matrix (e_a - p) h^T. Its Frobenius norm is |e_a - p| |h| <= sqrt(2) |h|, and h leaves an RMS norm,
so that |h| <= sqrt(width) max |gamma|: a score norm that is bounded by construction.
"""
import dataclasses

import numpy as np

Z95 = 1.959964


def softmax(logits):
    z = logits.astype(np.float64)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def score_norm_max(norm_weight):
    """sqrt(2) sqrt(width) max |gamma|: no score of the head can be larger, whatever the prefix and the token."""
    return float(np.sqrt(2 * norm_weight.size) * np.abs(norm_weight.astype(np.float64)).max())


def tv(p, q):
    return 0.5 * np.abs(p - q).sum(-1)


def row_bias(p, q, advantages):
    """[rows, tokens]: E_q[A score] - E_p[A score] of each prefix with respect to its logits; advantages [rows, tokens]."""
    weighted = (q - p) * advantages
    return weighted - p * weighted.sum(-1, keepdims=True)


def row_bias_clipped(p, q, advantages, clip):
    """The same when each sample is weighted by p/q, clipped to [1 - clip, 1 + clip]. Where q is 0 nothing is sampled."""
    kept = np.clip(p, (1 - clip) * q, (1 + clip) * q)
    return row_bias(p, kept, advantages)


def clip_excess(p, q, clip):
    """E_q(|w - 1| - clip)+ of each prefix: what link 5 says of clipped ratios, exactly."""
    return np.maximum(np.abs(p - q) - clip * q, 0).sum(-1)


def worst_row_bias(p, q, iterations=4):
    """A large |bias| over all advantages in [-1, 1], by alternating between a direction and the signs that suit it.
    It starts from the signs of q - p, so it is at most a little below the largest."""
    delta = q - p
    signs = np.sign(delta)
    best = np.zeros(len(delta))
    for _ in range(iterations):
        bias = row_bias(p, q, signs)
        best = np.maximum(best, np.linalg.norm(bias, axis=-1))
        signs = np.sign(delta * (bias - (p * bias).sum(-1, keepdims=True)))
    return best


def mean_head_bias(bias, hidden, weights):
    """|sum over prefixes of weight bias h^T|: the bias of the head's gradient, a token a prefix, prefixes as they are."""
    return float(np.linalg.norm((bias * weights[:, None]).T @ hidden.astype(np.float64)))


def response_gradients(p, tokens, hidden, weights, starts):
    """[responses, vocabulary, width] float32: sum over a response's rows of weight (e_token - p) h^T.
    Rows of response i are starts[i] to starts[i + 1]."""
    score = -p.astype(np.float32)
    score[np.arange(len(tokens)), tokens] += 1
    score *= np.asarray(weights, np.float32)[:, None]
    hidden = hidden.astype(np.float32)
    return np.stack([score[a:b].T @ hidden[a:b] for a, b in zip(starts[:-1], starts[1:])])


@dataclasses.dataclass
class Interval:
    """An estimate with a 95% interval of a figure that is not negative."""
    value: float
    low: float
    high: float


def norm_of_mean(squares, dots, total_square):
    """|E D| from n independent vectors D_i, given |D_i|^2, <D_i, S> and |S|^2 with S their sum.

    |S/n|^2 is too large by the noise; the mean of <D_i, D_j> over i != j is not. Its standard error is the jackknife's.
    """
    n = len(squares)
    unbiased = (total_square - squares.sum()) / (n * (n - 1))
    without = (total_square - 2 * dots + squares) - (squares.sum() - squares)
    without = without / ((n - 1) * (n - 2))
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    root = lambda x: float(np.sqrt(max(x, 0.0)))
    return Interval(root(unbiased), root(unbiased - Z95 * error), root(unbiased + Z95 * error))


def difference_of_gradients(first, second):
    """|E first - E second| from gradients [n, …] of n pairs that share their random numbers."""
    d = (first - second).reshape(len(first), -1)
    total = d.sum(0, dtype=np.float64)
    squares = np.einsum("ij,ij->i", d, d, dtype=np.float64)
    return norm_of_mean(squares, d @ total, float(total @ total))


def reward_gap(of_inf, of_train):
    """|E_p R - E_q R| from pairs that share their random numbers, with the interval of the paired difference."""
    difference = np.asarray(of_train, np.float64) - np.asarray(of_inf, np.float64)
    mean = float(difference.mean())
    error = Z95 * float(difference.std(ddof=1)) / np.sqrt(len(difference))
    return Interval(abs(mean), max(0.0, abs(mean) - error), abs(mean) + error)
