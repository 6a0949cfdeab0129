"""One training run: rollouts by K_inf, learning by K_train, and at every step what driftgate says of the two."""
import argparse
import json
import pathlib
import shutil
import time

import numpy as np
import torch

import measure
from chain import score_norm_max
from inference import Kernel, prompt_pool, rollout, write_prompts
from policy import ALGORITHMS, Policy
from product import Product
from rewards import REWARDS

FALLBACK = Kernel("bf16", "bf16")
TRUTH = Kernel("f32", "f32")
BASELINE_KEPT = 0.9


class Run:
    def __init__(self, args):
        self.args, self.work = args, pathlib.Path(args.work)
        self.policy = Policy(args.rate)
        self.reward = REWARDS[args.reward]
        self.norm = score_norm_max(self.policy.norm_weight)
        self.product = Product(args.driftgate, self.work / "drift", self.norm, args.max_tokens)
        self.kernel = Kernel(args.kernel, args.program, args.lag, args.top_p)
        self.pool = prompt_pool()
        self.rng = np.random.default_rng(args.seed)
        self.baseline, self.stopped = None, None
        self.digest = ""

    def folder(self, step):
        return self.work / "checkpoints" / str(step)

    def rewards_of(self, rollouts):
        """What each response earns: the sum over its tokens, as a share of max_tokens."""
        return rollouts.sums(self.reward.of_tokens(rollouts.before, rollouts.token)) / self.args.max_tokens

    def sample(self, kernel, prompts, step, name, seed):
        work = self.work / name
        work.mkdir(parents=True, exist_ok=True)
        return rollout(self.args.tinylm, kernel, self.folder(max(0, step - kernel.lag)), prompts, work, seed, self.args.max_tokens)

    def compare(self, kernel, step, n, seed):
        """Rollouts of K_inf and of K_train from the same prompts and random numbers, the product's report and the truth."""
        prompts = self.work / "prompts.jsonl"
        write_prompts(prompts, [self.pool[i] for i in np.random.default_rng(seed).integers(0, len(self.pool), n)])
        of_inf = self.sample(kernel, prompts, step, "inf", seed)
        of_train = self.sample(TRUTH, prompts, step, "train", seed)
        inf_scores, train_scores = self.policy.evaluate(of_inf), self.policy.evaluate(of_train)
        inf_rewards, train_rewards = self.rewards_of(of_inf), self.rewards_of(of_train)
        if self.baseline is None:
            self.baseline = float(inf_rewards.mean())
        advantages = inf_rewards - self.baseline
        report = self.product.measure(of_inf, inf_scores[0], kernel.ref, self.digest, inf_rewards, advantages)
        token = measure.token_horizon(report, of_inf, *inf_scores, self.reward, self.baseline, self.norm)
        sequence = measure.sequence_horizon(of_inf, of_train, inf_scores, train_scores, inf_rewards, train_rewards, self.baseline)
        record = {"step": step, "kernel": kernel.name, "n": n, "baseline": self.baseline, "verdict": report.verdict,
                  "failing": report.failing(), "kl_inf_train": report.mean("kl_inf_train"), "tv": report.mean("tv"),
                  "bounds": measure.bounds(report), "token": token, "sequence": sequence,
                  "ratios": {} if report.refused else measure.ratios(report, token, sequence)}
        return of_inf, inf_scores, inf_rewards, advantages, record

    def full_gradient(self, rollouts, logits):
        """Bias and gradient with respect to everything that is trained, a token a prefix: shown without a bound."""
        p, q = measure.chain.softmax(logits), measure.chain.softmax(rollouts.logits)
        advantages = self.reward.of_candidates(rollouts.before) - self.baseline
        bias, gradient = self.policy.mean_gradient_norm(
            rollouts, [measure.chain.row_bias(p, q, advantages), measure.chain.row_bias(np.zeros_like(p), p, advantages)])
        return {"bias": bias, "gradient": gradient}

    def one_step(self, step):
        a = self.args
        self.digest = self.policy.publish(self.folder(step))
        shutil.rmtree(self.folder(step - self.kernel.lag - 1), ignore_errors=True)
        records = []
        kernel = FALLBACK if self.stopped is not None else self.kernel
        if a.record and step % a.record == 0:
            records.append({"kind": "record", **self.compare(kernel, step, a.truth, 1_000_000 * a.seed + 500_000 + step)[-1]})
        seed = 1_000_000 * a.seed + step
        rollouts, scores, rewards, advantages, record = self.compare(kernel, step, a.batch, seed)
        if a.record and step % a.record == 0:
            record["full"] = self.full_gradient(rollouts, scores[0])
        records.append({"kind": "step", **record})
        if a.gate and self.stopped is None and record["verdict"] != "pass":
            self.stopped = step
            rollouts, _, rewards, advantages, record = self.compare(FALLBACK, step, a.batch, seed)
            records.append({"kind": "step", **record})
        ALGORITHMS[a.algorithm](self.policy, rollouts, advantages, self.rng)
        self.baseline = BASELINE_KEPT * self.baseline + (1 - BASELINE_KEPT) * float(rewards.mean())
        return records

    def run(self):
        self.work.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with open(self.work / "steps.jsonl", "w") as out:
            for step in range(self.args.steps):
                for record in self.one_step(step):
                    out.write(json.dumps(record) + "\n")
                    out.flush()
                    if self.args.verbose:
                        print(describe(record), f"{time.monotonic() - begin:.0f} s", flush=True)
                if not all(torch.isfinite(w).all() for w in self.policy.parameters):
                    raise RuntimeError(f"step {step}: weights are no longer finite")
        (self.work / "run.json").write_text(json.dumps(vars(self.args) | {
            "stopped": self.stopped, "score_norm_max": self.norm, "seconds": round(time.monotonic() - begin)}, indent=1) + "\n")


def describe(record):
    s, t = record["sequence"], record["token"]
    show = lambda name: "-" if record["ratios"].get(name) is None else f"{record['ratios'][name]:.1f}"
    return (f"{record['kind']:6} {record['step']:3} {record['kernel']:11} n {record['n']:4} reward {s['reward_inf']:.3f} "
            f"train {s['reward_train']:.3f} tv {t['tv_mean']:.4f} {record['verdict']:12} row {t['row_least_token'] or 0:.1f} "
            f"worst {t['row_least_worst'] or 0:.2f} pg {show('policy_gradient')} seq reward {show('reward_sequence')} "
            f"seq pg {show('policy_gradient_sequence')}/{show('policy_gradient_sequence_low')}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driftgate", required=True)
    parser.add_argument("--tinylm", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--kernel", default="int8")
    parser.add_argument("--program", default="int8", help="kernel of tinylm")
    parser.add_argument("--lag", type=int, default=0, help="steps that K_inf's weights are behind")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="reinforce")
    parser.add_argument("--reward", choices=REWARDS, default="capitals")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64, help="responses of a step")
    parser.add_argument("--record", type=int, default=10, help="every so many steps the truth is taken from many more pairs")
    parser.add_argument("--truth", type=int, default=512, help="pairs of a record")
    parser.add_argument("--max-tokens", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gate", action="store_true", help="leave the kernel for bf16 at the first step that does not pass")
    parser.add_argument("--verbose", action="store_true")
    return parser


if __name__ == "__main__":
    Run(arguments().parse_args()).run()
