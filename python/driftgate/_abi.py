"""The C interface of libdriftgate.so (driftgate.h) in ctypes: structs, functions, the search for the library."""

import ctypes
import functools
import operator
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, List, Optional, Tuple

from ._errors import DriftgateError, InvalidArgument, LibraryNotFound

ABI_VERSION = 1
SONAME = "libdriftgate.so.1"

F32, F16, BF16, I32, I64 = range(5)
DTYPES = {"float32": F32, "float16": F16, "bfloat16": BF16, "int32": I32, "int64": I64}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
MODES = ("full", "hidden", "topk", "matched", "realised")
MEMORY_HOST, MEMORY_CUDA = 0, 1
COLUMN_TOKENS, COLUMN_SEQUENCES, COLUMN_POSITIONS = range(3)
VERDICTS = (None, "pass", "inconclusive", "violated", "error")
JSON, MARKDOWN, HTML, JUNIT = range(4)
NO_TOP_ROWS = 0xFFFFFFFF
CANCELLED = 100


class Text(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("size", c_size_t)]

    @staticmethod
    def of(value: Optional[str]) -> "Text":
        if not value:
            return _NO_TEXT
        try:
            data = value.encode("utf-8", "surrogateescape")
        except (AttributeError, UnicodeEncodeError) as fault:
            raise InvalidArgument(f"{value!r} is no text that UTF-8 can hold ({fault}); give a string") from None
        return Text(data, len(data))

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def name(value: str) -> "Text":
        """The same for what is short and comes again; nobody changes it."""
        return Text.of(value)

    @staticmethod
    def of_path(value: Any, what: str) -> "Text":
        try:
            return Text.of(os.fsdecode(value))
        except TypeError:
            raise InvalidArgument(f"{what}: {type(value).__name__} is no path; give a string or a pathlib.Path") from None


_NO_TEXT = Text()


class ReturnedText(ctypes.Structure):
    """A text that the library gives: `data` as an address, because c_char_p would end at the first NUL."""

    _fields_ = [("data", c_void_p), ("size", c_size_t)]

    def __str__(self) -> str:
        return ctypes.string_at(self.data, self.size).decode("utf-8", "replace") if self.data else ""


