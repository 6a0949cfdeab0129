#!/usr/bin/env python3
"""The true biases that examples/rl compares bounds with, each against its definition written out."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["DRIFTGATE_ROOT"]) / "examples" / "rl"))
try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed (apt-get install python3-numpy)")
    sys.exit(77)
import chain  # noqa: E402
import rewards  # noqa: E402


def worlds(count, tokens=7, seed=1):
    rng = np.random.default_rng(seed)
    draw = lambda: chain.softmax(rng.normal(0, 2, (count, tokens)))
    return draw(), draw(), rng.uniform(-1, 1, (count, tokens))


def bias_by_hand(p, kept, advantages):
    """sum_a (kept_a - p_a) A_a (e_a - p), token by token."""
    out = np.zeros(len(p))
    for a in range(len(p)):
        score = -p.copy()
        score[a] += 1
        out += (kept[a] - p[a]) * advantages[a] * score
    return out


class Rows(unittest.TestCase):
    def test_bias_is_the_difference_of_the_two_expected_gradients(self):
        p, q, advantages = worlds(20)
        found = chain.row_bias(p, q, advantages)
        for i in range(20):
            np.testing.assert_allclose(found[i], bias_by_hand(p[i], q[i], advantages[i]), atol=1e-14)

    def test_clipped_ratios_weigh_the_samples_of_the_inference_kernel(self):
        p, q, advantages = worlds(20, seed=2)
        found = chain.row_bias_clipped(p, q, advantages, 0.5)
        for i in range(20):
            kept = q[i] * np.clip(p[i] / q[i], 0.5, 1.5)
            np.testing.assert_allclose(found[i], bias_by_hand(p[i], kept, advantages[i]), atol=1e-14)
            excess = (q[i] * np.maximum(np.abs(p[i] / q[i] - 1) - 0.5, 0)).sum()
            self.assertAlmostEqual(chain.clip_excess(p, q, 0.5)[i], excess, places=12)

    def test_no_bias_exceeds_what_link_5_allows(self):
        p, q, advantages = worlds(5000, seed=3)
        allowed = 2 * np.sqrt(2) * chain.tv(p, q)
        self.assertTrue((np.linalg.norm(chain.row_bias(p, q, advantages), axis=-1) <= allowed).all())
        self.assertTrue((chain.worst_row_bias(p, q) <= allowed).all())
        clipped = np.linalg.norm(chain.row_bias_clipped(p, q, advantages, 0.5), axis=-1)
        self.assertTrue((clipped <= np.sqrt(2) * chain.clip_excess(p, q, 0.5) + 1e-12).all())

    def test_the_worst_advantages_are_no_better_than_any_signs(self):
        p, q, _ = worlds(30, tokens=8, seed=4)
        signs = np.array([[1 - 2 * (i >> a & 1) for a in range(8)] for i in range(256)], float)
        every = [np.linalg.norm(chain.row_bias(p[i][None], q[i][None], signs), axis=-1).max() for i in range(30)]
        found = chain.worst_row_bias(p, q)
        self.assertTrue((found <= np.array(every) + 1e-12).all())
        self.assertGreater(np.median(found / every), 0.98)

    def test_the_head_s_score_norm_is_bounded_by_its_norm_layer(self):
        rng = np.random.default_rng(5)
        gamma = rng.normal(0, 1, 32)
        x = rng.normal(0, 1, (2000, 32)) ** 5
        hidden = x / np.sqrt((x ** 2).mean(-1, keepdims=True)) * gamma
        p = chain.softmax(rng.normal(0, 6, (2000, 9)))
        score = np.sqrt((p ** 2).sum(-1) - 2 * p.min(-1) + 1) * np.linalg.norm(hidden, axis=-1)
        self.assertLessEqual(score.max(), chain.score_norm_max(gamma))


class Responses(unittest.TestCase):
    def test_gradients_are_sums_of_weighted_scores(self):
        rng = np.random.default_rng(6)
        p, _, _ = worlds(5, tokens=6, seed=6)
        tokens, hidden, weights = np.array([1, 5, 0, 2, 2]), rng.normal(0, 1, (5, 3)), rng.normal(0, 1, 5)
        found = chain.response_gradients(p, tokens, hidden, weights, np.array([0, 2, 5]))
        for response, rows in enumerate(((0, 1), (2, 3, 4))):
            by_hand = sum(weights[r] * np.outer(np.eye(6)[tokens[r]] - p[r], hidden[r]) for r in rows)
            np.testing.assert_allclose(found[response], by_hand, atol=1e-5)

    def test_the_interval_of_a_norm_of_a_mean_covers_it(self):
        rng = np.random.default_rng(7)
        for truth in (0.0, 0.05, 0.5):
            low, high, runs = 0, 0, 300
            for _ in range(runs):
                d = rng.standard_exponential((200, 30)) - 1
                d[:, 0] += truth
                total = d.sum(0)
                found = chain.norm_of_mean((d ** 2).sum(-1), d @ total, float(total @ total))
                low += found.low <= truth
                high += truth <= found.high
            self.assertGreaterEqual(low / runs, 0.95, truth)  # one side of a 95% interval, with room for the simulation
            self.assertGreaterEqual(high / runs, 0.93, truth)

    def test_a_gap_of_paired_rewards_has_the_interval_of_its_differences(self):
        gap = chain.reward_gap(np.array([0.5, 0.5, 0.0, 0.0]), np.array([0.5, 1.0, 0.5, 0.0]))
        error = 1.959964 * np.std([0, 0.5, 0.5, 0], ddof=1) / 2
        self.assertAlmostEqual(gap.value, 0.25)
        self.assertAlmostEqual(gap.high, 0.25 + error, places=6)
        self.assertEqual(gap.low, 0.0)


class Rewards(unittest.TestCase):
    def test_what_candidates_would_earn_is_what_tokens_earn(self):
        for reward in rewards.REWARDS.values():
            text = np.frombuffer("Größe AB 12 naïve été".encode(), np.uint8).astype(int)
            candidates = reward.of_candidates(text[:-1])
            earned = reward.of_tokens(text[:-1], text[1:])
            np.testing.assert_array_equal(candidates[np.arange(len(earned)), text[1:]], earned)
            self.assertEqual(candidates[:, rewards.END].max(), 0, reward.name)

    def test_capitals_count_capitals(self):
        text = np.frombuffer(b"aBcDE1", np.uint8).astype(int)
        self.assertEqual(rewards.REWARDS["capitals"].of_tokens(text[:-1], text[1:]).tolist(), [1, 0, 1, 1, 0])


if __name__ == "__main__":
    unittest.main()
