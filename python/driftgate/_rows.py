"""What one kernel produced, in the caller's memory: rows as the library takes them, and how sequences are numbered."""

import array
import ctypes
import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union, cast

from . import _abi, _arrays
from ._errors import InvalidArgument

_ID_TYPES = ("int32", "int64")


class Head:
    """The head that turns hidden states into logits: ``scale * (weight @ h + bias)``, then ``cap * tanh(x / cap)``.

    ``weight`` is [vocabulary, width] and stays where it is. Make one head for all captures that share it, because a
    digest of it is computed once. ``vocabulary`` is the number of rows that are tokens, where the rest is padding.
    """

    def __init__(self, weight: Any, bias: Any = None, *, vocabulary: Optional[int] = None, scale: float = 1.0,
                 soft_cap: Optional[float] = None) -> None:
        seen = _arrays.rows(weight, "weight")
        if len(seen.blocks) != 1 or seen.blocks[0].stride != seen.columns:
            raise InvalidArgument("weight: its rows do not follow each other; give weight.contiguous()")
        _in_host_memory(seen, "weight")
        scale, cap = _abi.real(scale, "scale"), 0.0 if soft_cap is None else _abi.real(soft_cap, "soft_cap")
        if not (math.isfinite(scale) and scale):
            raise InvalidArgument(f"scale: {scale!r}; give a number other than 0 (1.0: logits as they are)")
        options = _abi.HeadOptions(rows=seen.rows, vocabulary=_vocabulary(vocabulary), scale=scale, soft_cap=cap)
        options.weight = _matrix(seen)
        keep: List[object] = [seen]
        if bias is not None:
            given = _arrays.view(bias, "bias")
            _in_host_memory(given, "bias")
            if given.dtype not in _arrays.FLOATS or given.shape != (seen.rows,) or given.strides != (1,):
                raise InvalidArgument(f"bias: {list(given.shape)} of {given.dtype}; give [{seen.rows}] adjacent "
                                      "elements of float32, bfloat16 or float16")
            options.bias, options.bias_dtype = given.address, _abi.DTYPES[given.dtype]
            keep.append(given)
        self.vocabulary = options.vocabulary or seen.rows
        self.width = seen.columns
        self._handle = _new(_abi.lib.dg_head_from_memory, _abi.lib.dg_head_close, keep, ctypes.byref(options))


class Hidden:
    """Hidden states [rows, width] (or [sequences, rows, width], or a list), what ``head`` is multiplied with."""

    def __init__(self, states: Any, head: Head) -> None:
        if not isinstance(head, Head):
            raise InvalidArgument(f"head: {type(head).__name__} is no driftgate.Head; give driftgate.Head(weight)")
        self.states, self.head = states, head


class TopK:
    """The tokens that an engine listed for each row, and their log-probabilities in nats: both [rows, k], ids int32 or
    int64, log-probabilities float32. -1 fills short lists. ``matched``: the caller chose the tokens, the same ones for
    both kernels."""

    def __init__(self, ids: Any, logprobs: Any, *, vocabulary: Optional[int] = None, matched: bool = False) -> None:
        self.ids, self.logprobs, self.vocabulary, self.matched = ids, logprobs, vocabulary, matched


class Logprobs:
    """Log-probabilities of the target tokens alone, in nats, float32, one for each row."""

    def __init__(self, values: Any, *, vocabulary: Optional[int] = None) -> None:
        self.values, self.vocabulary = values, vocabulary


def _new(make: Any, close: Any, keep: object, *arguments: Any) -> "_abi.Handle":
    out = ctypes.c_void_p()
    _abi.check(make(*arguments, ctypes.byref(out), None))
    return _abi.Handle(out.value or 0, close, keep)


def _vocabulary(given: Optional[int]) -> int:
    return 0 if given is None else _abi.whole(given, "vocabulary", 1)


def _in_host_memory(seen: Any, what: str) -> None:
    if seen.device_type not in (_arrays.CPU, _arrays.CUDA_HOST, 11, _arrays.CUDA_MANAGED):
        raise InvalidArgument(f"{what}: it is not in the processor's memory; give x.cpu()")


def _matrix(seen: _arrays.Rows) -> _abi.Matrix:
    size = _arrays.SIZES[seen.dtype]
    block = seen.blocks[0]
    return _abi.Matrix(block.address, block.stride * size, _abi.DTYPES[seen.dtype], seen.columns)


class Columns(NamedTuple):
    """The ids of rows. Without sequences, all rows are of sequence 0."""

    tokens: Optional[_arrays.Ids]
    sequences: Optional[_arrays.Ids]
    positions: Optional[_arrays.Ids]
    next_sequence: int  # what counting goes on with: above every number so far


