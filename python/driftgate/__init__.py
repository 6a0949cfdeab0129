"""Whether an inference kernel computes what its training kernel computed: drift, bounds and verdicts.

>>> import driftgate
>>> drift = driftgate.drift(train_logits, inf_logits, tokens=tokens)    # doctest: +SKIP

docs/python.md is the guide.
"""

from . import _abi
from ._errors import DriftgateError, InvalidArgument, LibraryNotFound
from ._measure import Accumulator, drift
from ._rows import Head, Hidden, Logprobs, TopK
from .capture import Capture, CaptureWriter, Identity
from .contract import Contract
from .result import Drift, metric_names

__all__ = ["Accumulator", "Capture", "CaptureWriter", "Contract", "Drift", "DriftgateError", "Head", "Hidden", "Identity",
           "InvalidArgument", "LibraryNotFound", "Logprobs", "TopK", "drift", "metric_names"]
__version__: str = _abi.lib.dg_version().decode()
