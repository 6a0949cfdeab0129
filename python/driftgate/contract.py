"""Contracts: which figures are limited, where, and how sure a verdict has to be."""

import json
import os
from typing import Any, Mapping, Union

from . import _abi
from ._errors import InvalidArgument
from ._rows import _new


class Contract:
    """A contract of docs/design/contract.md. Errors list every fault as NAME:line:column."""

    _handle: _abi.Handle

    def __init__(self, text: str, name: str = "contract") -> None:
        """From YAML or JSON text. `name` stands in messages."""
        self._handle = _new(_abi.lib.dg_contract_parse, _abi.lib.dg_contract_close, None, _abi.Text.of(text),
                            _abi.Text.of(name))

    @classmethod
    def open(cls, path: Union[str, "os.PathLike[str]"]) -> "Contract":
        """From a file."""
        made = cls.__new__(cls)
        made._handle = _new(_abi.lib.dg_contract_open, _abi.lib.dg_contract_close, None,
                            _abi.Text.of_path(path, "contract"))
        return made

    @classmethod
    def of(cls, source: Any) -> "Contract":
        """A contract as it is, from a path, or from a mapping with the members of a contract."""
        if isinstance(source, cls):
            return source
        if isinstance(source, Mapping):
            try:
                return cls(json.dumps(source, allow_nan=False))
            except (TypeError, ValueError) as fault:
                if isinstance(fault, InvalidArgument):
                    raise
                raise InvalidArgument(f"contract: {fault}; give a mapping that JSON can hold") from None
        if isinstance(source, (str, os.PathLike)):
            return cls.open(source)
        raise InvalidArgument(f"contract: {type(source).__name__} is neither a path nor a mapping; give one of them, or "
                              "driftgate.Contract(text)")

    @property
    def name(self) -> str:
        return str(_abi.lib.dg_contract_name(self._handle.value))

    @property
    def digest(self) -> str:
        """What verdicts and evidence name it by: "sha256:…"."""
        return str(_abi.lib.dg_contract_digest(self._handle.value))

    def __repr__(self) -> str:
        return f"<driftgate.Contract {self.name!r} {self.digest[:19]}>"
