#!/usr/bin/python3
"""The slime functions against a stand-in for what slime calls them with: its function paths, samples and rollout data."""
import dataclasses
import importlib
import os
import types
import unittest
import unittest.mock
from typing import List, Optional

import support
from driftgate.integrations import figures, monitor, slime

np, torch = support.numpy(), support.torch()


@dataclasses.dataclass
class Sample:
    """Stand-in for slime.utils.types.Sample: the members that a rollout fills in."""

    tokens: List[int]
    response_length: int
    rollout_log_probs: Optional[List[float]]
    loss_mask: Optional[List[int]] = None


def load_function(path):
    """As slime finds a function by its path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def logged_by_slime(rollout_data):
    """Stand-in for what slime's training actor logs of each member: of a list its sum and its length, over all ranks."""
    return {name: sum(values) / len(values) for name, values in rollout_data.items()
            if isinstance(values, list) and values and isinstance(values[0], (int, float)) and name != "response_lengths"}


ARGS = types.SimpleNamespace(rollout_top_p=1.0, rollout_top_k=-1, rollout_temperature=0.8)
SAMPLES = [Sample([9, 9, 1, 2, 3], 3, [-1.0, -2.0, -3.0], [1, 0, 1]), Sample([9, 4, 5], 2, [-0.5, -1.5]),
           Sample([9, 6], 1, None)]


class RolloutLog(support.Folder):
    hook = staticmethod(load_function("driftgate.integrations.slime.log_rollout_data"))

    def test_figures_join_slimes_own_and_slime_goes_on_logging(self):
        metrics = {"rollout/raw_reward": 0.5}
        self.assertIs(self.hook(3, ARGS, SAMPLES, metrics, 1.5), False)
        self.assertEqual(metrics["rollout/raw_reward"], 0.5)
        self.assertEqual(metrics["driftgate/rollout_tokens"], 4)
        self.assertAlmostEqual(metrics["driftgate/rollout_without_logprobs"], 1 / 3)
        self.assertAlmostEqual(metrics["driftgate/rollout_log_ppl"], ((1 + 3) / 2 + (0.5 + 1.5) / 2) / 2)
        self.assertIs(self.hook(3, ARGS, [SAMPLES[:2], SAMPLES[2:]], None, 1.5), False)

    def test_rollouts_are_kept_as_captures(self):
        driftgate = support.driftgate()
        with unittest.mock.patch.dict(os.environ, {"DRIFTGATE_CAPTURES": str(self.folder), "DRIFTGATE_INF_KERNEL": "sgl-bf16"}):
            self.hook(7, types.SimpleNamespace(rollout_top_p=0.9, rollout_top_k=-1, rollout_temperature=1.0), SAMPLES, {}, 1.0)
        kept = driftgate.Capture.open(str(self.folder / "rollout_7"))
        self.assertEqual((kept.rows, kept.mode), (4, "realised"))
        self.assertEqual(list(kept.tokens), [1, 3, 4, 5])
        self.assertEqual(list(kept.sequences), [0, 0, 1, 1])
        self.assertEqual((kept.identity.token_source, kept.identity.sampling_filter), ("sgl-bf16", "top-p 0.9"))


class Training(support.Folder):
    def data(self, sequences=5, noise=0.05):
        train, inf, mask, tokens = support.rollouts(sequences, noise)
        lengths = mask.sum(1)
        return {"tokens": [torch.tensor([0, 0, *tokens[i, :n]]) for i, n in enumerate(lengths)],
                "log_probs": [torch.tensor(train[i, :n]) for i, n in enumerate(lengths)],
                "rollout_log_probs": [torch.tensor(inf[i, :n]) for i, n in enumerate(lengths)],
                "loss_masks": [torch.ones(n, dtype=torch.int) for n in lengths], "response_lengths": list(lengths)}

    def setUp(self):
        super().setUp()
        monitor.configure()
        self.addCleanup(monitor.configure)

    def test_slime_logs_means_over_samples(self):
        data = self.data()
        load_function("driftgate.integrations.slime.postprocess")(ARGS, 3, data)
        got = logged_by_slime(data)
        pairs = figures.pairs(data["log_probs"], data["rollout_log_probs"])
        for name, value in figures.slime(pairs).items():
            self.assertAlmostEqual(got[f"driftgate/{name}"], value, 12)
        self.assertAlmostEqual(got["driftgate/tv_sequence"], figures.driftgate(pairs)["driftgate/tv_sequence"], 12)
        self.assertNotIn("driftgate/verdict", data)

    def test_the_contract_is_decided_where_the_log_probs_are(self):
        support.driftgate()
        monitor.configure(contract=self.contract(), window=30)
        data = self.data(40)
        slime.postprocess(ARGS, 3, data)
        self.assertEqual(logged_by_slime(data)["driftgate/verdict"], 0.0)

    def test_ranks_without_log_probs_and_older_calls(self):
        data = {"loss_masks": [torch.ones(2)], "rollout_log_probs": [torch.zeros(2)]}
        before = dict(data)
        slime.postprocess(ARGS, 3, data)
        self.assertEqual(data, before)
        with self.assertRaisesRegex(TypeError, "custom-tis-function-path"):
            slime.postprocess(ARGS)
        data = self.data(1)
        data["loss_masks"] = [torch.ones(99)]
        with self.assertRaisesRegex(ValueError, "context parallelism"):
            slime.postprocess(ARGS, 3, data)

    def test_mismatch_changes_no_loss(self):
        data = self.data()
        loss = torch.randn(sum(data["response_lengths"]), requires_grad=True)
        call = load_function("driftgate.integrations.slime.mismatch")
        arguments = dict(pg_loss=loss, train_log_probs=data["log_probs"], rollout_log_probs=data["rollout_log_probs"],
                         loss_masks=data["loss_masks"], total_lengths=[], response_lengths=data["response_lengths"])
        out, masks, metrics = call(ARGS, **arguments)
        self.assertIs(out, loss)
        self.assertIs(masks, data["loss_masks"])
        pairs = figures.pairs(data["log_probs"], data["rollout_log_probs"])
        self.assertTrue(all(values.shape == loss.shape for values in metrics.values()), "a value for each token")
        self.assertAlmostEqual(float(metrics["mis_k3_kl"].mean()), figures.verl(pairs)["rollout_corr/k3_kl"], 6)
        self.assertAlmostEqual(float(metrics["driftgate_tv_sampled"].mean()), figures.driftgate(pairs)["driftgate/tv_sampled"], 6)
        with unittest.mock.patch.dict(os.environ, {"DRIFTGATE_TIS": "test_slime.halved"}):
            out, masks, metrics = call(ARGS, **arguments)
        self.assertTrue(torch.equal(out, loss / 2))
        self.assertEqual(sorted(n for n in metrics if not n.startswith("driftgate")), ["mis_k3_kl", "mis_kl", "theirs"])


def halved(args, *, pg_loss, loss_masks, **more):
    """A correction of somebody else's, in slime's form."""
    return pg_loss / 2, loss_masks, {"theirs": pg_loss}


if __name__ == "__main__":
    unittest.main()
