"""Whether an inference kernel computes what its training kernel computed: drift, bounds and verdicts.

>>> import driftgate
>>> drift = driftgate.drift(train_logits, inf_logits, tokens=tokens)    # doctest: +SKIP

docs/python.md is the guide.
"""

from typing import Any as _Any

from . import _abi
from ._errors import DriftgateError, InvalidArgument, LibraryNotFound
from ._measure import Accumulator, drift
from ._rows import Head, Hidden, Logprobs, TopK
from .capture import Capture, CaptureWriter, Identity
from .contract import Contract
from .result import Drift, metric_names

__all__ = ["Accumulator", "Capture", "CaptureWriter", "Contract", "Drift", "DriftgateError", "Head", "Hidden", "Identity",
           "InvalidArgument", "LibraryNotFound", "Logprobs", "TopK", "drift", "metric_names"]
for _public in (DriftgateError, InvalidArgument, LibraryNotFound, Accumulator, Head, Hidden, Logprobs, TopK, Capture,
                CaptureWriter, Identity, Contract, Drift):
    _public.__module__ = __name__  # what messages and pickles call them
__version__: str


def __getattr__(name: str) -> _Any:
    if name == "__version__":  # of the library, which is loaded when it is used first
        return _abi.lib.dg_version().decode()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
