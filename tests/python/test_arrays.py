"""Arrays of torch, numpy and Python itself are seen in place: addresses, types, strides, and what is refused."""
import array
import ctypes
import gc
import sys
import unittest

import numpy

from driftgate import _arrays
from driftgate._errors import InvalidArgument
from optional import torch, torch_test


def ints(ids):
    return list((ctypes.c_int64 * ids.length).from_address(ids.address))


class Rows(unittest.TestCase):
    def seen(self, source, address, **expected):
        rows = _arrays.rows(source, "train")
        self.assertEqual(rows.blocks[0].address, address)
        for name, value in expected.items():
            self.assertEqual(getattr(rows, name), value, name)
        return rows

    def refused(self, source, *words):
        with self.assertRaises(InvalidArgument) as caught:
            _arrays.rows(source, "train")
        for word in ("train",) + words:
            self.assertIn(word, str(caught.exception))

    def test_numpy_in_place(self):
        a = numpy.zeros((6, 7), "f4")
        self.seen(a, a.ctypes.data, rows=6, columns=7, dtype="float32", steps=())
        a.flags.writeable = False
        self.seen(a, a.ctypes.data, rows=6)
        half = a.astype("f2")
        self.seen(half, half.ctypes.data, dtype="float16")
        every_second = a[::2]
        rows = self.seen(every_second, a.ctypes.data, rows=3)
        self.assertEqual(rows.blocks, (_arrays.Block(a.ctypes.data, 3, 14),))
        columns = a[:, 1:5]
        rows = self.seen(columns, a.ctypes.data + 4, columns=4)
        self.assertEqual(rows.blocks[0].stride, 7)

    def test_buffers_of_python_itself(self):
        floats = array.array("f", range(12))
        buffer = memoryview(floats).cast("B").cast("f", (3, 4))
        self.seen(buffer, floats.buffer_info()[0], rows=3, columns=4, dtype="float32")

    def test_three_axes(self):
        a = numpy.zeros((3, 4, 5), "f4")
        rows = self.seen(a, a.ctypes.data, rows=12, steps=(4, 4, 4))
        self.assertEqual(len(rows.blocks), 1)
        shifted = a[:, :-1]  # what predicts the tokens from the second on
        rows = self.seen(shifted, a.ctypes.data, rows=9, steps=(3, 3, 3))
        self.assertEqual([b.address - a.ctypes.data for b in rows.blocks], [0, 80, 160])
        rows = self.seen(a[:, -1:], a.ctypes.data + 60, rows=3, steps=(1, 1, 1))
        self.assertEqual(rows.blocks, (_arrays.Block(a.ctypes.data + 60, 3, 20),))

    def test_lists_of_sequences(self):
        parts = [numpy.zeros((n, 5), "f4") for n in (2, 3)]
        rows = self.seen(parts, parts[0].ctypes.data, rows=5, steps=(2, 3))
        self.assertEqual([b.address for b in rows.blocks], [p.ctypes.data for p in parts])
        self.refused([parts[0], numpy.zeros((2, 6), "f4")], "train[1]", "columns")
        self.refused([parts[0], parts[1].astype("f2")], "dtype")
        self.refused([], "empty")

    def test_the_array_lives_as_long_as_its_rows(self):
        a = numpy.zeros((4, 5), "f4")
        before = sys.getrefcount(a)
        rows = _arrays.rows(a, "train")
        self.assertGreater(sys.getrefcount(a), before)
        del rows
        gc.collect()
        self.assertEqual(sys.getrefcount(a), before)

    def test_refused_with_advice(self):
        a = numpy.zeros((4, 6), "f4")
        self.refused(a.astype("f8"), "float64", "float32")
        self.refused(a.astype("i4"), "int32")
        self.refused(a.astype(">f4"), "'>f'")
        self.refused(a[:, ::2], "2 apart", "contiguous")
        self.refused(a[::-1], "backwards")
        self.refused(a[0], "[6]", "[rows, columns]")
        self.refused(a[:0], "nothing")
        self.refused(numpy.broadcast_to(a[:1], (4, 6)), "overlap")
        self.refused(3, "int", "__dlpack__")
        self.refused(numpy.zeros((2, 2), "O"), "'O'")

    @torch_test
    def test_torch_in_place(self):
        t = torch.zeros(4, 6)
        for kind, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
            x = t.to(kind)
            self.seen(x, x.data_ptr(), dtype=name, rows=4, columns=6, device_type=_arrays.CPU)
        x = t[1:, 2:]
        self.assertEqual(self.seen(x, x.data_ptr(), rows=3, columns=4).blocks[0].stride, 6)
        x = torch.zeros(2, 3, requires_grad=True)
        self.seen(x, x.data_ptr())
        self.refused(t.double(), "float64", "x.float()")
        self.refused(t.t(), "6 apart", "x.contiguous()")
        self.refused(t.to_sparse(), "dense")
        self.refused(torch.empty(2, 3, device="meta"), "cannot be read in place")

    @torch_test
    def test_the_tensor_lives_as_long_as_its_rows(self):
        t = torch.zeros(4, 6)
        storage = t.data_ptr()
        rows = _arrays.rows(t, "train")
        t.fill_(7)
        del t
        other = torch.zeros(4, 6)  # would get the memory back if it were free
        self.assertNotEqual(other.data_ptr(), storage)
        self.assertEqual((ctypes.c_float * 24).from_address(rows.blocks[0].address)[23], 7)

    def test_both_kinds_of_capsules(self):
        class Producer:
            """Exports what numpy exports, by the older or the newer protocol."""

            def __init__(self, source, versioned):
                self.source, self.versioned = source, versioned

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **options):
                if "max_version" in options and not self.versioned:
                    raise TypeError("no max_version")
                return versioned_capsule(self.source) if self.versioned else self.source.__dlpack__()

        a = numpy.arange(12, dtype="f4").reshape(3, 4)
        for versioned in (False, True):
            self.seen(Producer(a, versioned), a.ctypes.data, rows=3, columns=4)


