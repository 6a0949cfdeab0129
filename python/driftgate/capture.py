"""Captures: what one kernel produced, in files or in the caller's memory."""

import ctypes
import functools
import math
import os
from types import TracebackType
from typing import Any, List, NamedTuple, Optional, Type, Union

from . import _abi, _rows
from ._errors import DriftgateError, InvalidArgument
from ._rows import _new

Path = Union[str, "os.PathLike[str]"]


class Identity(NamedTuple):
    """Which kernel, model, corpus and sampling rows are of. Two captures must agree in all of it but ``kernel``."""

    kernel: str = ""
    checkpoint: str = ""  # digest of the model's weights
    corpus_digest: str = ""
    token_source: str = "corpus"  # or the name of the kernel that sampled the target tokens
    sampling_filter: str = "none"  # that was applied to the logits
    temperature: float = 1.0  # the logits are divided by it

    def _struct(self) -> _abi.Identity:
        """For the library; nobody changes it."""
        try:
            return _identity(self)
        except TypeError as fault:
            raise InvalidArgument(f"{self}: {fault}; give text and a number as temperature") from None


@functools.lru_cache(maxsize=64)
def _identity(of: Identity) -> _abi.Identity:
    text, temperature = _abi.Text.of, _abi.real(of.temperature, "temperature")
    if not 1e-6 <= temperature < math.inf:
        raise InvalidArgument(f"temperature: {of.temperature!r}; give a number from 1e-6 on: logits are divided by it (1.0 "
                              "if they are compared as they are, also where sampling is greedy)")
    return _abi.Identity(kernel=text(of.kernel), checkpoint_digest=text(of.checkpoint),
                         corpus_digest=text(of.corpus_digest), token_source=text(of.token_source),
                         sampling_filter=text(of.sampling_filter), temperature=temperature)


def _held(address: Optional[int], size: int, owner: object) -> memoryview:
    """Bytes of the library, read-only, which keep their owner."""
    memory = (ctypes.c_char * size).from_address(address or 0) if size else (ctypes.c_char * 0)()
    memory._owner = owner  # type: ignore[attr-defined]
    return memoryview(memory).toreadonly().cast("B")


