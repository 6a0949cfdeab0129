"""driftgate.drift and driftgate.Accumulator."""

import ctypes
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, cast

from . import _abi, _arrays, _rows
from ._corpus import Slices, open_corpus
from ._errors import DriftgateError, InvalidArgument
from ._rows import _new
from ._running import ProgressFunction, Running, options_of
from .capture import Capture, Identity, _capture_of
from .contract import Contract
from .result import Drift

KEPT_ROWS = 1_000_000  # whose figures are kept without being asked for

Side = Union[str, "os.PathLike[str]", Capture, _rows.Source]


def _is_path(source: Any) -> bool:
    return isinstance(source, str) or hasattr(source, "__fspath__")


def _seen(numbers: Any, rows: int) -> List[int]:
    """Ids by first appearance."""
    ids = _arrays.ids(numbers, rows, "sequences")
    return list(dict.fromkeys((ctypes.c_int64 * ids.length).from_address(ids.address))) if ids else [0]


class _Side:
    """One kernel's rows: a capture, or arrays, which may be of more than one block; only an accumulator takes those."""

    __slots__ = ("what", "capture", "prepared", "identity", "rows", "device")

    def __init__(self, what: str, capture: Optional[Capture], prepared: Optional[_rows.Prepared],
                 identity: Identity) -> None:
        self.what, self.capture, self.prepared, self.identity = what, capture, prepared, identity
        if prepared is not None:
            self.rows, self.device = prepared.rows, prepared.device
        elif capture is not None:
            self.rows, self.device = capture.rows, capture._device

    @property
    def size(self) -> int:
        """About its bytes."""
        return self.prepared.size if self.prepared else 4 * self.rows * self.capture.columns if self.capture else 0

    @property
    def is_whole(self) -> bool:
        return self.prepared is None or len(self.prepared.blocks) == 1

    @property
    def can_keep_rows(self) -> bool:
        return self.prepared.can_keep_rows if self.prepared else self.capture is not None and self.capture.mode in (
            "full", "hidden")

    def sequences(self) -> List[int]:
        """By first appearance."""
        if self.capture is not None:
            return list(dict.fromkeys(self.capture.sequences))
        return _seen(self.prepared.columns.sequences, self.rows) if self.prepared else [0]

    def open(self) -> _abi.Handle:
        if self.prepared is not None:
            return _capture_of(self.prepared, self.identity, self.what)
        assert self.capture is not None
        _arrays.wait_for_device(self.device)  # its rows may have been written since it was made
        return self.capture._handle

    def beside(self, source: _rows.Source, what: str) -> Capture:
        """The same rows by the same kernel once more, in memory."""
        capture, like = self.capture, self.prepared
        columns: Dict[str, Any] = {} if capture is None else {
            "tokens": capture.tokens, "sequences": capture.sequences, "positions": capture.positions}
        prepared = _rows.prepare(source, what, like=like, **columns)
        return Capture._made(_capture_of(prepared, self.identity, what), prepared.device)


def _sides(train: Side, inf: Side, columns: Dict[str, Any], identity: Dict[str, Any],
           kernels: Tuple[str, str]) -> Tuple[_Side, _Side]:
    stated = {name: value for name, value in identity.items() if value is not None}
    if _is_path(train):
        train = Capture.open(cast(str, train))
    if _is_path(inf):
        inf = Capture.open(cast(str, inf))
    if isinstance(train, Capture) and isinstance(inf, Capture):
        given = [name for name, value in {**columns, **stated}.items() if value is not None]
        if given:
            raise InvalidArgument(f"{given[0]}: captures hold it themselves; leave it out, or give it to "
                                  "driftgate.Capture.of")
        return _Side("train", train, None, train.identity), _Side("inf", inf, None, inf.identity)
    if not isinstance(train, Capture) and not isinstance(inf, Capture):
        of_train, of_inf = _rows.prepare_both(train, inf, **columns)
        return (_Side("train", None, of_train, Identity(kernels[0], **stated)),
                _Side("inf", None, of_inf, Identity(kernels[1], **stated)))
    made = []
    beside = train if isinstance(train, Capture) else cast(Capture, inf)
    said = beside.identity
    for what, source, kernel in zip(("train", "inf"), (train, inf), kernels):
        if isinstance(source, Capture):
            made.append(_Side(what, source, None, said))
            continue  # the array beside a capture is of the same rows, unless something else is said
        columns = {name: getattr(beside, name) if value is None else value for name, value in columns.items()}
        made.append(_Side(what, None, _rows.prepare(source, what, **columns), said._replace(kernel=kernel, **stated)))
    return made[0], made[1]


def _place_of(train: _Side, inf: _Side) -> str:
    """Where the rows are: "cpu" or "cuda:N"."""
    if train.device != inf.device:
        raise InvalidArgument(f"train and inf: the rows are on {' and '.join(sorted((train.device, inf.device)))}; "
                              "give both in one place (of a tensor: x.cpu())")
    return train.device