_keep = []


def versioned_capsule(a, major=1, device=(1, 0)):
    """A capsule "dltensor_versioned" over a numpy array, without strides: a producer may leave them out."""
    managed = _arrays._DLManagedTensorVersioned()
    shape = (ctypes.c_int64 * a.ndim)(*a.shape)
    managed.major, managed.tensor.data, managed.tensor.ndim = major, a.ctypes.data, a.ndim
    managed.tensor.device_type, managed.tensor.device_id = device
    managed.tensor.code, managed.tensor.bits, managed.tensor.lanes = 2, 32, 1
    managed.tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    _keep.append((managed, shape, a))
    new = ctypes.PyDLL(None).PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(managed), b"dltensor_versioned", None)


class Capsules(unittest.TestCase):
    def test_unknown_versions_and_used_capsules_are_refused(self):
        a = numpy.zeros((2, 2), "f4")

        class Producer:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack__(self, **options):
                return self.capsule

        with self.assertRaisesRegex(InvalidArgument, "version is 2.0"):
            _arrays.view(Producer(versioned_capsule(a, major=2)), "inf")
        with self.assertRaisesRegex(InvalidArgument, "used up"):
            _arrays.view(Producer(object()), "inf")


class Ids(unittest.TestCase):
    def test_in_place_or_converted(self):
        a = numpy.arange(12).reshape(3, 4)
        self.assertEqual(_arrays.ids(a, 12, "tokens").address, a.ctypes.data)
        wanted = list(range(12))
        for source in (a.astype("i4"), a.astype("u1"), numpy.asfortranarray(a), a[::-1][::-1], a.tolist(), wanted,
                       array.array("i", wanted), range(12), list(a), numpy.asfortranarray(a.astype("i2"))):
            self.assertEqual(ints(_arrays.ids(source, 12, "tokens")), wanted)
        self.assertEqual(ints(_arrays.ids(numpy.arange(4)[::-1], 4, "tokens")), [3, 2, 1, 0])
        self.assertEqual(ints(_arrays.ids(numpy.broadcast_to(numpy.int64(5), (3,)), 3, "tokens")), [5, 5, 5])
        self.assertIsNone(_arrays.ids(None, 3, "tokens"))

    @torch_test
    def test_torch(self):
        t = torch.arange(12).reshape(3, 4)
        self.assertEqual(_arrays.ids(t, 12, "tokens").address, t.data_ptr())
        self.assertEqual(ints(_arrays.ids(t.int().t().contiguous().t(), 12, "tokens")), list(range(12)))
        self.assertEqual(ints(_arrays.ids(t[:, 1:], 9, "tokens")), [1, 2, 3, 5, 6, 7, 9, 10, 11])

    def test_refused(self):
        for source, words in ((numpy.zeros(3), "float64"), ([1, "a"], "integer"), (numpy.arange(2), "2 of them"),
                              (numpy.array([2**63, 0, 0], "u8"), "64 bits"), (5, "iterable")):
            with self.assertRaisesRegex(InvalidArgument, words):
                _arrays.ids(source, 3, "tokens")


if __name__ == "__main__":
    unittest.main()
