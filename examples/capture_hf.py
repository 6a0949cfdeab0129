#!/usr/bin/env python3
"""Writes a driftgate capture from any transformers causal language model.

    capture_hf.py --model M --corpus corpus.jsonl --out train.safetensors --dtype float32
    capture_hf.py --model M --corpus corpus.jsonl --out inf.safetensors --dtype bfloat16 --attention sdpa
    driftgate drift train.safetensors inf.safetensors --corpus corpus.jsonl

    capture_hf.py … --dtype bfloat16 --attention sdpa --batch-size 8 --out inf8.safetensors
    driftgate drift train.safetensors inf.safetensors --corpus corpus.jsonl --floor-inf inf8.safetensors

The corpus is JSON Lines: {"sequence": 0, "text": "…", "slices": {"language": "de"}}. With --last N only the
last N positions of each sequence are scored. --batch-size N runs N sequences at a time, padded at their ends: the same
kernel with other sums, whose drift from batch size 1 is its noise floor.

--hidden stores hidden states instead of logits: driftgate drift A B --checkpoint FOLDER. driftgate makes logits of
them that are not rounded, and a model in bfloat16 or float16 rounds the logits that it serves; there --hidden wants
--unrounded-logits, by which you say that the kernel you serve returns its head's product in float32."""
import argparse, hashlib, json, os, struct, sys
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


def sequences_of(corpus, name, tokenizer, most):
    """(sequence, token ids) of each line with two tokens or more; the row of a last token predicts nothing."""
    lines = [(number, line) for number, line in enumerate(corpus.decode().split("\n"), 1) if line.strip()]
    out = []
    for number, line in lines:
        try:
            entry = json.loads(line)
            sequence, text = int(entry["sequence"]), entry["text"]
        except (ValueError, TypeError, KeyError) as fault:
            sys.exit(f"capture_hf.py: {name}, line {number}: wants a JSON object with \"sequence\" and \"text\" ({fault!r})")
        ids = tokenizer(text, truncation=True, max_length=most).input_ids
        if len(ids) > 1:
            out.append((sequence, ids))
    if not out:
        sys.exit(f"capture_hf.py: {name}: none of its {len(lines)} sequences has two tokens or more, so there is no "
                 "token to score; give longer texts, or a --max-tokens over 1")
    return out


def run(model, batch, device, hidden):
    """Logits, or last hidden states, of each sequence of a batch, the last token's left out."""
    longest = max(len(ids) for _, ids in batch)
    inputs = torch.zeros((len(batch), longest), dtype=torch.long)  # padding that nothing looks at
    mask = torch.zeros_like(inputs)
    for row, (_, ids) in enumerate(batch):
        inputs[row, :len(ids)] = torch.tensor(ids)
        mask[row, :len(ids)] = 1
    padded = {} if bool(mask.all()) else {"attention_mask": mask.to(device)}
    with torch.no_grad():
        out = model(inputs.to(device), output_hidden_states=hidden, **padded)
    rows = out.hidden_states[-1] if hidden else out.logits
    return [rows[row, :len(ids) - 1].cpu() for row, (_, ids) in enumerate(batch)]


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
    parser.add_argument("--batch-size", type=int, default=1, help="sequences that run together")
    parser.add_argument("--unrounded-logits", action="store_true",
                        help="with --hidden below float32: the served kernel does not round its logits")
    args = parser.parse_args()
    if args.max_tokens < 1 or args.batch_size < 1 or args.last < 0:
        parser.error("--max-tokens and --batch-size are at least 1, --last at least 0")
    if args.hidden and args.dtype != "float32" and not args.unrounded_logits:
        parser.error(f"--hidden with --dtype {args.dtype} leaves out that the model rounds its logits to {args.dtype}, so "
                     "the drift would be that of another kernel; leave --hidden out, or add --unrounded-logits if "
                     "the kernel that you serve returns its head's product in float32")
    if args.unrounded_logits and not args.hidden:
        parser.error("--unrounded-logits belongs to --hidden; logits are stored as the model returns them")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    with open(args.corpus, "rb") as file:
        corpus = file.read()
    sequences = sequences_of(corpus, args.corpus, tokenizer, args.max_tokens)
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=getattr(torch, args.dtype),
                                                 attn_implementation=args.attention).to(args.device).eval()
    store = "hidden" if args.hidden else "logits"
    parts = {store: [], "token_ids": [], "sequence_ids": [], "positions": []}
    for begin in range(0, len(sequences), args.batch_size):
        batch = sequences[begin:begin + args.batch_size]
        for (sequence, ids), rows in zip(batch, run(model, batch, args.device, args.hidden)):
            first = max(0, len(rows) - args.last) if args.last else 0  # row t predicts token t + 1
            parts[store].append(rows[first:])
            parts["token_ids"].append(torch.tensor(ids[1 + first:]))
            parts["sequence_ids"].append(torch.full((len(rows) - first,), sequence))
            parts["positions"].append(torch.arange(first, len(rows)))
    kernel = args.kernel or "-".join(["hf", type(model).__name__, args.dtype, args.attention] +
                                     (["unrounded-logits"] if args.unrounded_logits else []))
    save(args.out, parts, {"capture.version": "1", "kernel": kernel, "checkpoint.digest": args.checkpoint_digest,
                           "corpus.digest": "sha256:" + hashlib.sha256(corpus).hexdigest(), "temperature": "1.0",
                           "token_source": "corpus", "sampling_filter": "none", **(head_of(model) if args.hidden else {})})


if __name__ == "__main__":
    main()
