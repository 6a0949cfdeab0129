"""How rows are cut into blocks that are whole on both sides, how sequences are counted, and lines of slices."""
import ctypes
import unittest

import numpy

import driftgate
from driftgate import _corpus, _measure, _rows
from optional import torch
from test_arrays import versioned_capsule


def int64(address, count):
    return list((ctypes.c_int64 * count).from_address(address)) if address else None


class Blocks(unittest.TestCase):
    def seen(self, train, inf, **columns):
        """(rows, address within each side, tokens, sequences) of each pair."""
        first = _rows.prepare(train, "train", **columns)
        sides = [first, _rows.prepare(inf, "inf", like=first)]
        return [(a.rows, a.logits.data, b.logits.data, int64(a.tokens, a.rows), int64(b.sequences, b.rows))
                for a, b in _rows.pairs(*sides)], sides

    def test_one_block_on_both_sides(self):
        a, b = numpy.zeros((4, 5), "f4"), numpy.zeros((4, 5), "f2")
        found, _ = self.seen(a, b, tokens=[1, 2, 3, 4])
        self.assertEqual(found, [(4, a.ctypes.data, b.ctypes.data, [1, 2, 3, 4], None)])

    def test_blocks_that_end_at_different_rows(self):
        whole = numpy.zeros((2, 3, 5), "f4")
        shifted = numpy.zeros((2, 4, 5), "f4")[:, 1:]
        with self.assertRaisesRegex(driftgate.InvalidArgument, "or they are of other lengths"):
            self.seen(whole, whole.reshape(3, 2, 5))
        found, _ = self.seen(whole, shifted, tokens=range(6))
        start, other = whole.ctypes.data, shifted.ctypes.data
        self.assertEqual(found, [(3, start, other, [0, 1, 2], [0, 0, 0]),
                                 (3, start + 60, other + 80, [3, 4, 5], [1, 1, 1])])
        shifted = numpy.zeros((3, 4, 5), "f4")[:, 1:3]
        ragged = [numpy.zeros((n, 5), "f4") for n in (1, 4, 1)]
        first = _rows.prepare(shifted, "train", sequences=[7, 7, 8, 8, 9, 9])
        second = _rows.prepare(ragged, "inf", sequences=first.columns.sequences)
        found = [(a.rows, 0, b.logits.data, None, int64(b.sequences, b.rows)) for a, b in _rows.pairs(first, second)]
        self.assertEqual([(n, s) for n, _, _, _, s in found], [(1, [7]), (1, [7]), (2, [8, 8]), (1, [9]), (1, [9])])
        middle = ragged[1].ctypes.data
        self.assertEqual([b for _, _, b, _, _ in found],
                         [ragged[0].ctypes.data, middle, middle + 20, middle + 60, ragged[2].ctypes.data])

    def test_sequences_are_counted_from_shapes(self):
        x = numpy.zeros((2, 3, 5), "f4")
        prepared = _rows.prepare(x, "x")
        self.assertEqual(int64(prepared.columns.sequences.address, 6), [0, 0, 0, 1, 1, 1])
        self.assertEqual(prepared.columns.next_sequence, 2)
        prepared = _rows.prepare(x[0], "x", first_sequence=2)
        self.assertEqual((int64(prepared.columns.sequences.address, 3), prepared.columns.next_sequence), ([2, 2, 2], 3))
        self.assertEqual(_rows.prepare(x[0], "x").columns, (None, None, None, 1))


class OnDevice:
    """Claims that its rows are on a CUDA device."""

    def __init__(self, source):
        self.source, self.stream = source, None

    def __dlpack_device__(self):
        return (2, 3)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.stream = stream
        return versioned_capsule(self.source, device=self.__dlpack_device__())


class Devices(unittest.TestCase):
    def test_rows_of_a_device_stay_there(self):
        x = OnDevice(numpy.zeros((4, 5), "f4"))
        prepared = _rows.prepare(x, "train")
        self.assertEqual((prepared.device, prepared.blocks[0].memory, x.stream), ("cuda:3", 1, None))
        self.assertEqual(prepared.blocks[0].logits.data, x.source.ctypes.data)

    def test_what_the_processor_reads_is_refused_there(self):
        x, host = OnDevice(numpy.zeros((4, 5), "f4")), numpy.zeros((4, 5), "f4")
        with self.assertRaisesRegex(driftgate.InvalidArgument, "cpu and cuda:3"):
            driftgate.drift(host, x)
        for make in (lambda: driftgate.Head(x), lambda: _rows.prepare(driftgate.TopK(host.astype("i4"), x), "train"),
                     lambda: _rows.prepare(driftgate.Logprobs(x), "train")):
            with self.assertRaisesRegex(driftgate.InvalidArgument, r"give x.cpu\(\)"):
                make()


    def test_a_capture_knows_its_device(self):
        captures = [driftgate.Capture.of(OnDevice(numpy.zeros((4, 5), "f4")), kernel=name) for name in ("a", "b")]
        columns = dict.fromkeys(("tokens", "sequences", "positions"))
        for other in (captures[1], OnDevice(numpy.zeros((4, 5), "f4"))):
            sides = _measure._sides(captures[0], other, columns, {}, ("a", "b"))
            self.assertEqual(_measure._place_of(*sides), "cuda:3")
        with self.assertRaisesRegex(driftgate.InvalidArgument, "cpu and cuda:3"):
            driftgate.drift(captures[0], numpy.zeros((4, 5), "f4"))


class Slices(unittest.TestCase):
    def test_every_form_gives_the_same_lines(self):
        wanted = [{"sequence": 4, "slices": {"language": "de", "turns": "1"}},
                  {"sequence": 9, "slices": {"language": "fr", "turns": "2"}}]
        for slices in ({"language": ["de", "fr"], "turns": [1, 2]},
                       [{"language": "de", "turns": 1}, {"language": "fr", "turns": 2}],
                       {4: {"language": "de", "turns": 1}, 9: {"language": "fr", "turns": 2}}):
            self.assertEqual(_corpus.lines_of(slices, [4, 9]), wanted)
        self.assertEqual(_corpus.lines_of([{"a": None}], None), [{"sequence": 0, "slices": {}}])

    def test_values_of_arrays_are_their_numbers(self):
        wanted = [{"sequence": 0, "slices": {"l": "1", "k": "True"}}, {"sequence": 1, "slices": {"l": "2", "k": "False"}}]
        kinds = [numpy.array] + ([torch.tensor] if torch else [])
        for made in kinds:
            self.assertEqual(_corpus.lines_of({"l": made([1, 2]), "k": made([True, False])}, [0, 1]), wanted)
        for value in ([1], numpy.zeros(1), {"a": 1}, object()):
            with self.assertRaisesRegex(driftgate.InvalidArgument, "give a string, a number or a bool"):
                _corpus.lines_of([{"l": value}], [0])

    def test_refused(self):
        for slices, words in (({"a": [1, 2]}, "2 of them for 1"), ({"a": [1], "b": []}, "a has 1 values, b has 0"),
                              ([3], "one for each sequence")):
            with self.assertRaisesRegex(driftgate.InvalidArgument, words):
                _corpus.lines_of(slices, [0])


if __name__ == "__main__":
    unittest.main()
