"""Captures of what engines say: log-probabilities of target tokens and lists of likely tokens; and files that engines write."""

import json
import os
import struct
from typing import Any, Dict, List, Optional, Sequence, Tuple

NO_TOKEN, UNKNOWN = -1, -9999.0  # fill short lists (docs/drift.md)
_MOST_HEADER = 100 << 20
_DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8", "I16": "<i2", "I8": "<i1", "U8": "<u1",
           "BOOL": "<?"}


def _numpy():
    from . import need

    return need("numpy", "numpy", "writing and reading captures")


def read(path: str, wanted: Optional[Sequence[str]] = None) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """(tensors, metadata) of a safetensors file; bfloat16 comes as a torch tensor, everything else as a numpy array.

    ValueError for a file that is none, KeyError for a wanted tensor that it lacks.
    """
    np = _numpy()
    with open(path, "rb") as file:
        header, length, size = _header(path, file)
        try:
            metadata = header.pop("__metadata__", {})
            out = {}
            for name in header if wanted is None else wanted:
                entry = header[name]
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= size - 8 - length:
                    raise ValueError(f"{path}: tensor {name} lies outside the file")
                file.seek(8 + length + begin)
                out[name] = _tensor(np, file.read(end - begin), entry)
        except (AttributeError, TypeError) as fault:
            raise ValueError(f"{path} is no safetensors file: {fault}") from fault
    return out, metadata


def _header(path: str, file: Any) -> Tuple[Dict[str, Any], int, int]:
    """(header, its length, size of the file)."""
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else _MOST_HEADER + 1
    size = os.fstat(file.fileno()).st_size
    if length > _MOST_HEADER or 8 + length > size:
        raise ValueError(f"{path} is no safetensors file: its header would have {length} bytes")
    try:
        header = json.loads(file.read(length))
    except ValueError as fault:
        raise ValueError(f"{path} is no safetensors file: {fault}") from fault
    if not isinstance(header, dict):
        raise ValueError(f"{path} is no safetensors file: its header is no object")
    return header, length, size


def _names(path: str) -> List[str]:
    with open(path, "rb") as file:
        return [name for name in _header(path, file)[0] if name != "__metadata__"]


def _tensor(np: Any, data: bytes, entry: Dict[str, Any]) -> Any:
    if entry["dtype"] == "BF16":
        from . import need

        torch = need("torch", "PyTorch", "reading bfloat16 tensors")
        bits = np.frombuffer(data, "<i2").reshape(entry["shape"]).copy()
        return torch.from_numpy(bits).view(torch.bfloat16)
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"tensors of type {entry['dtype']} cannot be read")
    return np.frombuffer(data, _DTYPES[entry["dtype"]]).reshape(entry["shape"])


def parts_of_checkpoint(folder: str) -> Dict[str, Any]:
    """{"head": driftgate.Head, "norm": (weight, eps)} of a checkpoint folder in the layout of transformers: config.json and
    safetensors files. What capture_of_files of vLLM's hidden states needs.

    KeyError for a checkpoint whose head or last norm has another name than lm_head.weight (or, tied,
    model.embed_tokens.weight) and model.norm.weight.
    """
    import driftgate

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config") or config
    found = {name: path for path in sorted(os.listdir(folder)) if path.endswith(".safetensors")
             for name in _names(os.path.join(folder, path))}

    def tensor(*choices: str) -> Any:
        for name in choices:
            if name in found:
                return read(os.path.join(folder, found[name]), [name])[0][name]
        raise KeyError(f"{folder} has no tensor {' or '.join(choices)}")

    tied = ("model.embed_tokens.weight",) if config.get("tie_word_embeddings", False) else ()
    norm = tensor("model.norm.weight")
    norm = norm.float() if hasattr(norm, "float") else _numpy().array(norm, "<f4")
    if str(config.get("model_type", "")).startswith("gemma"):
        norm = norm + 1  # these store what is added to 1
    scale = config.get("logit_scale") or 1 / (config.get("logits_scaling") or 1)
    weight = tensor("lm_head.weight", *tied)
    head = driftgate.Head(weight if hasattr(weight, "detach") else _numpy().array(weight), scale=float(scale),
                          soft_cap=config.get("final_logit_softcapping") or None)
    return {"head": head, "norm": (norm, float(config.get("rms_norm_eps", 1e-6)))}


class Row:
    """What an engine said of one position: the target token and its log-probability, and a list of likely tokens."""

    __slots__ = ("sequence", "position", "token", "logprob", "listed")

    def __init__(self, sequence: int, position: int, token: int, logprob: Optional[float],
                 listed: Optional[Dict[int, Optional[float]]] = None):
        self.sequence, self.position, self.token, self.logprob = sequence, position, token, logprob
        self.listed = listed or {}


def _known(value: Optional[float]) -> float:
    """A log-probability as captures store it: NaN stays, which is a fault of the engine; nothing and -inf are unknown."""
    return UNKNOWN if value is None else float(value) if value != value else max(float(value), UNKNOWN)


def write_rows(path: str, rows: Sequence[Row], kernel: str, *, vocabulary: int = 0, matched: bool = False,
               **identity: Any) -> int:
    """Writes rows as a capture, a folder: of lists, or of target tokens alone where no row has one. Returns the rows.

    `identity` is that of `driftgate.CaptureWriter`; `matched`: the caller chose the listed tokens.
    """
    import driftgate

    np = _numpy()
    if not rows:
        raise ValueError("there is no row with a log-probability: nothing was written")
    said = np.array([_known(r.logprob) for r in rows], np.float32)
    columns = max(len(r.listed) for r in rows)
    source: Any = driftgate.Logprobs(said, vocabulary=vocabulary or None)
    extra: Dict[str, Any] = {}
    if columns:
        ids = np.full((len(rows), columns), NO_TOKEN, np.int64)
        values = np.full((len(rows), columns), UNKNOWN, np.float32)
        for number, row in enumerate(rows):
            likely = sorted(row.listed.items(), key=lambda item: (-_known(item[1]), item[0]))
            for column, (token, value) in enumerate(likely):
                ids[number, column], values[number, column] = token, _known(value)
        source = driftgate.TopK(ids, values, vocabulary=vocabulary or None, matched=matched)
        extra = {"logprobs": said}
    with driftgate.CaptureWriter(path, kernel, **identity) as writer:
        writer.append(source, tokens=np.array([r.token for r in rows], np.int64),
                      sequences=np.array([r.sequence for r in rows], np.int64),
                      positions=np.array([r.position for r in rows], np.int64), **extra)
    return len(rows)


def drift_of_logprobs(rows: List[Tuple[Any, Any, Any]], *, contract: Any = None, train_kernel: str = "train",
                      inf_kernel: str = "rollout", **identity: Any) -> Any:
    """The Drift of sequences (log-probabilities of the training kernel, of the inference kernel, token ids), in memory.
    The inference kernel sampled the tokens."""
    import driftgate

    np = _numpy()
    lengths = [len(row[2]) for row in rows]
    where = {"tokens": np.concatenate([np.asarray(row[2]) for row in rows]).astype(np.int64),
             "sequences": np.repeat(np.arange(len(rows)), lengths).astype(np.int64)}
    sides = [driftgate.Capture.of(
        driftgate.Logprobs(np.concatenate([np.asarray(row[side]) for row in rows]).astype(np.float32)),
        kernel=kernel, token_source=inf_kernel, name=kernel, **where, **identity)
        for side, kernel in enumerate((train_kernel, inf_kernel))]
    return driftgate.drift(*sides, contract=contract)
