#!/usr/bin/env python3
"""The drift engine's figures as PyTorch computes them, for bench/drift.py.

torch_drift.py VOCABULARY f32|bf16 THREADS ROUNDS: JSON lines, one for each round (ROUNDS 0: one for each line on
standard input): rows per second of wall clock ("wall") and of processor time times THREADS ("cpu") for the same
metrics in one batch, in chunks of rows, and for log-softmax + KL + TV only.
"""
import json
import sys
import time

import torch

PAIR_BYTES = 64 << 20
CHUNKS = (1, 4, 16, 64)


def all_metrics(z, y):
    z, y = z.float(), y.float()
    drift = y - z
    log_p, log_q = torch.log_softmax(z, -1), torch.log_softmax(y, -1)
    p, q = log_p.exp(), log_q.exp()
    d = log_p - log_q
    m = (p + q) / 2
    log_m = m.log()
    top_z, top_y = z.topk(10, -1), y.topk(10, -1)
    return (drift.abs().amax(-1), drift.std(-1, unbiased=False), drift.amax(-1) - drift.amin(-1),
            (p - q).abs().sum(-1) / 2, (p * d).sum(-1), -(q * d).sum(-1),
            ((p * (log_p - log_m)).sum(-1) + (q * (log_q - log_m)).sum(-1)) / 2,
            (p.sqrt() - q.sqrt()).square().sum(-1) / 2, ((p - q).square() / q).sum(-1),
            -(p * log_p).sum(-1), -(q * log_q).sum(-1),
            (top_z.indices[:, 0] != top_y.indices[:, 0]).float(),
            (top_z.indices.unsqueeze(-1) == top_y.indices.unsqueeze(-2)).sum((-1, -2)) / 10.0,
            top_z.values[:, 0] - top_z.values[:, 1])


def kl_and_tv(z, y):
    log_p, log_q = torch.log_softmax(z.float(), -1), torch.log_softmax(y.float(), -1)
    p = log_p.exp()
    return (p * (log_p - log_q)).sum(-1), (p - log_q.exp()).abs().sum(-1) / 2


def rate(rows, threads, work):
    wall, cpu = time.monotonic(), time.process_time()
    work()
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return {"wall": rows / wall, "cpu": rows * threads / cpu}


def chunked(measure, z, y, chunk):
    for at in range(0, len(z), chunk):
        measure(z[at:at + chunk], y[at:at + chunk])


def one_round(z, y, threads):
    out = {}
    for name, measure in (("all", all_metrics), ("kl_tv", kl_and_tv)):
        out["torch_%s_batch" % name] = rate(len(z), threads, lambda: measure(z, y))
        for chunk in CHUNKS:
            if chunk < len(z):
                out["torch_%s_rows_%d" % (name, chunk)] = rate(len(z), threads,
                                                               lambda: chunked(measure, z, y, chunk))
    return out


def main():
    vocabulary, dtype, threads, rounds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    rows = PAIR_BYTES // 2 // vocabulary // (4 if dtype == "f32" else 2)
    z = 3 * torch.randn(rows, vocabulary)
    y = z + 0.01 * torch.randn(rows, vocabulary)
    if dtype == "bf16":
        z, y = z.bfloat16(), y.bfloat16()
    with torch.no_grad():
        chunked(all_metrics, z, y, 16)
        done = 0
        while sys.stdin.readline() if rounds == 0 else done < rounds:
            print(json.dumps(one_round(z, y, threads)), flush=True)
            done += 1


main()
