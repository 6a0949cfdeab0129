"""What a measurement says: figures, slices, bounds, verdicts, and its reports."""

import array
import ctypes
import html
import json
from typing import Any, Dict, List, Optional, cast

from . import _abi


def metric_names() -> List[str]:
    """The figures of a row in their order, as contracts name them."""
    count = _abi.lib.dg_metric_count()
    return [_abi.lib.dg_metric_name(i).decode() for i in range(count)]


class Drift:
    """The drift between two kernels, as `driftgate drift` reports it."""

    def __init__(self, handle: _abi.Handle) -> None:
        self._handle = handle
        self._dict: Optional[Dict[str, Any]] = None

    @property
    def verdict(self) -> Optional[str]:
        """Over all clauses of the contract: "pass", "violated", "inconclusive" or "error"; None without a contract."""
        return _abi.VERDICTS[_abi.lib.dg_result_verdict(self._handle.value)]

    @property
    def exit_code(self) -> int:
        """What `driftgate drift` would exit with: 0 pass or no contract, 1 violated, 3 inconclusive, 4 error."""
        return int(_abi.lib.dg_result_exit_code(self._handle.value))

    def _format(self, form: int) -> str:
        text = _abi.ReturnedText()
        _abi.check(_abi.lib.dg_result_format(self._handle.value, form, ctypes.byref(text), None))
        return str(text)

    def to_json(self) -> str:
        """Byte for byte what `driftgate drift --json` writes for the same captures."""
        return self._format(_abi.JSON)

    def to_dict(self) -> Dict[str, Any]:
        """The same as a dictionary of its own: metrics, slices, bounds, verdicts, diagnosis, worst rows …"""
        return cast(Dict[str, Any], json.loads(self.to_json()))

    def to_markdown(self) -> str:
        return self._format(_abi.MARKDOWN)

    def to_html(self) -> str:
        """One page with its plots, which needs no other file."""
        return self._format(_abi.HTML)

    def to_junit(self) -> str:
        """JUnit's XML, a test case for each clause."""
        return self._format(_abi.JUNIT)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:640px;border:0"></iframe>'

    def __getitem__(self, key: str) -> Any:
        """A member of `to_dict`: ``drift["metrics"]["kl_inf_train"]["mean"]``."""
        if self._dict is None:
            self._dict = self.to_dict()
        return self._dict[key]

    @property
    def row_count(self) -> int:
        return int(_abi.lib.dg_result_rows(self._handle.value))

    def column(self, metric: str) -> memoryview:
        """One figure of every row, float64; NaN where a row has none."""
        names = metric_names()
        if metric not in names:
            raise KeyError(f"{metric!r} is no figure of a row; there are {', '.join(names)}")
        values = array.array("d", bytes(8 * self.row_count))
        _abi.check(_abi.lib.dg_result_column(self._handle.value, names.index(metric), 0, self.row_count,
                                             values.buffer_info()[0], None))
        return memoryview(values)

    def rows(self) -> Dict[str, memoryview]:
        """Every figure of every row, float64 by name; ``numpy.asarray(d.rows()["tv"])`` copies nothing. The figures
        are kept for up to a million rows of logits or hidden states, or with ``keep_rows=True``."""
        return {name: self.column(name) for name in metric_names()}

    def __repr__(self) -> str:
        figures = self["metrics"].get("kl_inf_train", {})
        said = f", mean kl_inf_train {figures['mean']}" if "mean" in figures else ""
        return f"<driftgate.Drift: {self.verdict or 'no contract'}, {self.row_count} rows{said}>"
