"""Arrays of other libraries, seen in place: DLPack (`__dlpack__`) and Python's buffer protocol, read by ctypes.

Nothing here copies elements, except ids that are not 64-bit integers in a row (`ids`).
"""

import array
import ctypes
import math
import sys
from typing import Any, List, NamedTuple, Optional, Sequence, Set, Tuple

from ._errors import InvalidArgument

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_DEVICE_NAMES = {1: "cpu", 2: "cuda", 3: "pinned cpu", 7: "vulkan", 8: "metal", 10: "rocm", 11: "pinned cpu",
                 13: "managed cuda", 14: "oneapi"}
_IN_HOST_MEMORY = frozenset((CPU, CUDA_HOST, 11, CUDA_MANAGED))
FLOATS = ("float32", "bfloat16", "float16")


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


class _PyBuffer(ctypes.Structure):  # Py_buffer
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
                ("internal", ctypes.c_void_p)]


_RECORDS_RO = 0x10 | 0x08 | 0x04  # PyBUF_STRIDES | PyBUF_ND | PyBUF_FORMAT

# PyDLL functions of this module's own, because argtypes on ctypes.pythonapi would be shared with everybody.
_api = ctypes.PyDLL(None)
_get_buffer = _api.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = _api.PyBuffer_Release
_release_buffer.argtypes = [ctypes.c_void_p]
_release_buffer.restype = None
_capsule_name = _api.PyCapsule_GetName
_capsule_name.argtypes = [ctypes.py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = _api.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p

# (code, bits, lanes) of DLDataType
_DLPACK_DTYPES = {(2, 32, 1): "float32", (4, 16, 1): "bfloat16", (2, 16, 1): "float16", (2, 64, 1): "float64",
                  (0, 64, 1): "int64", (0, 32, 1): "int32", (0, 16, 1): "int16", (0, 8, 1): "int8", (1, 8, 1): "uint8",
                  (1, 16, 1): "uint16", (1, 32, 1): "uint32", (1, 64, 1): "uint64", (6, 8, 1): "bool"}
_BUFFER_KINDS = {"f": "float", "d": "float", "e": "float", "b": "int", "h": "int", "i": "int", "l": "int", "q": "int",
                 "n": "int", "B": "uint", "H": "uint", "I": "uint", "L": "uint", "Q": "uint", "N": "uint"}


class View(NamedTuple):
    """Somebody else's array: where its first element is, and what holds it there."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]  # in elements
    device_type: int
    device_id: int
    owner: object

    @property
    def device(self) -> str:
        name = _DEVICE_NAMES.get(self.device_type, f"device type {self.device_type}")
        return name if self.device_type in _IN_HOST_MEMORY else f"{name}:{self.device_id}"


class _Buffer:
    """A buffer that is released with this object."""

    __slots__ = ("raw", "held")

    def __init__(self, source: Any) -> None:
        self.held = False
        self.raw = _PyBuffer()
        _get_buffer(source, ctypes.byref(self.raw), _RECORDS_RO)  # PyDLL raises what the exporter raised
        self.held = True

    def __del__(self) -> None:
        if self.held:
            self.held = False
            _release_buffer(ctypes.byref(self.raw))


def _contiguous(shape: Sequence[int]) -> Tuple[int, ...]:
    strides: List[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _of_buffer(source: Any, what: str) -> View:
    held = _Buffer(source)
    raw = held.raw
    form = (raw.format or b"B").decode("ascii", "replace")
    if form[:1] in "@=<" and len(form) > 1:
        form = form[1:]
    kind = "bool" if form == "?" else _BUFFER_KINDS.get(form)
    if kind is None or sys.byteorder != "little":
        raise InvalidArgument(f"{what}: a buffer of elements {form!r} cannot be read; give float32 or float16, or "
                              "bfloat16 by __dlpack__")
    dtype = kind if kind == "bool" else f"{kind}{8 * raw.itemsize}"
    shape = tuple(raw.shape[:raw.ndim])
    steps = raw.strides[:raw.ndim] if raw.strides else [s * raw.itemsize for s in _contiguous(shape)]
    if any(step % raw.itemsize for step in steps):
        raise InvalidArgument(f"{what}: the strides are no multiple of the element's size; give a contiguous copy")
    return View(raw.buf or 0, dtype, shape, tuple(step // raw.itemsize for step in steps), CPU, 0, held)


_unversioned: Set[type] = set()  # types whose __dlpack__ knows no max_version: an exception for each call would cost more


def _export(source: Any) -> Any:
    """The newest kind of capsule that the producer knows, ordered behind its work by CUDA's default stream."""
    kind = type(source)
    if kind not in _unversioned:
        try:
            return source.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = source.__dlpack__()
            _unversioned.add(kind)
            return capsule
    return source.__dlpack__()


def _wait_for_torch(source: Any) -> None:
    """Waits for what torch still computes, because the library reads from streams of its own."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.Tensor):
        torch.cuda.current_stream(source.device).synchronize()


def wait_for_device(device: str) -> None:
    """The same for a device by its name, such as "cuda:0"."""
    torch = sys.modules.get("torch")
    if torch is not None and device.startswith("cuda") and torch.cuda.is_initialized():
        torch.cuda.current_stream(device).synchronize()


def _of_capsule(capsule: Any, what: str) -> View:
    # The capsule keeps its name and stays with the view, so that its own destructor gives the tensor back.
    try:
        name = _capsule_name(capsule)
    except ValueError:  # it is none
        name = None
    if name == b"dltensor":
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, name))
    elif name == b"dltensor_versioned":
        managed = _DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, name))
        if managed.major != 1:
            raise InvalidArgument(f"{what}: its DLPack version is {managed.major}.{managed.minor}, and 1 is known; "
                                  "give it through the buffer protocol or another library")
        tensor = managed.tensor
    else:
        raise InvalidArgument(f"{what}: its DLPack capsule is used up already; give the array itself")
    dtype = _DLPACK_DTYPES.get((tensor.code, tensor.bits, tensor.lanes))
    if dtype is None:
        dtype = f"DLPack type {tensor.code} of {tensor.bits} bits"
    count, given = tensor.ndim, tensor.strides
    shape = tuple(tensor.shape[:count])
    strides = tuple(given[:count]) if given else _contiguous(shape)
    return View((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, tensor.device_type, tensor.device_id,
                capsule)


def is_array(source: Any) -> bool:
    """Whether `view` can read it, as far as its type says."""
    return hasattr(source, "__dlpack__") or isinstance(source, (bytes, bytearray, memoryview, array.array))


def view(source: Any, what: str) -> View:
    """The array in place. `what` names it in errors."""
    if hasattr(source, "__dlpack__"):
        if getattr(source, "requires_grad", False):
            source = source.detach()
        try:
            capsule = _export(source)
        except (BufferError, RuntimeError, TypeError, ValueError) as refusal:
            # NumPy before 2.1 exports no array that is read-only this way, and a buffer of it at any version.
            try:
                return _of_buffer(source, what)
            except (TypeError, BufferError):
                raise InvalidArgument(f"{what}: {type(source).__name__} cannot be read in place: {refusal}; give a "
                                      "dense array of float32, bfloat16 or float16") from refusal
        seen = _of_capsule(capsule, what)
        if seen.device_type == CUDA:
            _wait_for_torch(source)
        return seen
    try:
        return _of_buffer(source, what)
    except (TypeError, BufferError):
        raise InvalidArgument(f"{what}: {type(source).__name__} has neither __dlpack__ nor a buffer; give a tensor "
                              "of torch, an array of numpy or jax, or the path of a capture") from None


class Block(NamedTuple):
    """Rows that lie one behind the other at a fixed distance."""

    address: int
    rows: int
    stride: int  # elements from one row to the next


class Rows(NamedTuple):
    """[rows, columns] in place, in as few blocks as its strides allow."""

    blocks: Tuple[Block, ...]
    dtype: str
    rows: int
    columns: int
    steps: Tuple[int, ...]  # rows of each sequence, where the shape tells them; else empty
    device_type: int
    device_id: int
    owner: object


SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}


def _check_rows(seen: View, what: str) -> None:
    if seen.dtype not in SIZES:
        raise InvalidArgument(f"{what}: elements are {seen.dtype}; give {', '.join(FLOATS[:-1])} or {FLOATS[-1]} "
                              f"(of a tensor: x.float())")
    if len(seen.shape) not in (2, 3):
        raise InvalidArgument(f"{what}: the shape is {list(seen.shape)}; give [rows, columns] or [sequences, rows, "
                              "columns]")
    if 0 in seen.shape:
        raise InvalidArgument(f"{what}: the shape is {list(seen.shape)}, so there is nothing to compare")
    if seen.shape[-1] > 1 and seen.strides[-1] != 1:
        raise InvalidArgument(f"{what}: the elements of a row are {seen.strides[-1]} apart; give rows whose elements "
                              "are adjacent (of a tensor: x.contiguous(), of an array: numpy.ascontiguousarray(x))")
    if min(seen.strides) < 0:
        raise InvalidArgument(f"{what}: the rows run backwards; give a copy in order (numpy.ascontiguousarray(x))")
    step = seen.strides[-2]
    if seen.shape[-2] > 1 and step < seen.shape[-1]:
        raise InvalidArgument(f"{what}: its rows overlap (they are {step} elements apart and {seen.shape[-1]} long); "
                              "give an array of rows of their own (of a tensor: x.contiguous())")


def _rows_of_one(seen: View, what: str) -> Rows:
    _check_rows(seen, what)
    address, dtype, shape, strides, device_type, device_id, owner = seen
    steps, columns = shape[-2:]
    stride = strides[-2] if steps > 1 else columns
    if len(shape) == 2:
        return Rows((Block(address, steps, stride),), dtype, steps, columns, (), device_type, device_id, owner)
    count, apart = shape[0], strides[0]
    if steps == 1 and count > 1 and apart >= columns:
        blocks: Tuple[Block, ...] = (Block(address, count, apart),)
    elif apart == steps * stride or count == 1:
        blocks = (Block(address, count * steps, stride),)
    else:
        size = SIZES[dtype]
        blocks = tuple(Block(address + i * apart * size, steps, stride) for i in range(count))
    return Rows(blocks, dtype, count * steps, columns, (steps,) * count, device_type, device_id, owner)


def rows(source: Any, what: str) -> Rows:
    """Rows of one array, [rows, columns] or [sequences, rows, columns], or of a list with one [rows, columns] for
    each sequence."""
    if not isinstance(source, (list, tuple)):
        return _rows_of_one(view(source, what), what)
    if not source:
        raise InvalidArgument(f"{what}: the list is empty; give one array for each sequence")
    parts = []
    for index, item in enumerate(source):
        name = f"{what}[{index}]"
        parts.append(_rows_of_one(view(item, name), name))
        first, this = parts[0], parts[-1]
        for label in ("dtype", "columns", "device_type", "device_id"):
            if getattr(this, label) != getattr(first, label):
                raise InvalidArgument(f"{name}: {label.replace('_', ' ')} is {getattr(this, label)} and that of "
                                      f"{what}[0] is {getattr(first, label)}; give arrays of one kind")
    blocks = tuple(block for part in parts for block in part.blocks)
    steps = tuple(n for part in parts for n in (part.steps or (part.rows,)))
    return Rows(blocks, parts[0].dtype, sum(part.rows for part in parts), parts[0].columns, steps,
                parts[0].device_type, parts[0].device_id, [part.owner for part in parts])


class Ids(NamedTuple):
    """Consecutive 64-bit integers."""

    address: int
    length: int
    owner: object


_INTEGERS = {"int64": ctypes.c_int64, "int32": ctypes.c_int32, "int16": ctypes.c_int16, "int8": ctypes.c_int8,
             "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64}


def _copied_ids(seen: View) -> "array.array[int]":
    """The integers in the order of their indices, as 64-bit ones."""
    kind = _INTEGERS[seen.dtype]
    size = ctypes.sizeof(kind)
    out = array.array("q")

    def line(address: int, count: int, step: int) -> Any:
        if step < 0:
            return line(address + (count - 1) * step * size, count, -step)[::-1]
        if step == 0 or count == 0:
            return [kind.from_address(address).value] * count if count else []
        return (kind * ((count - 1) * step + 1)).from_address(address)[::step]

    def walk(address: int, axis: int) -> None:
        if axis >= len(seen.shape) - 1:
            count, step = (seen.shape[axis], seen.strides[axis]) if seen.shape else (1, 1)
            out.extend(line(address, count, step))
            return
        for index in range(seen.shape[axis]):
            walk(address + index * seen.strides[axis] * size, axis + 1)

    try:
        walk(seen.address, 0)
    except OverflowError:
        raise InvalidArgument("an id does not fit into 64 bits with a sign; give smaller ones") from None
    return out


def check_shape(shape: Sequence[int], steps: Sequence[int], what: str) -> None:
    """Of one value for each row: flat, or [sequences, rows] where that is the shape of the rows."""
    if len(shape) > 1 and steps and tuple(steps) != (shape[1],) * shape[0]:
        raise InvalidArgument(f"{what}: the shape is {list(shape)}, and the rows are {_told(steps)}; give one for each "
                              "row in the same shape, or flat in the order of the rows")


def _told(steps: Sequence[int]) -> str:
    lengths = sorted(set(steps))
    return f"{len(steps)} sequences of {lengths[0]}" + (f" to {lengths[-1]}" if len(lengths) > 1 else "")


def _check_lengths(lengths: Sequence[int], steps: Sequence[int], what: str) -> None:
    if steps and tuple(lengths) != tuple(steps):
        raise InvalidArgument(f"{what}: the list has {_told(lengths).replace('sequences', 'parts')}, and the rows are "
                              f"{_told(steps)}; give a part for each sequence, with one for each row")


def ids(source: Any, count: int, what: str, steps: Sequence[int] = ()) -> Optional[Ids]:
    """`count` ids; in place where they are 64-bit integers one behind the other, else copied. None stays None.
    `steps`: the rows of each sequence, where the rows' shape tells them."""
    if source is None:
        return None
    if isinstance(source, Ids):
        if source.length != count:
            raise InvalidArgument(f"{what}: {source.length} of them for {count} rows; give one for each row")
        return source
    seen = view(source if is_array(source) else _listed_ids(source, steps, what), what)
    _check_ids(seen, what)
    total = math.prod(seen.shape)
    if total != count:
        raise InvalidArgument(f"{what}: {total} of them ({list(seen.shape)}) for {count} rows; give one for each row")
    check_shape(seen.shape, steps, what)
    if seen.dtype == "int64" and seen.device_type in _IN_HOST_MEMORY and is_contiguous(seen):
        return Ids(seen.address, total, seen.owner)
    copied = _copied_ids(seen)
    return Ids(copied.buffer_info()[0], total, copied)


def _listed_ids(source: Any, steps: Sequence[int], what: str) -> "array.array[int]":
    """Those of numbers or of arrays, in lists or another iterable."""
    if isinstance(source, (list, tuple)) and source:
        if all(isinstance(item, (list, tuple)) for item in source):
            _check_lengths([len(item) for item in source], steps, what)
        elif all(is_array(item) for item in source):
            return _ids_of_parts(source, steps, what)
    try:
        return array.array("q", _flat(source))
    except (TypeError, OverflowError) as fault:
        raise InvalidArgument(f"{what}: {fault}; give integers, one for each row") from None


def _ids_of_parts(source: Sequence[Any], steps: Sequence[int], what: str) -> "array.array[int]":
    out, lengths = array.array("q"), []
    for index, item in enumerate(source):
        seen = view(item, f"{what}[{index}]")
        _check_ids(seen, f"{what}[{index}]")
        part = _copied_ids(seen)
        out.extend(part)
        if seen.shape:  # numbers of the array's own type are no parts
            lengths.append(len(part))
    if lengths:
        _check_lengths(lengths, steps, what)
    return out


def _flat(values: Any) -> List[int]:
    out: List[int] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            out.extend(_flat(value))
        else:
            out.append(value)
    return out


def is_contiguous(seen: View) -> bool:
    wanted = _contiguous(seen.shape)
    if seen.strides == wanted:
        return True
    return all(extent == 1 or step == want for extent, step, want in zip(seen.shape, seen.strides, wanted))


def _check_ids(seen: View, what: str) -> None:
    if seen.dtype not in _INTEGERS:
        raise InvalidArgument(f"{what}: elements are {seen.dtype}; give integers, one for each row")
    if seen.device_type not in _IN_HOST_MEMORY:
        raise InvalidArgument(f"{what}: it is on {seen.device}; ids are read by the processor, so give x.cpu()")