def _sequences_of(train: _Side, inf: _Side, given: Any) -> List[int]:
    """The ids of the sequences by first appearance."""
    if given is not None:
        return _seen(given, train.rows)
    return (inf if train.capture is None and inf.capture is not None else train).sequences()


def _floors(given: Any, what: str, side: _Side) -> List[Capture]:
    """Captures of the same kernel as `side`, whose ids arrays have."""
    if given is None:
        return []
    sides: List[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(sides) > 2:
        raise InvalidArgument(f"{what}: {len(sides)} captures; give one, which is compared with the capture itself, or "
                              "two, which are compared with each other")
    return [one if isinstance(one, Capture) else Capture.open(one) if _is_path(one) else side.beside(one, what)
            for one in sides]


def drift(train: Side, inf: Side, tokens: Any = None, sequences: Any = None, positions: Any = None,
          slices: Optional[Slices] = None, contract: Union[Contract, str, "os.PathLike[str]", Mapping[str, Any],
                                                           None] = None, *,
          corpus: Union[str, "os.PathLike[str]", Sequence[Mapping[str, Any]], None] = None,
          floor_train: Any = None, floor_inf: Any = None, device: Optional[str] = None,
          threads: Optional[int] = None, metrics: str = "all", top_k: Optional[int] = None,
          top_rows: Optional[int] = None, keep_rows: Optional[bool] = None,
          progress: Optional[ProgressFunction] = None, train_kernel: str = "train", inf_kernel: str = "inf",
          checkpoint: Optional[str] = None, corpus_digest: Optional[str] = None, token_source: Optional[str] = None,
          sampling_filter: Optional[str] = None, temperature: Optional[float] = None) -> Drift:
    """Measures the drift of an inference kernel from its training kernel, and decides a contract.

    ``train`` and ``inf`` are paths of captures, `Capture` objects, or logits before any temperature: anything with
    ``__dlpack__`` or a buffer, float32, bfloat16 or float16, of the shape [rows, vocabulary] (one sequence) or
    [sequences, rows, vocabulary], or a list with one [rows, vocabulary] for each sequence. `Hidden`, `TopK` and
    `Logprobs` wrap what is no logits. Nothing is copied; the interpreter's lock is released meanwhile.

    ``tokens``, ``sequences``, ``positions``: one integer for each row; ``tokens`` are those that follow the rows.
    ``slices``: {attribute: values} or a list of {attribute: value}, one for each sequence; or {sequence: {attribute:
    value}}. ``corpus``: the same as a file of JSON Lines or its objects. ``contract``: a path, a mapping or a
    `Contract`. ``floor_train``, ``floor_inf``: the same rows by the same kernel with another batch size, as a capture, its
    path or an array, or a list of two of them, which are compared with each other.
    ``progress(done, total)`` is called between batches and stops the measurement where it returns true.
    """
    columns = {"tokens": tokens, "sequences": sequences, "positions": positions}
    identity = {"checkpoint": checkpoint, "corpus_digest": corpus_digest, "token_source": token_source,
                "sampling_filter": sampling_filter, "temperature": temperature}
    of_train, of_inf = _sides(train, inf, columns, identity, (train_kernel, inf_kernel))
    place = _place_of(of_train, of_inf)
    held = open_corpus(slices, corpus, lambda: _sequences_of(of_train, of_inf, sequences))
    agreed = None if contract is None else Contract.of(contract)
    if keep_rows is None:
        keep_rows = of_train.rows <= KEPT_ROWS and of_train.can_keep_rows and of_inf.can_keep_rows
    running = Running(progress, max(of_train.size, of_inf.size))
    options = options_of(device=device or place, threads=threads, metrics=metrics, top_k=top_k, top_rows=top_rows,
                         keep_rows=keep_rows, running=running)
    floors = (_floors(floor_train, "floor_train", of_train), _floors(floor_inf, "floor_inf", of_inf))
    if not (of_train.is_whole and of_inf.is_whole):
        return _in_blocks((of_train, of_inf), held, agreed, floors, options, running)
    opened = of_train.open(), of_inf.open()
    inputs = _abi.Inputs(train=opened[0].value, inf=opened[1].value, corpus=held.value if held else None,
                         contract=agreed._handle.value if agreed else None)
    for index, capture in enumerate(floors[0]):
        inputs.floor_train[index] = capture._handle.value
    for index, capture in enumerate(floors[1]):
        inputs.floor_inf[index] = capture._handle.value
    return Drift(running.measure(_abi.lib.dg_measure, ctypes.byref(inputs), ctypes.byref(options)))


def _in_blocks(sides: Tuple[_Side, _Side], corpus: Optional[_abi.Handle], contract: Optional[Contract],
               floors: Tuple[Any, Any], options: _abi.Options, running: Running) -> Drift:
    """Rows that are several blocks of memory, such as logits[:, :-1], one block after the other: the same figures."""
    train, inf = sides[0].prepared, sides[1].prepared
    if any(floors) or train is None or inf is None:
        raise InvalidArgument("train or inf: its rows are several blocks of memory, which cannot be compared with a "
                              "capture or beside noise floors in place; give a contiguous copy (x.contiguous())")
    adding = _abi.AccumulatorOptions(train=ctypes.pointer(sides[0].identity._struct()),
                                     inf=ctypes.pointer(sides[1].identity._struct()),
                                     corpus=corpus.value if corpus else None,
                                     contract=contract._handle.value if contract else None,
                                     options=ctypes.pointer(options), max_rows=train.rows)
    handle = _new(_abi.lib.dg_accumulator_create, _abi.lib.dg_accumulator_close, None, ctypes.byref(adding))
    _add_blocks(handle, train, inf, running)
    return Drift(running.measure(_abi.lib.dg_accumulator_finish, handle.value))


def _add_blocks(handle: _abi.Handle, train: _rows.Prepared, inf: _rows.Prepared, running: Running) -> None:
    done = 0
    for of_train, of_inf in _rows.pairs(train, inf):
        running.expect(done, train.rows)
        running.run(_abi.lib.dg_accumulator_add, handle.value, ctypes.byref(of_train), ctypes.byref(of_inf), None)
        done += of_train.rows


class Accumulator:
    """Takes batches during a run and reports on all of them as one `drift` would, to the bit.

    The batches may be used for something else after `add`. About 210 bytes are kept for each row, and no logits. A batch
    that fails is not in, unless it is several blocks of memory and a later one fails: then the object refuses everything.
    """

    def __init__(self, *, contract: Union[Contract, str, "os.PathLike[str]", Mapping[str, Any], None] = None,
                 slices: Optional[Slices] = None,
                 corpus: Union[str, "os.PathLike[str]", Sequence[Mapping[str, Any]], None] = None,
                 device: str = "cpu", threads: Optional[int] = None, metrics: str = "all",
                 top_k: Optional[int] = None, top_rows: Optional[int] = None, keep_rows: bool = False,
                 max_rows: Optional[int] = None, progress: Optional[ProgressFunction] = None,
                 train_kernel: str = "train", inf_kernel: str = "inf", checkpoint: str = "", corpus_digest: str = "",
                 token_source: str = "corpus", sampling_filter: str = "none", temperature: float = 1.0) -> None:
        """`slices` or `corpus` hold every sequence that will be added. `max_rows`: 16,777,216 if not given."""
        self._running = Running(progress)
        rest = (checkpoint, corpus_digest, token_source, sampling_filter, temperature)
        sides = [Identity(kernel, *rest)._struct() for kernel in (train_kernel, inf_kernel)]
        held = open_corpus(slices, corpus, lambda: None)
        agreed = None if contract is None else Contract.of(contract)
        most = 0 if max_rows is None else _abi.whole(max_rows, "max_rows", 1, 2**63 - 1)
        options = options_of(device=device, threads=threads, metrics=metrics, top_k=top_k, top_rows=top_rows,
                             keep_rows=keep_rows, running=self._running)
        made = _abi.AccumulatorOptions(train=ctypes.pointer(sides[0]), inf=ctypes.pointer(sides[1]),
                                       corpus=held.value if held else None,
                                       contract=agreed._handle.value if agreed else None,
                                       options=ctypes.pointer(options), max_rows=most)
        self._handle = _new(_abi.lib.dg_accumulator_create, _abi.lib.dg_accumulator_close, self._running,
                            ctypes.byref(made))
        self._next = 0
        self._is_in_half = False  # some rows of a batch are in, and the rest is not
        self._heads: Tuple[object, ...] = ()  # the library knows them again by their addresses

    def add(self, train: _rows.Source, inf: _rows.Source, tokens: Any = None, sequences: Any = None,
            positions: Any = None) -> None:
        """Measures a batch and adds it. Without `sequences`, [rows, vocabulary] is one more sequence and [sequences,
        rows, vocabulary] is as many more; a sequence that goes on over several batches is given by its number."""
        columns = {"tokens": tokens, "sequences": sequences, "positions": positions}
        self._check_whole()
        of_both, of_inf = _rows.prepare_both(train, inf, first_sequence=self._next, **columns)
        self._heads = (getattr(train, "head", None), getattr(inf, "head", None))
        before = len(self)
        self._is_in_half = True
        try:
            _add_blocks(self._handle, of_both, of_inf, self._running)
        finally:  # an interrupt may come behind the last row as well
            added = len(self) - before
            if added == of_both.rows:
                self._next = of_both.columns.next_sequence
            self._is_in_half = 0 < added < of_both.rows

    def _check_whole(self) -> None:
        if self._is_in_half:
            raise DriftgateError("accumulator: a batch failed when a part of its rows was in; begin anew with another "
                                 "driftgate.Accumulator, and give contiguous rows (x.contiguous()), which are added as "
                                 "a whole or not at all", "conflict")

    def __len__(self) -> int:
        return int(_abi.lib.dg_accumulator_rows(self._handle.value))

    def finish(self) -> Drift:
        """The drift of all rows so far. More may follow, and so may another `finish`."""
        self._check_whole()
        return Drift(self._running.measure(_abi.lib.dg_accumulator_finish, self._handle.value))
