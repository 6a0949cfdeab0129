"""Slices of sequences, as the library reads them: JSON Lines."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _abi
from ._errors import InvalidArgument
from ._rows import _new

Slices = Union[Mapping[str, Sequence[Any]], Mapping[int, Mapping[str, Any]], Sequence[Mapping[str, Any]]]


def _text(key: Any, value: Any) -> str:
    """The value of an attribute; of an array without dimensions, as indexing a tensor gives it, the number in it."""
    number = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    if not isinstance(number, (str, int, float)):
        raise InvalidArgument(f"slices: {key} is {value!r}; give a string, a number or a bool")
    return str(number)


def _attributes(values: Mapping[str, Any]) -> Dict[str, str]:
    if not isinstance(values, Mapping):
        raise InvalidArgument(f"slices: {values!r} is no {{attribute: value}}; give one for each sequence")
    return {str(key): _text(key, value) for key, value in values.items() if value is not None}


def _listed(values: Any, what: str) -> List[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidArgument(f"{what}: {type(values).__name__} cannot be read; give a list, one for each "
                              "sequence") from None


def _one_each(count: int, sequences: List[int], what: str) -> None:
    if count != len(sequences):
        raise InvalidArgument(f"{what}: {count} of them for {len(sequences)} sequences; give one for each sequence, in "
                              "the order in which the rows first name them")


def lines_of(slices: Slices, sequences: Optional[List[int]]) -> List[Dict[str, Any]]:
    """A line of the corpus for each sequence. `sequences`: their ids by first appearance, where they are known."""
    rows: List[Mapping[str, Any]]
    if isinstance(slices, Mapping):
        given: Mapping[Any, Any] = slices
        if given and all(isinstance(key, int) for key in given):
            return [{"sequence": key, "slices": _attributes(value)} for key, value in given.items()]
        for key, values in given.items():
            if isinstance(values, (str, bytes)) or not hasattr(values, "__getitem__") or not hasattr(values, "__len__"):
                raise InvalidArgument(f"slices: {key} is {values!r}; give a list with one value for each sequence")
        lengths = {len(values) for values in given.values()}
        if len(lengths) > 1:
            raise InvalidArgument("slices: " + ", ".join(f"{key} has {len(v)} values" for key, v in given.items()) +
                                  "; give each attribute one value for each sequence")
        rows = [{key: values[i] for key, values in given.items()} for i in range(max(lengths, default=0))]
    else:
        rows = _listed(slices, "slices")
        if not all(isinstance(row, Mapping) for row in rows):
            raise InvalidArgument("slices: give {attribute: values}, {sequence: {attribute: value}}, or a list of "
                                  "{attribute: value}, one for each sequence")
    if sequences is None:
        sequences = list(range(len(rows)))
    _one_each(len(rows), sequences, "slices")
    return [{"sequence": sequence, "slices": _attributes(row)} for sequence, row in zip(sequences, rows)]


def open_corpus(slices: Optional[Slices], corpus: Any, sequences: Any) -> Optional["_abi.Handle"]:
    """The corpus, or None. `corpus`: a path, or objects of its lines. `sequences()` gives the ids by first
    appearance, or None where they are not known yet."""
    if corpus is None and slices is None:
        return None
    if corpus is not None and slices is not None:
        raise InvalidArgument("slices and corpus are both given; a corpus holds the slices, so give one of them")
    close = _abi.lib.dg_corpus_close
    if isinstance(corpus, (str, os.PathLike)):
        return _new(_abi.lib.dg_corpus_open, close, None, _abi.Text.of_path(corpus, "corpus"))
    lines = _listed(corpus, "corpus") if slices is None else lines_of(slices, sequences())
    try:
        text = "\n".join(json.dumps(line, ensure_ascii=False, allow_nan=False) for line in lines)
    except (TypeError, ValueError) as fault:
        raise InvalidArgument(f"corpus: {fault}; give objects that JSON can hold") from None
    return _new(_abi.lib.dg_corpus_parse, close, None, _abi.Text.of(text + "\n"), _abi.Text.of("slices"))