class Capture:
    """What one kernel produced on one corpus. Made by `open` or `of`; never changes."""

    _handle: _abi.Handle
    _device: str

    def __init__(self) -> None:
        raise InvalidArgument("a capture is made by driftgate.Capture.open(path) or driftgate.Capture.of(rows)")

    @classmethod
    def _made(cls, handle: _abi.Handle, device: str = "cpu") -> "Capture":
        made = cls.__new__(cls)
        made._handle, made._device = handle, device
        return made

    @functools.cached_property
    def _info(self) -> _abi.CaptureInfo:
        info = _abi.CaptureInfo()
        info.identity.struct_size = ctypes.sizeof(_abi.ReturnedIdentity)
        _abi.check(_abi.lib.dg_capture_get_info(self._handle.value, ctypes.byref(info), None))
        return info

    @classmethod
    def open(cls, path: Path, *, lm_head: Optional[Path] = None, checkpoint: Optional[Path] = None) -> "Capture":
        """Opens a safetensors file, or a folder of them in the order of their names. The files are mapped, not read.
        `lm_head`, `checkpoint`: where the head of hidden states is, if not where the files say."""
        options = _abi.OpenOptions()
        if lm_head is not None:
            options.lm_head = _abi.Text.of_path(lm_head, "lm_head")
        if checkpoint is not None:
            options.checkpoint = _abi.Text.of_path(checkpoint, "checkpoint")
        return cls._made(_new(_abi.lib.dg_capture_open, _abi.lib.dg_capture_close, None,
                              _abi.Text.of_path(path, "path"), ctypes.byref(options)))

    @classmethod
    def of(cls, rows: _rows.Source, *, tokens: Any = None, sequences: Any = None, positions: Any = None,
           logprobs: Any = None, kernel: str = "", checkpoint: str = "", corpus_digest: str = "",
           token_source: str = "corpus", sampling_filter: str = "none", temperature: float = 1.0,
           name: str = "rows in memory") -> "Capture":
        """A capture of rows in memory, which must stay as they are: [rows, vocabulary] is one sequence,
        [sequences, rows, vocabulary] is as many, unless `sequences` says otherwise."""
        identity = Identity(kernel, checkpoint, corpus_digest, token_source, sampling_filter, temperature)
        prepared = _rows.prepare(rows, name, tokens=tokens, sequences=sequences, positions=positions,
                                 logprobs=logprobs)
        return cls._made(_capture_of(prepared, identity, name), prepared.device)

    @property
    def rows(self) -> int:
        return int(self._info.rows)

    @property
    def mode(self) -> str:
        """"full", "hidden", "topk", "matched" or "realised"."""
        return _abi.MODES[self._info.mode]

    @property
    def vocabulary(self) -> int:
        """0 where a capture of lists does not state it."""
        return int(self._info.vocabulary)

    @property
    def columns(self) -> int:
        """Of its matrices: the vocabulary, the width of hidden states, the length of lists; 0: there are none."""
        return int(self._info.columns)

    @property
    def dtype(self) -> Optional[str]:
        """Of logits or hidden states: "float32", "bfloat16" or "float16"; None where there are none."""
        if self.mode not in ("full", "hidden"):
            return None
        matrix, first, rows = _abi.Matrix(), ctypes.c_uint64(), ctypes.c_uint64()
        _abi.check(_abi.lib.dg_capture_matrix(self._handle.value, 0, ctypes.byref(matrix), ctypes.byref(first),
                                              ctypes.byref(rows), None))
        return _abi.DTYPE_NAMES[matrix.dtype]

    @property
    def identity(self) -> Identity:
        held = self._info.identity
        return Identity(str(held.kernel), str(held.checkpoint_digest), str(held.corpus_digest),
                        str(held.token_source), str(held.sampling_filter), float(held.temperature))

    @property
    def kernel(self) -> str:
        return str(self._info.identity.kernel)

    def _column(self, column: int) -> Optional[memoryview]:
        values, rows = ctypes.c_void_p(), ctypes.c_uint64()
        _abi.check(_abi.lib.dg_capture_column(self._handle.value, column, ctypes.byref(values), ctypes.byref(rows),
                                              None))
        return _held(values.value, 8 * rows.value, self).cast("q") if rows.value else None

    @property
    def tokens(self) -> Optional[memoryview]:
        """The target tokens, 64-bit integers; None where there are none."""
        return self._column(_abi.COLUMN_TOKENS)

    @property
    def sequences(self) -> memoryview:
        """The sequence of each row."""
        return self._column(_abi.COLUMN_SEQUENCES) or memoryview(b"").cast("q")

    @property
    def positions(self) -> memoryview:
        """The position of each row in its sequence."""
        return self._column(_abi.COLUMN_POSITIONS) or memoryview(b"").cast("q")

    def matrices(self) -> List[memoryview]:
        """The logits or hidden states of each file, [rows, columns], mapped and read-only: "f", or for
        both types of 16 bits "H", which memory in Python can be: ``torch.frombuffer(m, dtype=torch.bfloat16)`` or
        ``numpy.asarray(m).view("f2")`` reads them; `dtype` says which."""
        out = []
        for piece in range(self._info.pieces):
            matrix, first, rows = _abi.Matrix(), ctypes.c_uint64(), ctypes.c_uint64()
            _abi.check(_abi.lib.dg_capture_matrix(self._handle.value, piece, ctypes.byref(matrix),
                                                  ctypes.byref(first), ctypes.byref(rows), None))
            if self._device != "cpu":
                raise InvalidArgument(f"matrices: the rows are on {self._device}; read the tensor itself")
            width = matrix.columns * (4 if matrix.dtype == _abi.F32 else 2)
            if matrix.row_stride_bytes not in (0, width):
                raise InvalidArgument("matrices: the rows do not follow each other; read the array itself")
            kind = "f" if matrix.dtype == _abi.F32 else "H"
            out.append(_held(matrix.data, rows.value * width, self).cast(kind, [rows.value, matrix.columns]))
        return out

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return (f"<driftgate.Capture {self.kernel!r}: {self.rows} rows, {self.mode}, vocabulary "
                f"{self.vocabulary or 'not stated'}>")


