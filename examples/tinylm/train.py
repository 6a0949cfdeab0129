#!/usr/bin/python3
"""Trains tinylm and samples from it.

  train.py train --text train.json.gz --model model/ [--steps N] [--threads N]
  train.py sample --model model/ [--prompt TEXT] [--bytes N] [--seed N]
  train.py evaluate --model model/ --corpus data/slice.jsonl
"""
import argparse
import gzip
import json
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from model import BOS, TinyLm, load_model, save_model, tokens_of

SEED = 7
CONTEXT = 192
BATCH = 12
PEAK_RATE, WARMUP_STEPS = 3e-3, 100
MIX = {"en/manual": 0.30, "en/licence": 0.13, "en/code": 0.17, "de/manual": 0.20, "fr/manual": 0.20}


def batches(streams, generator):
    """Endless batches of windows, each begun by BOS; the share of each stream is MIX."""
    names = list(MIX)
    arrays = [np.frombuffer(streams[n].encode(), np.uint8) for n in names]
    while True:
        picks = generator.choice(len(names), BATCH, p=[MIX[n] for n in names])
        rows = np.empty((BATCH, CONTEXT + 1), np.int64)
        for row, pick in zip(rows, picks):
            start = generator.integers(0, len(arrays[pick]) - CONTEXT)
            row[0], row[1:] = BOS, arrays[pick][start:start + CONTEXT]
        yield torch.from_numpy(rows)


def rate(step, steps):
    if step < WARMUP_STEPS:
        return PEAK_RATE * (step + 1) / WARMUP_STEPS
    return PEAK_RATE * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP_STEPS) / (steps - WARMUP_STEPS))))


def train(args):
    torch.manual_seed(SEED)
    torch.set_num_threads(args.threads)
    with gzip.open(args.text, "rt", encoding="utf-8") as file:
        source = batches(json.load(file), np.random.default_rng(SEED))
    model = TinyLm()
    for name, weight in model.named_parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.02 if "embed" in name else 0.06)
    decay = [w for w in model.parameters() if w.dim() == 2]
    plain = [w for w in model.parameters() if w.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95))
    start, smooth = time.monotonic(), None
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, args.steps)
        rows = next(source)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        smooth = loss.item() if smooth is None else 0.97 * smooth + 0.03 * loss.item()
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step} loss {smooth:.4f} seconds {time.monotonic() - start:.0f}", flush=True)
    save_model(model, args.model)


def sample(args):
    torch.manual_seed(args.seed)
    model, tokens = load_model(args.model), [BOS, *args.prompt.encode()]
    with torch.no_grad():
        for _ in range(args.bytes):
            logits = model(torch.tensor([tokens[-CONTEXT:]]))[0, -1] / args.temperature
            tokens.append(int(torch.multinomial(torch.softmax(logits, -1), 1)))
    print(bytes(t for t in tokens if t != BOS).decode("utf-8", "replace"))


def evaluate(args):
    model, sums = load_model(args.model), {}
    with torch.no_grad(), open(args.corpus, encoding="utf-8") as file:
        for row in map(json.loads, file):
            tokens = torch.tensor([tokens_of(row)])
            nats = F.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:], reduction="sum").item()
            for key in ("all", row["slices"]["language"], row["slices"]["domain"]):
                total = sums.setdefault(key, [0.0, 0])
                total[0] += nats
                total[1] += tokens.shape[1] - 1
    for key, (nats, count) in sums.items():
        print(f"{key}: {nats / count:.4f} nats per byte over {count} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("train")
    command.add_argument("--text", required=True)
    command.add_argument("--steps", type=int, default=2900)
    command.add_argument("--threads", type=int, default=1)
    command.set_defaults(run=train)
    command = commands.add_parser("sample")
    command.add_argument("--prompt", default="")
    command.add_argument("--bytes", type=int, default=400)
    command.add_argument("--temperature", type=float, default=0.7)
    command.add_argument("--seed", type=int, default=1)
    command.set_defaults(run=sample)
    command = commands.add_parser("evaluate")
    command.add_argument("--corpus", required=True)
    command.set_defaults(run=evaluate)
    for command in commands.choices.values():
        command.add_argument("--model", default="model")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