class Sized(ctypes.Structure):
    """A struct that says its own size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(ctypes.sizeof(self), **members)


class Identity(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("kernel", Text), ("checkpoint_digest", Text),
                ("corpus_digest", Text), ("token_source", Text), ("sampling_filter", Text), ("temperature", c_double)]


class ReturnedIdentity(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("kernel", ReturnedText),
                ("checkpoint_digest", ReturnedText), ("corpus_digest", ReturnedText), ("token_source", ReturnedText),
                ("sampling_filter", ReturnedText), ("temperature", c_double)]


class Matrix(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("row_stride_bytes", c_uint64), ("dtype", c_uint32), ("columns", c_uint32)]


class Rows(ctypes.Structure):  # of every call, so it is made with its size, ROWS_BYTES, and no keywords
    _fields_ = [("struct_size", c_uint32), ("memory", c_uint32), ("rows", c_uint64), ("tokens", c_void_p),
                ("sequences", c_void_p), ("positions", c_void_p), ("logits", Matrix), ("hidden", Matrix),
                ("head", c_void_p), ("topk_ids", Matrix), ("topk_logprobs", Matrix), ("logprobs", c_void_p),
                ("vocabulary", c_uint32), ("matched", c_uint32), ("logprob_error", c_double)]


ROWS_BYTES = ctypes.sizeof(Rows)


class OpenOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("lm_head", Text), ("checkpoint", Text)]


class CaptureInfo(Sized):
    _fields_: List[Any] = [("struct_size", c_uint32), ("mode", c_uint32), ("rows", c_uint64), ("vocabulary", c_uint32),
                ("columns", c_uint32), ("has_tokens", c_uint32), ("has_logprobs", c_uint32), ("pieces", c_uint32),
                ("reserved", c_uint32), ("identity", ReturnedIdentity)]


class HeadOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("vocabulary", c_uint32), ("rows", c_uint64), ("weight", Matrix),
                ("bias", c_void_p), ("bias_dtype", c_uint32), ("reserved", c_uint32), ("scale", c_double),
                ("soft_cap", c_double)]


Progress = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class Options(Sized):
    _fields_ = [("struct_size", c_uint32), ("threads", c_uint32), ("device", Text), ("metrics", c_uint32),
                ("top_k", c_uint32), ("top_rows", c_uint32), ("keep_rows", c_uint32), ("progress", c_void_p),
                ("user", c_void_p)]


class Inputs(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("train", c_void_p), ("inf", c_void_p),
                ("corpus", c_void_p), ("contract", c_void_p), ("floor_train", c_void_p * 2),
                ("floor_inf", c_void_p * 2)]


class AccumulatorOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("train", POINTER(Identity)),
                ("inf", POINTER(Identity)), ("corpus", c_void_p), ("contract", c_void_p),
                ("options", POINTER(Options)), ("max_rows", c_uint64)]


class WriterOptions(Sized):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("identity", POINTER(Identity)),
                ("part_bytes", c_uint64)]


_OUT = POINTER(c_void_p)
_ERROR = c_void_p
_HANDLE = c_void_p
_FUNCTIONS: List[Tuple[str, Any, List[Any]]] = [
    ("dg_last_error", ReturnedText, []),
    ("dg_status_name", c_char_p, [c_int32]),
    ("dg_version", c_char_p, []),
    ("dg_abi_version", c_uint32, []),
    ("dg_capture_open", c_int32, [Text, POINTER(OpenOptions), _OUT, _ERROR]),
    ("dg_capture_from_rows", c_int32, [POINTER(Rows), POINTER(Identity), Text, _OUT, _ERROR]),
    ("dg_capture_close", None, [_HANDLE]),
    ("dg_capture_get_info", c_int32, [_HANDLE, POINTER(CaptureInfo), _ERROR]),
    ("dg_capture_column", c_int32, [_HANDLE, c_uint32, POINTER(c_void_p), POINTER(c_uint64), _ERROR]),
    ("dg_capture_matrix", c_int32,
     [_HANDLE, c_uint32, POINTER(Matrix), POINTER(c_uint64), POINTER(c_uint64), _ERROR]),
    ("dg_head_from_memory", c_int32, [POINTER(HeadOptions), _OUT, _ERROR]),
    ("dg_head_close", None, [_HANDLE]),
    ("dg_corpus_open", c_int32, [Text, _OUT, _ERROR]),
    ("dg_corpus_parse", c_int32, [Text, Text, _OUT, _ERROR]),
    ("dg_corpus_close", None, [_HANDLE]),
    ("dg_contract_open", c_int32, [Text, _OUT, _ERROR]),
    ("dg_contract_parse", c_int32, [Text, Text, _OUT, _ERROR]),
    ("dg_contract_name", ReturnedText, [_HANDLE]),
    ("dg_contract_digest", ReturnedText, [_HANDLE]),
    ("dg_contract_close", None, [_HANDLE]),
    ("dg_measure", c_int32, [POINTER(Inputs), POINTER(Options), _OUT, _ERROR]),
    ("dg_result_verdict", c_int32, [_HANDLE]),
    ("dg_result_exit_code", c_int32, [_HANDLE]),
    ("dg_result_format", c_int32, [_HANDLE, c_uint32, POINTER(ReturnedText), _ERROR]),
    ("dg_result_rows", c_uint64, [_HANDLE]),
    ("dg_metric_count", c_uint32, []),
    ("dg_metric_name", c_char_p, [c_uint32]),
    ("dg_result_column", c_int32, [_HANDLE, c_uint32, c_uint64, c_uint64, c_void_p, _ERROR]),
    ("dg_result_close", None, [_HANDLE]),
    ("dg_accumulator_create", c_int32, [POINTER(AccumulatorOptions), _OUT, _ERROR]),
    ("dg_accumulator_add", c_int32, [_HANDLE, POINTER(Rows), POINTER(Rows), _ERROR]),
    ("dg_accumulator_rows", c_uint64, [_HANDLE]),
    ("dg_accumulator_finish", c_int32, [_HANDLE, _OUT, _ERROR]),
    ("dg_accumulator_close", None, [_HANDLE]),
    ("dg_writer_create", c_int32, [Text, POINTER(WriterOptions), _OUT, _ERROR]),
    ("dg_writer_append", c_int32, [_HANDLE, POINTER(Rows), _ERROR]),
    ("dg_writer_finish", c_int32, [_HANDLE, _ERROR]),
    ("dg_writer_close", None, [_HANDLE]),
]


def _candidates() -> List[str]:
    """Where the library is looked for: DRIFTGATE_LIBRARY alone if set, else this package, then the system."""
    named = os.environ.get("DRIFTGATE_LIBRARY")
    if named:
        return [named]
    packed = os.path.join(os.path.dirname(os.path.abspath(__file__)), SONAME)
    return ([packed] if os.path.exists(packed) else []) + [SONAME]


def _load() -> ctypes.CDLL:
    faults = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as fault:
            faults.append(str(fault))
            continue
        try:
            for function, result, arguments in _FUNCTIONS:
                declared = getattr(library, function)
                declared.restype, declared.argtypes = result, arguments
        except AttributeError as fault:
            raise LibraryNotFound(f"{name} is older than this package: {fault}; install the package and the library "
                                  "of one version") from None
        if library.dg_abi_version() < ABI_VERSION:
            raise LibraryNotFound(f"{name} has interface {library.dg_abi_version()} and this package needs "
                                  f"{ABI_VERSION}; install the library of the same version")
        return library
    raise LibraryNotFound(f"libdriftgate cannot be loaded ({'; '.join(faults)}); install the wheel, which holds it, or "
                          "Debian's package driftgate, or set DRIFTGATE_LIBRARY to the file")


lib: Any  # libdriftgate.so, loaded by the first call, so that importing the package needs no library


def __getattr__(name: str) -> Any:
    if name != "lib":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = globals()["lib"] = _load()
    return loaded


def whole(value: Any, what: str, least: int, most: int = 2**32 - 1) -> int:
    """A whole number in these limits, as ctypes would not check them."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidArgument(f"{what}: {value!r}; give a whole number from {least} to {most}")
    return number


def real(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{what}: {value!r}; give a number") from None


def fail(status: int) -> "DriftgateError":
    """The error of the call that has just failed in this thread."""
    code = lib.dg_status_name(status).decode()
    message = str(lib.dg_last_error()) or code
    return InvalidArgument(message, code) if code == "invalid_argument" else DriftgateError(message, code)


def check(status: int) -> None:
    if status:
        raise fail(status)


class Handle:
    """An object of the library, closed with the last reference to it."""

    __slots__ = ("value", "_close", "keep")

    def __init__(self, value: int, close: Any, keep: object = None) -> None:
        self.value = value
        self._close = close
        self.keep = keep  # whose memory the object refers to

    def close(self) -> None:
        value, self.value = self.value, 0
        if value:
            self._close(value)
        self.keep = None

    def __del__(self) -> None:
        if self.value:
            self._close(self.value)
