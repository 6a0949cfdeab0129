#!/usr/bin/env python3
"""Writes a driftgate capture from any transformers causal language model.

    capture_hf.py --model M --corpus corpus.jsonl --out train.safetensors --dtype float32
    capture_hf.py --model M --corpus corpus.jsonl --out inf.safetensors --dtype bfloat16 --attention sdpa
    driftgate drift train.safetensors inf.safetensors --corpus corpus.jsonl

The corpus is JSON Lines: {"sequence": 0, "text": "…", "slices": {"language": "de"}}. With --last N only the
last N positions of each sequence are scored; --hidden stores hidden states instead of logits: driftgate drift A B --checkpoint FOLDER."""
import argparse, hashlib, json, os, struct
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def raw(tensor):
    tensor = tensor.contiguous().cpu()  # numpy knows no bfloat16; the bits are what is stored
    return (tensor.view(torch.int16) if tensor.element_size() == 2 else tensor).numpy().tobytes()


def save(path, parts, metadata):
    """One tensor a name, from a list of pieces; written beside the target and renamed when complete."""
    header, offset = {"__metadata__": metadata}, 0
    for name, pieces in parts.items():
        shape = [sum(p.shape[0] for p in pieces), *pieces[0].shape[1:]]
        size = sum(p.numel() * p.element_size() for p in pieces)
        header[name] = {"dtype": NAMES[pieces[0].dtype], "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".partial", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for pieces in parts.values():
            for piece in pieces:
                file.write(raw(piece))
    os.replace(path + ".partial", path)


def head_of(model):
    """What driftgate needs to make logits of hidden states; a tied head has its embedding's name in the checkpoint."""
    head, config = model.get_output_embeddings(), model.config
    named = {id(tensor): name for name, tensor in model.named_parameters()}
    out = {"lm_head": named[id(head.weight)]}
    if getattr(head, "bias", None) is not None:
        out["lm_head.bias"] = named[id(head.bias)]
    if getattr(config, "final_logit_softcapping", None):
        out["lm_head.soft_cap"] = str(config.final_logit_softcapping)
    scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
    if scale != 1:
        out["lm_head.scale"] = str(scale)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="name or folder of the checkpoint")
    for name in ("--corpus", "--out"):
        parser.add_argument(name, required=True)
    parser.add_argument("--kernel", help="name of this kernel (default: model class, dtype, attention)")
    parser.add_argument("--checkpoint-digest", default="", help="the same for both kernels, e.g. sha256:…")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--attention", default="eager", help="transformers' attn_implementation")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--last", type=int, default=0, help="score the last N positions only (0 = all)")
    parser.add_argument("--hidden", action="store_true", help="store last hidden states; names the head in lm_head")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=getattr(torch, args.dtype),
                                                 attn_implementation=args.attention).to(args.device).eval()
    parts = {"hidden" if args.hidden else "logits": [], "token_ids": [], "sequence_ids": [], "positions": []}
    with open(args.corpus, "rb") as file:
        corpus = file.read()
    for line in filter(str.strip, corpus.decode().split("\n")):
        entry = json.loads(line)
        ids = tokenizer(entry["text"], return_tensors="pt", truncation=True, max_length=args.max_tokens).input_ids
        if ids.shape[1] < 2:
            continue
        with torch.no_grad():
            out = model(ids.to(args.device), output_hidden_states=args.hidden)
        rows = (out.hidden_states[-1] if args.hidden else out.logits)[0, :-1]  # row t predicts token t + 1
        first = max(0, len(rows) - args.last) if args.last else 0
        parts["hidden" if args.hidden else "logits"].append(rows[first:].cpu())
        parts["token_ids"].append(ids[0, 1 + first:])
        parts["sequence_ids"].append(torch.full((len(rows) - first,), entry["sequence"]))
        parts["positions"].append(torch.arange(first, len(rows)))
    kernel = args.kernel or f"hf-{type(model).__name__}-{args.dtype}-{args.attention}"
    save(args.out, parts, {"capture.version": "1", "kernel": kernel, "checkpoint.digest": args.checkpoint_digest,
                           "corpus.digest": "sha256:" + hashlib.sha256(corpus).hexdigest(), "temperature": "1.0",
                           "token_source": "corpus", "sampling_filter": "none", **(head_of(model) if args.hidden else {})})


if __name__ == "__main__":
    main()
