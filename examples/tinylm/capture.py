#!/usr/bin/python3
"""K_train: the float32 autograd forward of PyTorch over a corpus, written as a capture file.

  capture.py --model model/ --corpus data/slice.jsonl --positions 16 --out data/captures/slice_train.safetensors

With --batch N, N sequences are evaluated together; shorter ones are padded at their ends, which attention ignores:
the same program on the same rows with another order of summation. Against batch 1 that is K_train's noise floor.
"""
import argparse
import hashlib
import json
import pathlib

import numpy as np
import torch

from model import load_model, tokens_of
from tensors import checkpoint_digest, save_safetensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="model")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--positions", type=int, default=16, help="scored tokens at the end of each sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences in one forward")
    parser.add_argument("--hidden", action="store_true", help="hidden states before lm_head in place of logits")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(args.model)
    before_head = []
    model.lm_head.register_forward_pre_hook(lambda _, inputs: before_head.append(inputs[0]))
    corpus = pathlib.Path(args.corpus).read_bytes()
    rows = [json.loads(line) for line in corpus.splitlines()]
    logits, hidden, tokens, sequences, positions = [], [], [], [], []
    for begin in range(0, len(rows), args.batch):
        batch = rows[begin:begin + args.batch]
        inputs = [tokens_of(row) for row in batch]
        longest = max(len(ids) for ids in inputs) - 1
        outs = model(torch.tensor([ids[:-1] + [0] * (longest + 1 - len(ids)) for ids in inputs]))
        assert outs.requires_grad  # the training program's forward: nothing is switched off
        for row, ids, out, states in zip(batch, inputs, outs, before_head.pop()):
            first = row.get("score_from") or max(1, len(ids) - args.positions)
            logits.append(out[first - 1:len(ids) - 1].detach().numpy())
            hidden.append(states[first - 1:len(ids) - 1].detach().numpy())
            tokens += ids[first:]
            sequences += [row["sequence"]] * (len(ids) - first)
            positions += range(first - 1, len(ids) - 1)
    all_logits = np.concatenate(logits)
    shifted = torch.log_softmax(torch.from_numpy(all_logits), -1)
    i32 = lambda values: np.array(values, np.int32)
    kept = {"hidden": np.concatenate(hidden)} if args.hidden else {"logits": all_logits}
    head = {"lm_head": "lm_head.weight"} if args.hidden else {}
    save_safetensors(args.out, {
        **kept, "logprobs": shifted[torch.arange(len(tokens)), torch.tensor(tokens)].numpy(),
        "token_ids": i32(tokens), "sequence_ids": i32(sequences), "positions": i32(positions),
    }, {
        "capture.version": "1", "kernel": "tinylm-train", "token_source": rows[0].get("token_source", "corpus"),
        "checkpoint.digest": checkpoint_digest(args.model),
        "corpus.digest": "sha256:" + hashlib.sha256(corpus).hexdigest(), "temperature": "1.0", "sampling_filter": "none",
        **head,
    })
    print(f"{args.out}: {len(tokens)} rows of {len(rows)} sequences")


if __name__ == "__main__":
    main()
