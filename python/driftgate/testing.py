"""Assertions for tests: `assert_no_drift` fails with the clause, the slice, the rows and the pattern.

>>> from driftgate.testing import assert_no_drift
>>> assert_no_drift(train_logits, inf_logits, limits={"tv": 0.02})    # doctest: +SKIP
"""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from . import _failure
from ._measure import drift
from .contract import Contract
from .result import Drift

__all__ = ["DriftError", "assert_no_drift", "contract_of_limits"]

#: Called with each result that an assertion sees and what to call it; the pytest plugin adds one.
observers: List[Callable[[Drift, str], None]] = []


class DriftError(AssertionError):
    """The contract does not pass. `drift` is the whole result."""

    def __init__(self, message: str, result: Drift) -> None:
        super().__init__(message)
        self.drift = result


def contract_of_limits(limits: Mapping[str, float], train: str = "train", inf: str = "inf") -> Dict[str, Any]:
    """A contract that limits the mean of each figure over all sequences, and allows no NaN. `limits` has names of
    docs/drift.md, "All metrics": ``{"tv": 0.02}``. Limits on slices take a contract of your own."""
    means = [{"id": name.replace("_", "-"), "metric": name, "aggregate": "sequence_mean", "max": limit}
             for name, limit in limits.items()]
    return {"apiVersion": "driftgate/v1", "kind": "KernelContract", "metadata": {"name": "limits"},
            "kernels": {"train": {"ref": train}, "inf": {"ref": inf}},
            "confidence": {"means": "approximate"},
            "numerical": [{"id": "finite", "metric": "nonfinite", "aggregate": "sum", "max": 0}] + means}


def assert_no_drift(train: Any, inf: Any, contract: Union[Contract, str, "os.PathLike[str]", Mapping[str, Any],
                                                          None] = None, *,
                    limits: Optional[Mapping[str, float]] = None, allow_inconclusive: bool = False,
                    name: str = "drift", **options: Any) -> Drift:
    """Fails unless the drift between the two kernels keeps the contract; returns the result.

    ``train``, ``inf`` and ``options`` are those of `driftgate.drift`. The limits are a ``contract`` (a path, a
    mapping or a `Contract`), or ``limits`` on means such as ``{"tv": 0.02}``. A verdict that the data do not suffice
    for fails too unless ``allow_inconclusive``. ``name`` is what reports call this comparison.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    if (contract is None) == (limits is None):
        raise TypeError("assert_no_drift: give either contract=… or limits={\"tv\": 0.02}: without a limit there is "
                        "nothing to assert")
    if limits is not None:
        contract = contract_of_limits(limits, str(options.get("train_kernel", "train")),
                                      str(options.get("inf_kernel", "inf")))
    result = drift(train, inf, contract=contract, **options)
    for observe in observers:
        observe(result, name)
    if result.verdict == "pass" or (allow_inconclusive and result.verdict == "inconclusive"):
        return result
    raise DriftError(_failure.message(result.to_dict(), name), result)