def _capture_of(prepared: _rows.Prepared, identity: Identity, name: str) -> _abi.Handle:
    if len(prepared.blocks) != 1:
        raise InvalidArgument(f"{name}: its rows are {len(prepared.blocks)} blocks of memory and a capture is one; "
                              "give a contiguous copy, or the array itself to driftgate.drift or an Accumulator")
    return _new(_abi.lib.dg_capture_from_rows, _abi.lib.dg_capture_close, prepared, ctypes.byref(prepared.blocks[0]),
                ctypes.byref(identity._struct()), _abi.Text.name(name))


class CaptureWriter:
    """Writes a capture in parts into a folder: ``with CaptureWriter(path, kernel="…") as w: w.append(logits, …)``.

    The capture is whole when `close` returns. Where the block raises, the files that were written so far stay.
    """

    def __init__(self, path: Path, kernel: str = "", *, checkpoint: str = "", corpus_digest: str = "",
                 token_source: str = "corpus", sampling_filter: str = "none", temperature: float = 1.0,
                 part_bytes: Optional[int] = None) -> None:
        """`part_bytes`: about the size of each file, 256 MiB if not given."""
        identity = Identity(kernel, checkpoint, corpus_digest, token_source, sampling_filter, temperature)._struct()
        options = _abi.WriterOptions(identity=ctypes.pointer(identity), part_bytes=0)
        if part_bytes is not None:
            options.part_bytes = _abi.whole(part_bytes, "part_bytes", 1, 2**63 - 1)
        place = _abi.Text.of_path(path, "path")
        self.path = os.fspath(path)
        self._handle = _new(_abi.lib.dg_writer_create, _abi.lib.dg_writer_close, None, place, ctypes.byref(options))
        self._next = 0
        self._is_in_half = False  # some rows of a batch may be in, and the rest is not
        self._head: object = None  # the library knows it again by its address

    def append(self, rows: _rows.Source, *, tokens: Any = None, sequences: Any = None, positions: Any = None,
               logprobs: Any = None) -> None:
        """Appends rows, which may be used for something else afterwards. Without `sequences`, [rows, vocabulary] is
        one more sequence and [sequences, rows, vocabulary] is as many more."""
        if not self._handle.value:
            raise InvalidArgument(f"{self.path} is closed; write to another folder")
        self._check_whole()
        prepared = _rows.prepare(rows, "rows", tokens=tokens, sequences=sequences, positions=positions,
                                 logprobs=logprobs, first_sequence=self._next)
        self._head = getattr(rows, "head", None)
        self._is_in_half = True  # until it is known to be in; an interrupt may come anywhere
        for index, block in enumerate(prepared.blocks):
            status = _abi.lib.dg_writer_append(self._handle.value, ctypes.byref(block), None)
            if status:
                self._is_in_half = index > 0
                raise _abi.fail(status)
        self._next = prepared.columns.next_sequence
        self._is_in_half = False

    def _check_whole(self) -> None:
        if self._is_in_half:
            raise DriftgateError(f"{self.path}: an append failed or was interrupted when a part of its rows may have "
                                 "been in; write into another folder", "conflict")

    def close(self) -> None:
        """Writes what is left. Closing twice does nothing."""
        if self._handle.value:
            try:
                self._check_whole()
                _abi.check(_abi.lib.dg_writer_finish(self._handle.value, None))
            finally:
                self._handle.close()

    def __enter__(self) -> "CaptureWriter":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], fault: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._handle.close()
