#!/usr/bin/python3
"""Figures of log-probability pairs against each project's definition, written out token by token."""
import math
import unittest

import support
from driftgate.integrations import figures

np = support.numpy()

# Three responses in a matrix with padding: 3, 1 and 0 counted tokens. A masked token must change nothing.
TRAIN = [[-0.5, -1.25, -2.0, -9.0], [-0.125, -7.0, -7.0, -7.0], [-3.0, -3.0, -3.0, -3.0]]
INF = [[-0.75, -1.0, -2.0, -1.0], [-0.25, -1.0, -2.0, -3.0], [-1.0, -1.0, -1.0, -1.0]]
MASK = [[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
TOKENS = [(-0.5, -0.75), (-1.25, -1.0), (-2.0, -2.0), (-0.125, -0.25)]
SEQUENCES = [TOKENS[:3], TOKENS[3:], []]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def mean_or_zero(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


class Definitions(unittest.TestCase):
    def setUp(self):
        self.pairs = figures.pairs(TRAIN, INF, MASK)

    def close(self, got, wanted):
        for name, value in wanted.items():
            self.assertIn(name, got)
            self.assertAlmostEqual(got[name], value, places=12, msg=name)

    def test_verl_rollout_correction(self):
        train = [mean_or_zero(a for a, _ in s) for s in SEQUENCES]  # verl counts an empty response as 0
        inf = [mean_or_zero(b for _, b in s) for s in SEQUENCES]
        gap = [b - a for a, b in zip(train, inf)]
        wanted = {
            "kl": mean(b - a for a, b in TOKENS), "k3_kl": mean(math.exp(a - b) - (a - b) - 1 for a, b in TOKENS),
            "training_ppl": mean(math.exp(-a) for a in train), "training_log_ppl": -mean(train),
            "rollout_ppl": mean(math.exp(-b) for b in inf), "rollout_log_ppl": -mean(inf), "log_ppl_diff": mean(gap),
            "log_ppl_abs_diff": mean(map(abs, gap)), "log_ppl_diff_max": max(gap), "log_ppl_diff_min": min(gap),
            "ppl_ratio": mean(map(math.exp, gap)), "chi2_token": mean(math.exp(a - b) ** 2 for a, b in TOKENS) - 1,
            "chi2_seq": mean(math.exp(sum(a - b for a, b in s)) ** 2 for s in SEQUENCES) - 1}
        self.close(figures.verl(self.pairs), {f"rollout_corr/{k}": v for k, v in wanted.items()})
        self.assertEqual(len(figures.verl(self.pairs)), len(wanted))

    def test_verl_bounds_log_ratios_before_it_squares(self):
        one = figures.verl(figures.pairs([[0.0, -1.0]], [[-30.0, -1.0]]))
        self.assertAlmostEqual(one["rollout_corr/chi2_token"] / ((math.exp(40) + 1) / 2 - 1), 1, places=12)
        self.assertAlmostEqual(one["rollout_corr/chi2_seq"] / math.expm1(40), 1, places=12)

    def test_verl_probabilities(self):
        a, b = [math.exp(x) for x, _ in TOKENS], [math.exp(y) for _, y in TOKENS]
        gap = [abs(x - y) for x, y in zip(a, b)]
        spread = math.sqrt(sum((g - mean(gap)) ** 2 for g in gap) / (len(gap) - 1))
        self.close(figures.verl_probs(self.pairs), {
            "training/rollout_probs_diff_valid": 1, "training/rollout_probs_diff_max": max(gap),
            "training/rollout_probs_diff_mean": mean(gap), "training/rollout_probs_diff_std": spread,
            "training/rollout_actor_probs_pearson_corr": np.corrcoef(a, b)[0, 1]})

    def test_nemo_rl(self):
        mixed = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in TOKENS]
        js = mean((math.exp(a - m) - (a - m) - 1 + math.exp(b - m) - (b - m) - 1) / 2 for (a, b), m in zip(TOKENS, mixed))
        self.close(figures.nemo_rl(self.pairs), {
            "token_mult_prob_error": mean(math.exp(abs(a - b)) for a, b in TOKENS),
            "gen_kl_error": mean(math.exp(a - b) - (a - b) - 1 for a, b in TOKENS),
            "policy_kl_error": mean(math.exp(b - a) - (b - a) - 1 for a, b in TOKENS), "js_divergence_error": js})
        self.close(figures.nemo_rl(self.pairs, "k1"), {"gen_kl_error": mean(b - a for a, b in TOKENS)})
        self.close(figures.nemo_rl(self.pairs, "k2"), {"gen_kl_error": mean((a - b) ** 2 / 2 for a, b in TOKENS)})
        with self.assertRaisesRegex(ValueError, "k4"):
            figures.nemo_rl(self.pairs, "k4")

    def test_slime_means_over_sequences(self):
        self.close(figures.slime(self.pairs), {
            "train_rollout_logprob_abs_diff": mean(mean_or_zero(abs(a - b) for a, b in s) for s in SEQUENCES),
            "mis_kl": mean(mean_or_zero(b - a for a, b in s) for s in SEQUENCES),
            "mis_k3_kl": mean(mean_or_zero(math.exp(a - b) - (a - b) - 1 for a, b in s) for s in SEQUENCES),
            "mis_ppl_ratio": mean(math.exp(mean_or_zero(b - a for a, b in s)) for s in SEQUENCES)})

    def test_trl(self):
        self.close(figures.trl(self.pairs), {"sampling/sampling_logp_difference/mean": mean(abs(a - b) for a, b in TOKENS),
                                             "sampling/sampling_logp_difference/max": 0.25})
        self.assertEqual(figures.trl(figures.pairs([[1.0]], [[2.0]], [[0]])), {
            "sampling/sampling_logp_difference/mean": 0.0, "sampling/sampling_logp_difference/max": 0.0})

    def test_driftgate(self):
        w = [math.exp(a - b) for a, b in TOKENS]
        whole = [math.exp(sum(a - b for a, b in s)) for s in SEQUENCES[:2]]  # only sequences with tokens
        self.close(figures.driftgate(self.pairs), {f"driftgate/{k}": v for k, v in {
            "tokens": 4, "sequences": 2, "nonfinite": 0, "ratio_mean": mean(w), "tv_sampled": mean(abs(x - 1) for x in w) / 2,
            "kl_inf_train_sampled": mean(x - 1 - math.log(x) for x in w),
            "ess_fraction": sum(w) ** 2 / (4 * sum(x * x for x in w)),
            "clip_budget_used": 2 / 4, "chi2_sequence": mean((x - 1) ** 2 for x in whole),
            "tv_sequence": mean(max(0.0, 1 - x) for x in whole), "sequence_log_ratio": mean(map(math.log, whole)),
            "band_retention/tokens/1pct": 1 / 4, "band_retention/sequences/5pct": 1 / 2}.items()})

    def test_values_that_are_not_finite_are_counted_and_left_out(self):
        bad = figures.pairs([[-0.5, float("nan"), -1.25], [float("-inf"), -1, -1]], [[-0.75, -1, -1.0], [-1, -1, -1]],
                            [[1, 1, 1], [1, 0, 0]])
        got = figures.driftgate(bad)
        self.assertEqual((got["driftgate/tokens"], got["driftgate/sequences"], got["driftgate/nonfinite"]), (2, 1, 2))
        self.assertAlmostEqual(got["driftgate/abs_log_ratio"], 0.25)
        self.assertTrue(math.isnan(figures.verl(bad)["rollout_corr/kl"]), "verl's own figure is what verl would log")


class Inputs(unittest.TestCase):
    def test_lists_matrices_and_tensors_agree(self):
        wanted = figures.all_of(figures.pairs(TRAIN[:2], INF[:2], MASK[:2]))
        ragged = figures.pairs([[a for a, _ in s] for s in SEQUENCES[:2]], [[b for _, b in s] for s in SEQUENCES[:2]])
        self.assertEqual(wanted, figures.all_of(ragged))
        torch = support.torch()
        half = torch.tensor(TRAIN[:2], requires_grad=True).to(torch.bfloat16), torch.tensor(INF[:2]).to(torch.bfloat16)
        self.assertEqual(wanted, figures.all_of(figures.pairs(*half, torch.tensor(MASK[:2]).bool())))  # exact in bf16

    def test_shapes_that_differ_name_the_sequence(self):
        with self.assertRaisesRegex(ValueError, "sequence 1: 2 tokens of the training kernel, 1 of the inference"):
            figures.pairs([[1.0], [1.0, 2.0]], [[1.0], [1.0]])
        with self.assertRaisesRegex(ValueError, "2 sequences .* 1 of the inference"):
            figures.pairs([[1.0], [2.0]], [[1.0]])

    def test_no_token(self):
        none = figures.pairs([[1.0]], [[1.0]], [[0]])
        self.assertEqual(figures.all_of(none), {"driftgate/tokens": 0.0, "driftgate/sequences": 0.0, "driftgate/nonfinite": 0.0})
        with self.assertRaisesRegex(ValueError, "no valid token"):
            figures.verl(none)
        with self.assertRaisesRegex(ValueError, "wandb"):
            figures.all_of(none, ["wandb"])


if __name__ == "__main__":
    unittest.main()
