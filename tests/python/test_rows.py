"""How rows are cut into blocks that are whole on both sides, how sequences are counted, and lines of slices."""
import ctypes
import unittest

import numpy

import driftgate
from driftgate import _corpus, _rows


def int64(address, count):
    return list((ctypes.c_int64 * count).from_address(address)) if address else None


class Blocks(unittest.TestCase):
    def seen(self, train, inf, **columns):
        """(rows, address within each side, tokens, sequences) of each pair."""
        sides = [_rows.prepare(x, "x", **columns) for x in (train, inf)]
        return [(a.rows, a.logits.data, b.logits.data, int64(a.tokens, a.rows), int64(b.sequences, b.rows))
                for a, b in _rows.pairs(*sides)], sides

    def test_one_block_on_both_sides(self):
        a, b = numpy.zeros((4, 5), "f4"), numpy.zeros((4, 5), "f2")
        found, _ = self.seen(a, b, tokens=[1, 2, 3, 4])
        self.assertEqual(found, [(4, a.ctypes.data, b.ctypes.data, [1, 2, 3, 4], None)])

    def test_blocks_that_end_at_different_rows(self):
        whole = numpy.zeros((2, 3, 5), "f4")
        shifted = numpy.zeros((2, 4, 5), "f4")[:, 1:]
        ragged = [numpy.zeros((n, 5), "f4") for n in (1, 4, 1)]
        found, _ = self.seen(whole, shifted, tokens=range(6))
        start, other = whole.ctypes.data, shifted.ctypes.data
        self.assertEqual(found, [(3, start, other, [0, 1, 2], [0, 0, 0]),
                                 (3, start + 60, other + 80, [3, 4, 5], [1, 1, 1])])
        found, _ = self.seen(shifted, ragged, sequences=[7, 7, 8, 8, 9, 9])
        self.assertEqual([(n, s) for n, _, _, _, s in found], [(1, [7]), (2, [7, 8]), (2, [8, 9]), (1, [9])])
        self.assertEqual([b for _, _, b, _, _ in found],
                         [ragged[0].ctypes.data, ragged[1].ctypes.data, ragged[1].ctypes.data + 40,
                          ragged[2].ctypes.data])

    def test_sequences_are_counted_from_shapes(self):
        x = numpy.zeros((2, 3, 5), "f4")
        prepared = _rows.prepare(x, "x")
        self.assertEqual(int64(prepared.sequences.address, 6), [0, 0, 0, 1, 1, 1])
        self.assertEqual(prepared.next_sequence, 2)
        prepared = _rows.prepare(x[0], "x", first_sequence=2)
        self.assertEqual((int64(prepared.sequences.address, 3), prepared.next_sequence), ([2, 2, 2], 3))
        self.assertEqual((_rows.prepare(x[0], "x").sequences, _rows.prepare(x[0], "x").next_sequence), (None, 1))


class Slices(unittest.TestCase):
    def test_every_form_gives_the_same_lines(self):
        wanted = [{"sequence": 4, "slices": {"language": "de", "turns": "1"}},
                  {"sequence": 9, "slices": {"language": "fr", "turns": "2"}}]
        for slices in ({"language": ["de", "fr"], "turns": [1, 2]},
                       [{"language": "de", "turns": 1}, {"language": "fr", "turns": 2}],
                       {4: {"language": "de", "turns": 1}, 9: {"language": "fr", "turns": 2}}):
            self.assertEqual(_corpus.lines_of(slices, [4, 9]), wanted)
        self.assertEqual(_corpus.lines_of([{"a": None}], None), [{"sequence": 0, "slices": {}}])

    def test_refused(self):
        for slices, words in (({"a": [1, 2]}, "2 of them for 1"), ({"a": [1], "b": []}, "a has 1 values, b has 0"),
                              ([3], "one for each sequence")):
            with self.assertRaisesRegex(driftgate.InvalidArgument, words):
                _corpus.lines_of(slices, [0])


if __name__ == "__main__":
    unittest.main()