class Prepared(NamedTuple):
    """Rows in the library's form. With several blocks, each is a `_abi.Rows` of consecutive rows."""

    blocks: Tuple[_abi.Rows, ...]
    rows: int
    steps: Tuple[int, ...]  # rows of each sequence, where the shape tells them
    device: str  # where the rows are: "cpu", "cuda:0"
    columns: Columns
    can_keep_rows: bool
    size: int  # bytes of the matrix
    keep: object


class _Source(NamedTuple):
    """The members of `_abi.Rows` that hold distributions."""

    seen: Optional[_arrays.Rows]  # of logits or hidden states
    member: str  # "logits" or "hidden"
    rows: int
    steps: Tuple[int, ...]
    fields: Dict[str, Any]
    keep: object


def _list_of(source: Any, kinds: Tuple[str, ...], what: str) -> Tuple[_arrays.View, _abi.Matrix]:
    seen = _arrays.view(source, what)
    _in_host_memory(seen, what)
    if seen.dtype not in kinds or len(seen.shape) != 2 or not _arrays.is_contiguous(seen):
        raise InvalidArgument(f"{what}: {list(seen.shape)} of {seen.dtype}; give contiguous [rows, k] of "
                              f"{' or '.join(kinds)}")
    return seen, _abi.Matrix(seen.address, 0, _abi.DTYPES[seen.dtype], seen.shape[1])


def _floats_of(source: Any, rows: Optional[int], what: str) -> _arrays.View:
    seen = _arrays.view(source, what)
    _in_host_memory(seen, what)
    count = 1
    for extent in seen.shape:
        count *= extent
    if seen.dtype != "float32" or not _arrays.is_contiguous(seen) or count != (count if rows is None else rows):
        raise InvalidArgument(f"{what}: {list(seen.shape)} of {seen.dtype}; give contiguous float32, one for each row")
    return seen


def _open(source: Any, what: str) -> _Source:
    if isinstance(source, TopK):
        ids, id_matrix = _list_of(source.ids, _ID_TYPES, f"{what}.ids")
        values, value_matrix = _list_of(source.logprobs, ("float32",), f"{what}.logprobs")
        if ids.shape != values.shape:
            raise InvalidArgument(f"{what}: ids are {list(ids.shape)} and logprobs {list(values.shape)}; give one "
                                  "log-probability for each id")
        fields = {"topk_ids": id_matrix, "topk_logprobs": value_matrix,
                  "vocabulary": _vocabulary(source.vocabulary),
                  "matched": int(source.matched)}
        return _Source(None, "", ids.shape[0], (), fields, (ids, values))
    if isinstance(source, Logprobs):
        values = _floats_of(source.values, None, what)
        count = 1
        for extent in values.shape:
            count *= extent
        steps = (values.shape[1],) * values.shape[0] if len(values.shape) == 2 else ()
        return _Source(None, "", count, steps, {"logprobs": values.address,
                                                    "vocabulary": _vocabulary(source.vocabulary)}, values)
    if isinstance(source, Hidden):
        seen = _arrays.rows(source.states, what)
        _in_host_memory(seen, what)
        return _Source(seen, "hidden", seen.rows, seen.steps, {"head": source.head._handle.value}, (seen, source))
    seen = _arrays.rows(source, what)
    return _Source(seen, "logits", seen.rows, seen.steps, {}, seen)


def _counted(steps: Sequence[int], first: int) -> _arrays.Ids:
    """The ids of sequences of so many rows each, counted from `first`."""
    out = array.array("q")
    if first + len(steps) > 2**63 - 1:
        raise InvalidArgument(f"sequences: no number is left behind {first - 1}; give smaller ones")
    for index, count in enumerate(steps):
        out.extend(array.array("q", (first + index,)) * count)
    return _arrays.Ids(out.buffer_info()[0], len(out), out)


def _values(ids: Optional[_arrays.Ids]) -> Sequence[int]:
    return cast(Sequence[int], (ctypes.c_int64 * ids.length).from_address(ids.address)) if ids else ()


def _columns_of(opened: _Source, tokens: Any, sequences: Any, positions: Any, first: int,
                beside: Tuple[int, ...]) -> Columns:
    rows, following = opened.rows, max(first, 1)
    shape = opened.steps or (beside if sum(beside) == rows else ())
    if sequences is not None:
        numbered = _arrays.ids(sequences, rows, "sequences", shape)
        following = max(first, max(_values(numbered), default=first) + 1)
    elif shape or first:
        steps = shape or (rows,)
        numbered, following = _counted(steps, first), first + len(steps)
    else:
        numbered = None
    return Columns(_arrays.ids(tokens, rows, "tokens", shape), numbered,
                   _arrays.ids(positions, rows, "positions", shape), following)


