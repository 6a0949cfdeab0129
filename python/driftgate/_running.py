"""Options of a measurement, and how it is interrupted."""

import ctypes
import functools
import signal
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _abi
from ._errors import InvalidArgument

LONG_BYTES = 4 << 20  # of each kernel's rows: about a millisecond
ProgressFunction = Callable[[int, int], Any]
_INTERRUPTING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name))


class Running:
    """One call of the library during which Python's signal handlers and the caller's progress function work.

    Python runs a signal's handler at the first bytecode of the callback, where an exception could not leave it. So
    handlers are put aside during the call, and the callback calls them where it can catch what they raise.
    """

    def __init__(self, progress: Optional[ProgressFunction], size: int = LONG_BYTES) -> None:
        """`size`: bytes of rows. Signals can wait for the end of a call that is short."""
        self._progress = progress
        self._fault: Optional[BaseException] = None
        self._caught: List[Tuple[int, Any]] = []
        self._before: Dict[int, Any] = {}
        self._is_long = progress is not None or size >= LONG_BYTES
        self._done, self._total = 0, 0
        self.callback: Any = _abi.Progress(self._called) if self._is_long else None

    def expect(self, done: int, total: int) -> None:
        """The next call, and no later one, goes on behind `done` of `total` rows: what the progress function is told."""
        self._done, self._total = done, total

    @property
    def pointer(self) -> Optional[int]:
        return ctypes.cast(self.callback, ctypes.c_void_p).value if self.callback else None

    def _called(self, user: Optional[int], done: int, total: int) -> int:
        try:
            self._handle_signals()
            return 1 if self._progress is not None and self._progress(
                self._done + done, self._total or total) else 0
        except BaseException as fault:  # it must not leave the callback; `run` raises it
            self._fault = fault
            return 1

    def _noted(self, number: int, frame: Any) -> None:
        self._caught.append((number, frame))

    def _handle_signals(self) -> None:
        while self._caught:
            number, frame = self._caught.pop(0)
            self._before[number](number, frame)

    def _put_aside(self) -> None:
        for number in _INTERRUPTING:
            handler = signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._noted)

    def _put_back(self) -> None:
        """All handlers, also where one of them raises meanwhile; not those that the program has replaced since."""
        raised: Optional[BaseException] = None
        for number, handler in self._before.items():
            for _ in range(8):  # signal.signal calls waiting handlers first, and changes nothing where one raises
                try:
                    if signal.getsignal(number) == self._noted:
                        signal.signal(number, handler)
                    break
                except BaseException as fault:
                    raised = raised or fault
        self._handle_signals()
        if raised is not None:
            raise raised

    def run(self, function: Any, *arguments: Any) -> None:
        """Calls it; raises what the handlers or the progress function raised, else the call's own error."""
        fault: Optional[BaseException] = None
        self._before, self._caught, self._fault = {}, [], None
        is_watching = self._is_long and threading.current_thread() is threading.main_thread()
        try:
            if is_watching:
                self._put_aside()
            status = function(*arguments)
            fault = _abi.fail(status) if status else None
        finally:
            self._done, self._total = 0, 0
            if is_watching:
                self._put_back()
        raised, self._fault = self._fault or fault, None
        if raised is not None:
            raise raised

    def measure(self, function: Any, *arguments: Any) -> _abi.Handle:
        """The same for a call that makes a result."""
        out = ctypes.c_void_p()
        try:
            self.run(function, *arguments, ctypes.byref(out), None)
        except BaseException:
            if out.value:
                _abi.lib.dg_result_close(out.value)
            raise
        return _abi.Handle(out.value or 0, _abi.lib.dg_result_close)


def _made_options(device: str, threads: Optional[int], metrics: str, top_k: Optional[int], top_rows: Optional[int],
                  keep_rows: bool, progress: Optional[int]) -> _abi.Options:
    if metrics not in ("all", "core"):
        raise InvalidArgument(f"metrics: {metrics!r}; give 'all' or 'core'")
    whole = _abi.whole
    rows = 0 if top_rows is None else whole(top_rows, "top_rows", 0, _abi.NO_TOP_ROWS - 1) or _abi.NO_TOP_ROWS
    return _abi.Options(threads=0 if threads is None else whole(threads, "threads", 0), device=_abi.Text.of(device),
                        metrics=0 if metrics == "all" else 1, top_k=0 if top_k is None else whole(top_k, "top_k", 1),
                        top_rows=rows, keep_rows=int(keep_rows), progress=progress)


_kept_options = functools.lru_cache(maxsize=64, typed=True)(_made_options)


def options_of(*, device: str, threads: Optional[int], metrics: str, top_k: Optional[int], top_rows: Optional[int],
               keep_rows: bool, running: Running) -> _abi.Options:
    """For the library; nobody changes it."""
    pointer = running.pointer
    try:
        if pointer is None:
            return _kept_options(device, threads, metrics, top_k, top_rows, keep_rows, None)
        return _made_options(device, threads, metrics, top_k, top_rows, keep_rows, pointer)
    except TypeError as fault:
        raise InvalidArgument(f"device, threads, metrics, top_k or top_rows: {fault}; give text and whole "
                              "numbers") from None
