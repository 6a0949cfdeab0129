#!/usr/bin/python3
"""The verl hook against a stand-in for verl's public interface: figures join verl's own in the step that logs them."""
import importlib
import os
import subprocess
import sys
import types
import unittest

import support
from driftgate.integrations import MissingProject, figures, monitor, verl

torch = support.torch()


def batch_of(sequences=6, noise=0.05):
    train, inf, mask, tokens = support.rollouts(sequences, noise)
    return types.SimpleNamespace(batch={"old_log_probs": torch.tensor(train), "rollout_log_probs": torch.tensor(inf),
                                        "response_mask": torch.tensor(mask), "responses": torch.tensor(tokens)})


def wanted(batch):
    return figures.driftgate(figures.pairs(*(batch.batch[n] for n in ("old_log_probs", "rollout_log_probs", "response_mask"))))


class Hook(support.Folder):
    def test_install_adds_figures_and_keeps_verls(self):
        with support.standins():
            self.assertEqual(verl.install(monitor.Monitor()), "verl.utils.debug.metrics.calculate_debug_metrics")
            self.assertEqual(verl.install(monitor.Monitor()), "verl.utils.debug.metrics.calculate_debug_metrics")
            step = importlib.import_module("verl.trainer.ppo.trainer").step
            batch = batch_of()
            _, metrics = step(batch)
        for name, value in wanted(batch).items():
            self.assertAlmostEqual(metrics[name], value, 12)
        self.assertIn("training/rollout_probs_diff_mean", metrics)

    def test_at_the_correction_rejected_sequences_still_count(self):
        with support.standins():
            verl.install(monitor.Monitor(families=("driftgate", "verl")), at="correction")
            step = importlib.import_module("verl.trainer.ppo.trainer").step
            batch = batch_of()
            expected = wanted(batch)
            after, metrics = step(batch, rollout_correction={})
        self.assertEqual(metrics["driftgate/tokens"], expected["driftgate/tokens"])
        self.assertEqual(int(after.batch["response_mask"][0].sum()), 0, "verl's own result is passed on")
        self.assertEqual(metrics["rollout_corr/kl"], 42.0, "a name that verl logs keeps verl's value")
        self.assertAlmostEqual(metrics["rollout_corr/k3_kl"], expected["driftgate/kl_inf_train_sampled"], 12)

    def test_a_batch_without_rollout_log_probs_has_no_figures(self):
        batch = batch_of()
        del batch.batch["rollout_log_probs"]
        self.assertEqual(verl.metrics_of(batch, monitor.Monitor()), {})

    def test_older_masks_are_cut_to_the_response(self):
        batch = batch_of()
        expected = wanted(batch)
        mask = batch.batch.pop("response_mask")
        batch.batch["attention_mask"] = torch.cat([torch.ones(len(mask), 7, dtype=mask.dtype), mask], dim=1)
        self.assertEqual(verl.metrics_of(batch, monitor.Monitor()), expected)
        del batch.batch["attention_mask"]
        with self.assertRaisesRegex(ValueError, "neither response_mask"):
            verl.metrics_of(batch, monitor.Monitor())

    def test_a_violated_contract_stops_the_trainer(self):
        support.driftgate()
        with support.standins():
            verl.install(monitor.Monitor(self.contract(), window=40, on_violation="stop"))
            step = importlib.import_module("verl.trainer.ppo.trainer").step
            step(batch_of(30, 0.8))
            with self.assertRaisesRegex(monitor.DriftStopped, "violated over 40 sequences"):
                step(batch_of(30, 0.8))

    def test_every_family_by_hand(self):
        got = verl.figures_of(batch_of())
        for name in ("rollout_corr/k3_kl", "training/rollout_probs_diff_max", "gen_kl_error", "driftgate/tv_sampled"):
            self.assertIn(name, got)

    def test_without_verl_the_error_says_so(self):
        with self.assertRaisesRegex(MissingProject, "hooking verl's metrics needs verl"):
            verl.install()
        with self.assertRaisesRegex(ValueError, "elsewhere"):
            verl.install(at="elsewhere")


class Environment(unittest.TestCase):
    def test_verl_loads_it_by_its_own_variable(self):
        program = ("import sys; sys.path[:0] = [{standins!r}, {tests!r}]\n"
                   "import support, test_verl\n"
                   "import verl, importlib\n"
                   "assert 'driftgate.integrations.verl' in sys.modules\n"
                   "batch = test_verl.batch_of()\n"
                   "_, metrics = importlib.import_module('verl.trainer.ppo.trainer').step(batch)\n"
                   "assert metrics['driftgate/tokens'] > 0 and 'gen_kl_error' in metrics, metrics\n"
                   "print('figures of', int(metrics['driftgate/sequences']), 'sequences')\n")
        done = subprocess.run(
            [sys.executable, "-c", program.format(standins=str(support.HERE / "standins"), tests=str(support.HERE))],
            capture_output=True, text=True, timeout=120,
            env={**os.environ, "VERL_USE_EXTERNAL_MODULES": "driftgate.integrations.verl", "PYTHONDONTWRITEBYTECODE": "1",
                 "DRIFTGATE_FIGURES": "driftgate,nemo_rl", "PYTHONPATH": str(support.ROOT / "python")
                 if "DRIFTGATE_PYTHON" not in os.environ else os.environ["DRIFTGATE_PYTHON"]})
        self.assertEqual((done.returncode, done.stdout), (0, "figures of 6 sequences\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
