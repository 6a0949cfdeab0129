#!/usr/bin/env python3
"""Bounds of `driftgate drift` against the truth at one checkpoint: rollouts by kernels of tinylm, K_train played by its
f32 kernel. The same files as examples/rl writes and reads, without PyTorch."""
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["DRIFTGATE_ROOT"])
sys.path.insert(0, str(ROOT / "examples" / "rl"))
try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed (apt-get install python3-numpy)")
    sys.exit(77)
import chain  # noqa: E402
import measure  # noqa: E402
from inference import TINYLM, Kernel, load_safetensors, prompt_pool, rollout, write_prompts  # noqa: E402
from product import Product  # noqa: E402
from rewards import REWARDS  # noqa: E402
from tensors import checkpoint_digest, save_safetensors  # noqa: E402

MODEL, TOKENS, RESPONSES = TINYLM / "model", 8, 192
TINYLM_BIN, DRIFTGATE_BIN = os.environ["TINYLM_BIN"], os.environ["DRIFTGATE_BIN"]
NORM = chain.score_norm_max(load_safetensors(MODEL / "model.safetensors")[0]["model.norm.weight"])
REWARD = REWARDS["capitals"]


def scored_by_f32(work):
    """(logits, hidden) of the rows that were sampled, by tinylm's f32 kernel."""
    out = []
    for option in ([], ["--hidden"]):
        subprocess.run([TINYLM_BIN, "capture", "--model", str(MODEL), "--kernel", "f32", "--corpus", str(work / "rollouts.jsonl"),
                        "--out", str(work / "scored.safetensors"), *option],
                       check=True, capture_output=True)
        kept = load_safetensors(work / "scored.safetensors")[0]
        out.append(kept["hidden" if option else "logits"])
    return tuple(out)


def model_off_by(share, folder):
    """The model with each matrix moved by a share of its root mean square, as weights of some steps ago are."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    shutil.copy(MODEL / "config.json", folder)
    tensors, meta = load_safetensors(MODEL / "model.safetensors")
    moved = {name: w if w.ndim == 1 else (w + share * np.sqrt(np.mean(np.square(w, dtype=np.float32))) * rng.standard_normal(w.shape))
             for name, w in tensors.items()}
    save_safetensors(folder / "model.safetensors", {name: w.astype(np.float32) for name, w in moved.items()}, meta)
    return folder


class World:
    def __init__(self, work, kernel, weights_off=0.0):
        sampled = {}
        served = model_off_by(weights_off, pathlib.Path(work) / "served") if weights_off else MODEL
        prompts = pathlib.Path(work) / "prompts.jsonl"
        pool = prompt_pool()
        write_prompts(prompts, [pool[i % len(pool)] for i in range(RESPONSES)])
        for name, k in (("inf", kernel), ("train", Kernel("f32", "f32"))):
            folder = pathlib.Path(work) / name
            folder.mkdir()
            rollouts = rollout(TINYLM_BIN, k, served if name == "inf" else MODEL, prompts, folder, 1, TOKENS)
            rewards = rollouts.sums(REWARD.of_tokens(rollouts.before, rollouts.token)) / TOKENS
            sampled[name] = rollouts, scored_by_f32(folder), rewards
        (self.inf, scores, rewards), (train, train_scores, train_rewards) = sampled["inf"], sampled["train"]
        self.logits, baseline = scores[0], float(rewards.mean())
        product = Product(DRIFTGATE_BIN, pathlib.Path(work) / "drift", NORM, TOKENS)
        self.report = product.measure(self.inf, scores[0], kernel.ref, checkpoint_digest(MODEL), rewards, rewards - baseline)
        self.token = measure.token_horizon(self.report, self.inf, *scores, REWARD, baseline, NORM)
        self.sequence = measure.sequence_horizon(self.inf, train, scores, train_scores, rewards, train_rewards, baseline)
        self.ratios = measure.ratios(self.report, self.token, self.sequence)


@functools.cache
def world(kernel, weights_off=0.0):
    with tempfile.TemporaryDirectory() as work:
        return World(work, kernel, weights_off)


class Bounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worlds = {name: world(Kernel(name, name)) for name in ("bf16", "int8", "int8-static")}

    def test_no_prefix_has_a_bias_above_its_bound(self):
        for name, w in self.worlds.items():
            for truth in ("token", "worst", "response", "reward"):
                self.assertGreaterEqual(w.token[f"row_least_{truth}"], 1, f"{name} {truth}")

    def test_mean_bounds_are_above_the_bias_and_the_gap_over_the_same_prefixes(self):
        for name, w in self.worlds.items():
            for link in ("policy_gradient", "reward"):
                self.assertGreaterEqual(w.ratios[link], 1, f"{name} {link}")

    def test_no_lower_end_for_whole_responses_is_above_its_bound(self):
        for name, w in self.worlds.items():
            for link, truth in (("reward_sequence", "reward_gap"), ("policy_gradient_sequence", "bias")):
                self.assertLessEqual(w.sequence[truth]["low"], w.report.bound(link), f"{name} {link}")

    def test_the_product_s_figures_are_those_of_the_enumeration(self):
        for name, w in self.worlds.items():
            tv = chain.tv(chain.softmax(w.logits), chain.softmax(w.inf.logits))
            np.testing.assert_allclose(w.report.row_tv, tv, rtol=2e-6, atol=1e-12)
            each_once = (w.inf.sums(tv) / np.diff(w.inf.starts)).mean()
            self.assertAlmostEqual(w.report.bound("policy_gradient") / (2 * NORM), each_once, delta=1e-3 * each_once, msg=name)

    def test_a_coarser_kernel_has_the_larger_bounds(self):
        for link in ("policy_gradient", "reward_sequence"):
            fine, middle, coarse = (w.report.bound(link) for w in self.worlds.values())
            self.assertLess(fine, middle, link)
            self.assertLess(middle, coarse, link)

    def test_rewards_and_advantages_of_the_corpus_are_checked(self):
        for w in self.worlds.values():
            self.assertEqual(w.report.links["reward"]["status"], "checked")
            self.assertEqual(w.report.links["reward"]["inputs"]["rewards"], RESPONSES)
            self.assertEqual(w.report.links["policy_gradient"]["inputs"]["advantages"], RESPONSES)


class Filter(unittest.TestCase):
    def test_a_filtered_sampler_has_no_bound_although_it_is_biased(self):
        w = world(Kernel("top-p", "f32", top_p=0.7))
        self.assertIn("top_p=0.7", w.report.refused)
        self.assertEqual(w.report.links, {})
        self.assertNotEqual(w.report.verdict, "pass")
        self.assertGreater(w.token["bias"], 0.1 * w.token["gradient"])
        self.assertGreater(w.token["p_mass_outside_q"], 0.1)
        self.assertIsNone(w.token["row_least_worst"])


class Gate(unittest.TestCase):
    def test_the_contract_passes_fine_kernels_and_holds_back_stale_weights(self):
        for name in ("bf16", "int8"):
            self.assertEqual(world(Kernel(name, name)).report.verdict, "pass", name)
        stale = world(Kernel("stale", "f32"), weights_off=0.3)
        self.assertNotEqual(stale.report.verdict, "pass")
        self.assertEqual([clause.split(":")[0] for clause in stale.report.failing()], ["numerical.reward-drift"])
        self.assertGreaterEqual(stale.token["row_least_worst"], 1)


if __name__ == "__main__":
    unittest.main()
