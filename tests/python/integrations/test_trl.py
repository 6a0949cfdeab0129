#!/usr/bin/python3
"""The TRL hook. TRL is not in Debian: a batch here is what its documentation says that compute_loss receives, and the
trainer is transformers' own where it can be imported, else a stand-in for how it calls callbacks."""
import os
import sys
import types
import unittest

import support

try:
    import accelerate  # noqa: F401  (transformers.Trainer cannot be made without it)
    import transformers
    REAL = True
except ImportError as fault:
    REAL, WHY = False, str(fault)
    sys.path.insert(0, str(support.HERE / "standins"))
    import transformers

from driftgate.integrations import figures, monitor, trl

torch = support.torch()


def batch(seed, sequences=6, noise=0.05):
    train, inf, mask, tokens = support.rollouts(sequences, noise, seed)
    return {"completion_ids": torch.tensor(tokens), "completion_mask": torch.tensor(mask),
            "old_per_token_logps": torch.tensor(train), "sampling_per_token_logps": torch.tensor(inf),
            "advantages": torch.zeros(sequences)}


def expected(inputs):
    return figures.driftgate(figures.pairs(*(inputs[n] for n in ("old_per_token_logps", "sampling_per_token_logps",
                                                                  "completion_mask"))))


class Reporter(transformers.TrainerCallback):
    """Stands for what sends logs to a service."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append(dict(logs))


class Attached(support.Folder):
    """With the trainer of whichever transformers is there."""

    def run_trainer(self, batches, **options):
        reporter = Reporter()
        trainer = make_trainer(batches, reporter, self.folder)
        watch = trl.attach(trainer, **options)
        trainer.train()
        return [logs for logs in reporter.logs if "loss" in logs], trainer, watch

    def test_a_service_sees_the_figures_of_every_step(self):
        batches = [batch(1), batch(2)]
        logs, trainer, _ = self.run_trainer(batches, families=("driftgate", "trl"))
        self.assertEqual(len(logs), 2)
        for inputs, log in zip(batches, logs):
            for name, value in expected(inputs).items():
                self.assertAlmostEqual(log[name], value, 9)
            gap = (inputs["old_per_token_logps"] - inputs["sampling_per_token_logps"])[inputs["completion_mask"].bool()].abs()
            self.assertAlmostEqual(log["sampling/sampling_logp_difference/max"], gap.max().item(), 6)
        kept = [entry for entry in trainer.state.log_history if "loss" in entry]
        self.assertAlmostEqual(kept[1]["driftgate/tv_sampled"], logs[1]["driftgate/tv_sampled"], 12)
        self.assertFalse(any("driftgate/tokens" in entry for entry in trainer.state.log_history if "loss" not in entry))

    def test_rollouts_that_are_used_again_count_once(self):
        one = batch(1)
        logs, _, _ = self.run_trainer([one, one, batch(2)])
        self.assertIn("driftgate/tokens", logs[0])
        self.assertNotIn("driftgate/tokens", logs[1])
        self.assertIn("driftgate/tokens", logs[2])

    def test_tool_tokens_do_not_count(self):
        one = batch(1)
        one["tool_mask"] = torch.zeros_like(one["completion_mask"])
        one["tool_mask"][:, 0] = 1
        logs, _, _ = self.run_trainer([one])
        self.assertEqual(logs[0]["driftgate/tokens"], 6)

    def test_batches_without_both_log_probabilities_are_counted(self):
        one = batch(1)
        del one["sampling_per_token_logps"]
        logs, _, _ = self.run_trainer([one])
        self.assertEqual(logs[0]["driftgate/batches_without_logprobs"], 1)
        self.assertNotIn("driftgate/tokens", logs[0])

    def test_a_violated_contract_ends_the_training(self):
        support.driftgate()
        with self.assertRaises(monitor.DriftStopped):
            self.run_trainer([batch(i, 20, 0.8) for i in range(4)], contract=self.contract(), window=40, on_violation="stop")
        logs, _, watch = self.run_trainer([batch(i, 20) for i in range(3)], contract=self.contract(), window=40)
        self.assertEqual([log.get("driftgate/verdict") for log in logs], [None, 0.0, None])
        said = {}
        self.assertEqual(trl.reward(watch)(["a", "b"], log_metric=said.__setitem__), [0.0, 0.0])
        self.assertEqual(said, {"driftgate/verdict": 0.0})

    def test_the_batches_of_one_log_are_averaged_by_their_tokens(self):
        means = trl._Means()
        for tokens, tv, verdict in ((10, 0.1, 1.0), (30, 0.5, 3.0)):
            means.add({"driftgate/tokens": tokens, "driftgate/tv_sampled": tv, "driftgate/verdict": verdict})
        self.assertEqual(means.take(), {"driftgate/tokens": 40, "driftgate/tv_sampled": 0.4, "driftgate/verdict": 1,
                                        "driftgate/batches_without_logprobs": 0.0})
        self.assertEqual(means.take(), {})


def make_trainer(batches, reporter, folder):
    if not REAL:
        return transformers.Trainer(types.SimpleNamespace(training=True), batches, [reporter])

    class Policy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

    class GrpoLike(transformers.Trainer):
        """As TRL's trainers: a batch is a dictionary that compute_loss receives, and log adds metrics of its own."""

        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(batches, batch_size=1, collate_fn=lambda items: items[0])

        def _prepare_inputs(self, inputs):
            return inputs

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return (model.weight * inputs["advantages"]).sum()

        def log(self, logs, start_time=None):
            super().log({**logs, "reward": 1.0} if "loss" in logs else logs, start_time)

    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=1, max_steps=len(batches), logging_steps=1, report_to=[],
        use_cpu=True, disable_tqdm=True, save_strategy="no")
    return GrpoLike(model=Policy(), args=arguments, train_dataset=batches, callbacks=[reporter])


@unittest.skipIf(REAL, "transformers is here, and the tests above ran against its Trainer")
class WithoutTransformers(unittest.TestCase):
    def test_the_stand_in_was_used(self):
        self.assertIn("standins", transformers.__file__, f"transformers.Trainer cannot be made: {WHY}")
        self.assertTrue(os.path.exists(transformers.__file__))


if __name__ == "__main__":
    unittest.main()
