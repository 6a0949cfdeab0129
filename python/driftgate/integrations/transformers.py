"""transformers: captures of a causal language model, and the drift of two of them in one process.

    sequences = tokenized(tokenizer, texts)
    drift = compare(reference, served, sequences, contract="drift.yaml")     # no file is written
    capture(reference, sequences, "train", kernel="hf-f32")                  # a folder that driftgate drift reads

`sequences` are (number, token ids). The row of position t holds what the model says of the token at t + 1, so that a
sequence of n tokens has n − 1 rows. docs/integrations/transformers.md.
"""

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple


class Rows(NamedTuple):
    """The rows of one sequence, where the model computed them."""

    sequence: int
    rows: Any  # [rows, vocabulary] logits or [rows, width] hidden states
    tokens: Any  # [rows] int64 target tokens
    positions: Any  # [rows] int64


def _torch() -> Any:
    from . import need

    return need("torch", "PyTorch", "running a transformers model")


def tokenized(tokenizer: Any, texts: Iterable[Any], most: int = 512) -> List[Tuple[int, List[int]]]:
    """(number, token ids) of each text that has two tokens or more. `texts`: strings, or (number, string)."""
    out = []
    for count, item in enumerate(texts):
        number, text = item if isinstance(item, tuple) else (count, item)
        ids = list(tokenizer(text, truncation=True, max_length=most)["input_ids"])
        if len(ids) > 1:
            out.append((int(number), ids))
    return out


def kernel_of(model: Any) -> str:
    """A name for the kernel that a model is: its class, dtype and attention."""
    dtype = str(next(model.parameters()).dtype).replace("torch.", "")
    attention = getattr(model.config, "_attn_implementation", None) or "default"
    return f"hf-{type(model).__name__}-{dtype}-{attention}"


def head_of(model: Any) -> Any:
    """The driftgate.Head that makes logits of the model's last hidden states: weight, bias, scale and soft cap."""
    import driftgate

    head, config = model.get_output_embeddings(), model.config
    if head is None or getattr(head, "weight", None) is None:
        raise ValueError(f"{type(model).__name__} has no head with a weight; capture logits")
    weight = head.weight.detach().contiguous().cpu()
    bias = getattr(head, "bias", None)
    scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
    return driftgate.Head(weight, None if bias is None else bias.detach().contiguous().cpu(),
                          soft_cap=getattr(config, "final_logit_softcapping", None) or None, scale=float(scale))


def check_hidden(model: Any, unrounded_logits: bool) -> None:
    """ValueError where hidden states would stand for other logits than the model serves: below float32 a model rounds
    its logits, and driftgate does not round those that it makes of hidden states."""
    torch = _torch()
    dtype = model.get_output_embeddings().weight.dtype
    if dtype != torch.float32 and not unrounded_logits:
        raise ValueError(f"a model in {str(dtype).replace('torch.', '')} rounds its logits, and hidden states leave that "
                         "out: capture logits, or state unrounded_logits=True if the kernel that you serve returns its "
                         "head's product in float32")


def rows_of(model: Any, sequences: Sequence[Tuple[int, Sequence[int]]], *, hidden: bool = False, batch_size: int = 1,
            last: int = 0) -> Iterator[Rows]:
    """Runs the model over the sequences, `batch_size` at a time, padded at their ends, and yields each one's rows.

    `hidden`: the states that the head is applied to, after the last norm. `last`: only the last rows of each sequence.
    """
    torch = _torch()
    if batch_size < 1 or last < 0:
        raise ValueError("batch_size is at least 1, and last at least 0")
    device = next(model.parameters()).device
    items = [(number, list(ids)) for number, ids in sequences if len(ids) > 1]
    was_training = model.training
    model.eval()
    try:
        for begin in range(0, len(items), batch_size):
            batch = items[begin:begin + batch_size]
            longest = max(len(ids) for _, ids in batch)
            inputs = torch.zeros((len(batch), longest), dtype=torch.long)  # padding that nothing looks at
            mask = torch.zeros_like(inputs)
            for row, (_, ids) in enumerate(batch):
                inputs[row, :len(ids)] = torch.tensor(ids)
                mask[row, :len(ids)] = 1
            padded = {} if bool(mask.all()) else {"attention_mask": mask.to(device)}
            with torch.no_grad():
                out = model(inputs.to(device), output_hidden_states=hidden, use_cache=False, **padded)
            values = out.hidden_states[-1] if hidden else out.logits
            for row, (number, ids) in enumerate(batch):
                first = max(0, len(ids) - 1 - last) if last else 0
                yield Rows(number, values[row, first:len(ids) - 1], torch.tensor(ids[1 + first:]),
                           torch.arange(first, len(ids) - 1))
    finally:
        model.train(was_training)


def _columns(rows: Rows) -> Dict[str, Any]:
    torch = _torch()
    return {"tokens": rows.tokens, "positions": rows.positions, "sequences": torch.full_like(rows.tokens, rows.sequence)}


def capture(model: Any, sequences: Sequence[Tuple[int, Sequence[int]]], path: str, *, kernel: Optional[str] = None,
            hidden: bool = False, unrounded_logits: bool = False, batch_size: int = 1, last: int = 0,
            **identity: Any) -> int:
    """Writes a capture, a folder, and returns its rows. `identity`: of driftgate.CaptureWriter (checkpoint, …).

    With `hidden`, hidden states and the head, once: 30 to 60 times smaller with the vocabularies of large models.
    """
    import driftgate

    if hidden:
        check_hidden(model, unrounded_logits)
    head = head_of(model) if hidden else None
    name = kernel or kernel_of(model) + ("-unrounded-logits" if unrounded_logits else "")
    count = 0
    with driftgate.CaptureWriter(path, name, **identity) as writer:
        for rows in rows_of(model, sequences, hidden=hidden, batch_size=batch_size, last=last):
            values = rows.rows.cpu()
            writer.append(driftgate.Hidden(values, head) if hidden else values, **_columns(rows))
            count += len(rows.tokens)
        if not count:
            raise ValueError(f"none of the {len(sequences)} sequences has two tokens or more, so there is no row")
    return count


def compare(train: Any, inf: Any, sequences: Sequence[Tuple[int, Sequence[int]]], *, contract: Any = None,
            hidden: bool = False, unrounded_logits: bool = False, batch_size: int = 1, inf_batch_size: Optional[int] = None,
            last: int = 0, **options: Any) -> Any:
    """The Drift of two models over the sequences: K_train and K_inf run side by side, a batch at a time, and no logits
    are kept. `options`: of driftgate.Accumulator (slices, train_kernel, inf_kernel, …).

    `inf_batch_size` is K_inf's where it differs. A model compared with itself at two batch sizes has its noise floor.
    """
    import driftgate

    heads = (None, None)
    if hidden:
        for model in (train, inf):
            check_hidden(model, unrounded_logits)
        heads = head_of(train), head_of(inf)
    options.setdefault("train_kernel", kernel_of(train))
    options.setdefault("inf_kernel", kernel_of(inf))
    accumulator = driftgate.Accumulator(contract=contract, **options)
    how = {"hidden": hidden, "last": last}
    sides = zip(rows_of(train, sequences, batch_size=batch_size, **how),
                rows_of(inf, sequences, batch_size=inf_batch_size or batch_size, **how))
    for a, b in sides:
        values = [driftgate.Hidden(side.rows.cpu(), head) if hidden else side.rows for side, head in zip((a, b), heads)]
        accumulator.add(*values, **_columns(a))
    return accumulator.finish()