def _columns_like(opened: _Source, what: str, like: Prepared) -> Columns:
    """The ids of the other side, which is of the same rows."""
    if opened.rows != like.rows:
        raise InvalidArgument(f"train has {like.rows} rows and {what} {opened.rows}; give the same rows of both",
                              "not_comparable")
    if opened.steps and like.steps and opened.steps != like.steps:
        raise InvalidArgument(f"train has {len(like.steps)} sequences and {what} {len(opened.steps)}, or they are of "
                              "other lengths; give the same rows of both", "not_comparable")
    return like.columns


def prepare(source: Any, what: str, *, tokens: Any = None, sequences: Any = None, positions: Any = None,
            logprobs: Any = None, first_sequence: int = 0, beside: Tuple[int, ...] = (),
            like: Optional[Prepared] = None) -> Prepared:
    """The rows of `source`, none of them copied. Sequences that are not given are counted from `first_sequence`.
    `beside`: the rows of each sequence by the other kernel's shape, where this one's does not tell them. `like`: rows of
    the other kernel, whose ids these rows have."""
    opened = source if isinstance(source, _Source) else _open(source, what)
    columns = (_columns_of(opened, tokens, sequences, positions, first_sequence, beside) if like is None
               else _columns_like(opened, what, like))
    whole = _abi.Rows(_abi.ROWS_BYTES, 0, opened.rows)
    for name, value in opened.fields.items():
        setattr(whole, name, value)
    if columns.tokens is not None:
        whole.tokens = columns.tokens.address
    if columns.sequences is not None:
        whole.sequences = columns.sequences.address
    if columns.positions is not None:
        whole.positions = columns.positions.address
    keep: Tuple[object, ...] = (opened.keep, columns)
    if logprobs is not None:
        said = _floats_of(logprobs, opened.rows, "logprobs")
        _arrays.check_shape(said.shape, opened.steps, "logprobs")
        whole.logprobs = said.address
        keep += (said,)
    seen, device = opened.seen, "cpu"
    if seen is None:
        return Prepared((whole,), opened.rows, opened.steps, device, columns, False, 0, keep)
    if seen.device_type == _arrays.CUDA:
        device = f"cuda:{seen.device_id}"
        whole.memory = _abi.MEMORY_CUDA
    elif seen.device_type != _arrays.CPU:
        _in_host_memory(seen, what)
    setattr(whole, opened.member, _matrix(seen))
    blocks = (whole,) if len(seen.blocks) == 1 else _blocks_of(seen, whole, opened.member)
    size = seen.rows * seen.columns * _arrays.SIZES[seen.dtype]
    return Prepared(blocks, seen.rows, opened.steps, device, columns, True, size, keep)


def prepare_both(train: Any, inf: Any, **columns: Any) -> Tuple[Prepared, Prepared]:
    """Both kernels' rows, whose sequences the shape of either tells."""
    opened = (_open(train, "train"), _open(inf, "inf"))
    first = prepare(opened[0], "train", beside=() if opened[0].steps else opened[1].steps, **columns)
    return first, prepare(opened[1], "inf", like=first)


def _blocks_of(seen: _arrays.Rows, whole: _abi.Rows, member: str) -> Tuple[_abi.Rows, ...]:
    """Each block of memory apart, with the ids of its rows."""
    made, done = [], 0
    for block in seen.blocks:
        rows = _part(whole, done, block.rows)
        matrix = getattr(rows, member)
        matrix.data, matrix.row_stride_bytes = block.address, block.stride * _arrays.SIZES[seen.dtype]
        made.append(rows)
        done += block.rows
    return tuple(made)


def _part(rows: _abi.Rows, first: int, count: int) -> _abi.Rows:
    """`count` of the rows from `first` on."""
    out = _abi.Rows.from_buffer_copy(rows)
    out.rows = count
    for name, width in (("tokens", 8), ("sequences", 8), ("positions", 8), ("logprobs", 4)):
        address = getattr(rows, name)
        if address:
            setattr(out, name, address + width * first)
    for name in ("logits", "hidden"):
        matrix = getattr(rows, name)
        if matrix.data:
            getattr(out, name).data = matrix.data + matrix.row_stride_bytes * first
    return out


def pairs(train: Prepared, inf: Prepared) -> Iterator[Tuple[_abi.Rows, _abi.Rows]]:
    """The rows of both in the longest pieces that are one block in each."""
    if len(train.blocks) == 1 and len(inf.blocks) == 1:
        yield train.blocks[0], inf.blocks[0]
        return
    i = j = at_train = at_inf = 0
    while i < len(train.blocks) and j < len(inf.blocks):
        count = min(train.blocks[i].rows - at_train, inf.blocks[j].rows - at_inf)
        yield _part(train.blocks[i], at_train, count), _part(inf.blocks[j], at_inf, count)
        at_train, at_inf = at_train + count, at_inf + count
        if at_train == train.blocks[i].rows:
            i, at_train = i + 1, 0
        if at_inf == inf.blocks[j].rows:
            j, at_inf = j + 1, 0


Source = Union[Hidden, TopK, Logprobs, Any]
