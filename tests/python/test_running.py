"""What happens while the library works: no copy, other threads run, signals and progress functions stop it."""
import _thread
import os
import signal
import sys
import threading
import unittest

import numpy

import captures
import driftgate
from driftgate import _rows
from optional import torch, torch_test


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as handle:
        return next(int(line.split()[1]) << 10 for line in handle if line.startswith("VmHWM:"))


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as handle:
        handle.write("5")


def many_rows():
    """Rows that the library measures in five batches."""
    return captures.logits(40_000, 64)


class NoCopy(unittest.TestCase):
    def test_rows_stay_where_they_are(self):
        train, _ = captures.logits(30, 40)
        prepared = _rows.prepare(train, "train", tokens=numpy.arange(30))
        self.assertEqual(prepared.blocks[0].logits.data, train.ctypes.data)
        matrix, = driftgate.Capture.of(train).matrices()
        self.assertEqual(numpy.asarray(matrix).ctypes.data, train.ctypes.data)
        self.assertTrue(matrix.readonly)

    @torch_test
    def test_tensors_stay_where_they_are(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            t = torch.zeros(30, 40, dtype=dtype)
            capture = driftgate.Capture.of(t)
            matrix, = capture.matrices()
            self.assertEqual(numpy.asarray(matrix).ctypes.data, t.data_ptr())
            self.assertEqual(f"torch.{capture.dtype}", str(dtype))
            self.assertEqual(matrix.shape, (30, 40))

    def test_memory_does_not_grow_with_the_rows(self):
        train = numpy.ones((4096, 8192), "f4")  # 128 MiB, and as much again
        inf = numpy.ones((4096, 8192), "f4")
        driftgate.drift(train[:2], inf[:2], threads=1)
        forget_peak()
        before = peak_bytes()
        driftgate.drift(train, inf, threads=1)
        self.assertLess(peak_bytes() - before, 32 << 20)

    def test_a_capture_keeps_the_array(self):
        train, inf = captures.logits(64, 100)
        wanted = driftgate.drift(train, inf).to_json()
        sides = [driftgate.Capture.of(x.copy(), kernel=name) for x, name in ((train, "train"), (inf, "inf"))]
        numpy.zeros((64, 100), "f4")  # would take the memory if it were free
        self.assertEqual(driftgate.drift(*sides).to_json(), wanted)
        columns = driftgate.Capture.of(train.copy()).positions  # the view keeps the capture
        self.assertEqual(list(columns), list(range(64)))


class OtherThreads(unittest.TestCase):
    def test_they_run_meanwhile(self):
        """The interpreter hands its lock over only where it is given up, so that nobody else could count else."""
        train, inf = many_rows()
        counted, at = [0], []

        def measure():
            at.append(counted[0])
            driftgate.drift(train, inf, threads=1)
            at.append(counted[0])

        worker = threading.Thread(target=measure)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            worker.start()
            while worker.is_alive():
                counted[0] += 1
                worker.join(0.0001)
        finally:
            sys.setswitchinterval(before)
        self.assertEqual(len(at), 2)
        self.assertGreater(at[1], at[0])

    def test_several_measure_at_once(self):
        train, inf = captures.logits(2000, 128)
        contract = driftgate.Contract(captures.contract(0.5))
        shared = driftgate.Capture.of(train, kernel="train")
        wanted = driftgate.drift(train, inf, contract=contract, threads=1).to_json()
        said = []
        other = driftgate.Capture.of(inf, kernel="inf")
        workers = [threading.Thread(target=lambda: said.append(
            driftgate.drift(shared, other, contract=contract, threads=1).to_json())) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(said, [wanted] * 6)


class Stopped(unittest.TestCase):
    def test_progress_is_told_and_may_stop(self):
        train, inf = many_rows()
        told = []
        driftgate.drift(train, inf, progress=lambda done, total: told.append((done, total)))
        self.assertEqual(told[-1], (40_000, 40_000))
        self.assertGreater(len(told), 2)
        told.clear()

        def stop(done, total):
            told.append(done)
            return True

        with self.assertRaises(driftgate.DriftgateError) as caught:
            driftgate.drift(train, inf, progress=stop)
        self.assertEqual((caught.exception.code, len(told)), ("cancelled", 1))

    def test_what_progress_raises_is_raised(self):
        train, inf = many_rows()

        def fail(done, total):
            raise ZeroDivisionError("of progress")

        with self.assertRaisesRegex(ZeroDivisionError, "of progress"):
            driftgate.drift(train, inf, progress=fail)

    def interrupted(self, send, number, exception, told):
        """Another thread sends the signal while the library works, as a keyboard or a timer would."""
        train, inf = many_rows()
        first, sent = threading.Event(), threading.Event()

        def sender():
            first.wait(60)
            send()
            sent.set()

        def progress(done, total):
            told.append(done)
            first.set()
            sent.wait(60)

        worker = threading.Thread(target=sender)
        worker.start()
        before = signal.getsignal(number)
        try:
            with self.assertRaises(exception):
                driftgate.drift(train, inf, progress=progress)
        finally:
            first.set()
            worker.join()
        self.assertIs(signal.getsignal(number), before)

    def test_an_interrupt_from_the_keyboard(self):
        told = []
        self.interrupted(lambda: os.kill(os.getpid(), signal.SIGINT), signal.SIGINT, KeyboardInterrupt, told)
        self.assertLess(max(told), 40_000)
        told.clear()
        self.interrupted(_thread.interrupt_main, signal.SIGINT, KeyboardInterrupt, told)
        self.assertLess(max(told), 40_000)

    def test_a_timer_that_raises(self):
        class Late(Exception):
            pass

        def late(number, frame):
            raise Late

        before = signal.signal(signal.SIGALRM, late)
        try:
            self.interrupted(lambda: os.kill(os.getpid(), signal.SIGALRM), signal.SIGALRM, Late, [])
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_a_handler_that_returns_stops_nothing(self):
        seen = []
        before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
        train, inf = many_rows()

        def send_once(done, total):
            if not seen:
                os.kill(os.getpid(), signal.SIGTERM)

        try:
            drift = driftgate.drift(train, inf, progress=send_once)
        finally:
            signal.signal(signal.SIGTERM, before)
        self.assertEqual((set(seen), drift.row_count), ({signal.SIGTERM}, 40_000))

    def test_handlers_that_the_program_sets_stay(self):
        train, inf = many_rows()
        batches = driftgate.Accumulator()
        before = signal.getsignal(signal.SIGTERM)
        try:
            signal.signal(signal.SIGTERM, lambda number, frame: None)
            batches.add(train, inf)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            batches.add(train, inf)
            self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_IGN)

            def replace(number, frame):  # the second signal shall end the program
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

            signal.signal(signal.SIGTERM, replace)
            sent = []

            def send_once(done, total):
                if not sent:
                    sent.append(os.kill(os.getpid(), signal.SIGTERM))

            driftgate.drift(train, inf, progress=send_once)
            self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_progress_of_several_blocks(self):
        train, inf = (x.reshape(4, 9, 50)[:, :8] for x in captures.logits(36, 50))
        told = []
        driftgate.drift(train, inf, progress=lambda done, total: told.append((done, total)))
        self.assertEqual(told[:4], [(8, 32), (16, 32), (24, 32), (32, 32)])
        self.assertLessEqual(set(told[4:]), {(32, 32)})  # the report is made with all rows


if __name__ == "__main__":
    unittest.main()
