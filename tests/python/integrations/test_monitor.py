#!/usr/bin/python3
"""The monitor of a run: windows, verdicts by driftgate's own library, and what happens on a violation."""
import unittest

import support
from driftgate.integrations import captures, figures, monitor


class Figures(support.Folder):
    def test_the_library_measures_what_the_monitor_says(self):
        driftgate = support.driftgate()
        train, inf, mask, tokens = support.rollouts(40, 0.05)
        said = figures.driftgate(figures.pairs(train, inf, mask))
        lengths = mask.sum(1)
        rows = [(train[i, :n], inf[i, :n], tokens[i, :n]) for i, n in enumerate(lengths)]
        drift = captures.drift_of_logprobs(rows, train_kernel="a", inf_kernel="b")
        measured = drift.to_dict()
        self.assertEqual(measured["rows"], int(lengths.sum()))
        self.assertTrue(measured["sampled_by_inf"])
        self.assertEqual((measured["train"]["kernel"], measured["inf"]["kernel"]), ("a", "b"))
        for name in ("ratio_mean", "tv_sampled", "kl_inf_train_sampled", "abs_log_ratio", "mult_prob_error", "ess_fraction",
                     "clip_budget_used", "chi2_sequence", "tv_sequence", "log_ppl_diff", "prob_pearson"):
            wanted = measured["metrics"][name]["value"]
            self.assertAlmostEqual(said[f"driftgate/{name}"], wanted, delta=1e-9 * max(1, abs(wanted)), msg=name)
        self.assertAlmostEqual(said["driftgate/sequence_log_ratio"], measured["metrics"]["sequence_log_ratio"]["mean"], 9)
        for what in ("tokens", "sequences"):
            for band, wanted in measured["metrics"]["band_retention"][what].items():
                self.assertAlmostEqual(said[f"driftgate/band_retention/{what}/{band}"], wanted, 12)
        self.assertTrue(hasattr(driftgate, "drift"))

    def test_without_a_contract_no_library_is_needed(self):
        train, inf, mask, _ = support.rollouts(4, 0.05)
        watch = monitor.Monitor(families=tuple(figures.FAMILIES))
        got = watch.step(train, inf, mask)
        self.assertIn("rollout_corr/k3_kl", got)
        self.assertAlmostEqual(got["rollout_corr/k3_kl"], got["driftgate/kl_inf_train_sampled"], 12)
        self.assertNotIn("driftgate/verdict", got)


class Verdicts(support.Folder):
    def run_steps(self, watch, noise, steps=4, seed=1):
        return [watch.step(*support.rollouts(50, noise, seed + i)) for i in range(steps)]

    def test_a_window_is_judged_when_it_is_full_and_the_next_begins(self):
        support.driftgate()
        watch = monitor.Monitor(self.contract(), window=100)
        got = [step.get("driftgate/verdict") for step in self.run_steps(watch, 0.02)]
        self.assertEqual(got, [None, 0.0, None, 0.0])
        self.assertEqual(watch.verdicts, ["pass", "pass"])
        self.assertEqual(watch.last.to_dict()["sequences"], 100)
        with self.assertRaisesRegex(ValueError, "since the last verdict"):
            watch.judge()
        self.assertEqual(watch.step(*support.rollouts(250, 0.02))["driftgate/verdict"], 0.0)
        self.assertEqual(watch.verdicts, ["pass"] * 4)
        self.assertEqual(watch.judge().to_dict()["sequences"], 50, "what is left of a step waits")
        self.assertEqual(monitor.worst(0, 3, 4, 1), 1)
        self.assertEqual(monitor.worst(0, 3), 3)

    def test_a_violated_contract_stops_the_run_and_says_why(self):
        support.driftgate()
        watch = monitor.Monitor(self.contract(), window=100, on_violation="stop")
        with self.assertRaises(monitor.DriftStopped) as caught:
            self.run_steps(watch, 0.8)
        self.assertIn("VIOLATED** `numerical.k3`", str(caught.exception))
        self.assertEqual(caught.exception.drift.exit_code, 1)
        seen = []
        watch = monitor.Monitor(self.contract(), window=100, on_violation=seen.append)
        self.run_steps(watch, 0.8)
        self.assertEqual([drift.verdict for drift in seen], ["violated", "violated"])
        watch = monitor.Monitor(self.contract(), window=100)
        self.assertEqual(self.run_steps(watch, 0.8)[1]["driftgate/verdict"], 1.0)

    def test_what_makes_no_sense_is_refused(self):
        for options, said in (({"families": ["wandb"]}, "wandb"), ({"window": 0}, "window 0"),
                              ({"on_violation": "panic"}, "panic")):
            with self.assertRaisesRegex(ValueError, said):
                monitor.Monitor(**options)
        watch = monitor.Monitor("contract.yaml")
        with self.assertRaisesRegex(ValueError, "realised tokens"):
            watch.step([[-1.0]], [[-1.0]])
        with self.assertRaisesRegex(ValueError, "2 tokens for 1 log-probabilities"):
            watch.step([[-1.0]], [[-1.0]], None, [[1, 2]])


class Environment(unittest.TestCase):
    def test_options_reach_other_processes_by_environment(self):
        got = monitor.options_of_environment({"DRIFTGATE_CONTRACT": "c.yaml", "DRIFTGATE_WINDOW": "64",
                                              "DRIFTGATE_FIGURES": "driftgate, verl", "DRIFTGATE_ON_VIOLATION": "stop"})
        self.assertEqual(got, {"contract": "c.yaml", "window": 64, "families": ("driftgate", "verl"), "on_violation": "stop"})
        self.assertEqual(monitor.options_of_environment({}), {})


if __name__ == "__main__":
    unittest.main()
