"""Accumulators give what one pass gives, and captures that are written in parts are read as they were."""
import os
import signal
import tempfile
import threading
import unittest

import numpy

import captures
import driftgate
from optional import torch, torch_test

ROWS, COLUMNS = 120, 257
SEQUENCES = numpy.repeat(numpy.arange(15), 8)
TOKENS = numpy.arange(ROWS) * 7 % COLUMNS
LANGUAGES = ["de", "en", "fr"] * 5


class Accumulators(unittest.TestCase):
    def test_batches_give_what_one_pass_gives(self):
        order = numpy.random.default_rng(5).permutation(ROWS)  # sequences mix and go on over several batches
        positions = (numpy.arange(ROWS) % 8)[order]
        sequences, tokens = SEQUENCES[order], TOKENS[order]
        contract = driftgate.Contract(captures.contract(1e-5))
        lines = [{"sequence": i, "slices": {"language": language}} for i, language in enumerate(LANGUAGES)]
        for dtype in ("f4", "f2"):
            train, inf = captures.logits(ROWS, COLUMNS, dtype=dtype)
            whole = driftgate.drift(train, inf, tokens, sequences, positions, corpus=lines, contract=contract)
            batches = driftgate.Accumulator(contract=contract, corpus=lines, keep_rows=True)
            reused = [numpy.empty((50, COLUMNS), dtype) for _ in range(2)]
            for begin, end in ((0, 1), (1, 40), (40, 90), (90, ROWS)):
                sides = [space[:end - begin] for space in reused]
                for side, source in zip(sides, (train, inf)):
                    side[:] = source[begin:end]
                batches.add(*sides, tokens[begin:end], sequences[begin:end], positions[begin:end])
            self.assertEqual(len(batches), ROWS)
            drift = batches.finish()
            self.assertEqual(drift.to_json(), whole.to_json())
            self.assertEqual(drift.verdict, "violated")
            for name, values in drift.rows().items():
                self.assertEqual(bytes(values), bytes(whole.column(name)), name)

    def test_sequences_are_counted_on(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        whole = driftgate.drift(train, inf, TOKENS, SEQUENCES)
        batches = driftgate.Accumulator()
        batches.add(train[:8], inf[:8], TOKENS[:8])
        batches.add(train[8:64].reshape(7, 8, COLUMNS), inf[8:64].reshape(7, 8, COLUMNS), TOKENS[8:64])
        first = batches.finish()
        self.assertEqual(first["rows"], 64)
        longer = [numpy.concatenate([x, x[:, :1]], axis=1)[:, :-1] for x in (train[64:].reshape(7, 8, COLUMNS),
                                                                          inf[64:].reshape(7, 8, COLUMNS))]
        batches.add(*longer, TOKENS[64:])
        self.assertEqual(batches.finish().to_json(), whole.to_json())

    @torch_test
    def test_tensors_during_a_run(self):
        train, inf = (torch.from_numpy(x).bfloat16().reshape(5, 24, COLUMNS) for x in captures.logits(ROWS, COLUMNS))
        tokens = torch.from_numpy(TOKENS).reshape(5, 24)
        batches = driftgate.Accumulator()
        for step in range(5):
            batches.add(train[step:step + 1, :-1], inf[step:step + 1, :-1], tokens[step:step + 1, 1:])
        whole = driftgate.drift(train[:, :-1], inf[:, :-1], tokens[:, 1:])
        self.assertEqual(batches.finish().to_json(), whole.to_json())

    def test_refused(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        batches = driftgate.Accumulator(max_rows=100)
        with self.assertRaises(driftgate.DriftgateError) as caught:
            batches.finish()
        self.assertEqual(caught.exception.code, "conflict")
        with self.assertRaisesRegex(driftgate.InvalidArgument, "train has 120 rows and inf 119"):
            batches.add(train, inf[1:])
        batches.add(train[:90], inf[:90])
        with self.assertRaises(driftgate.DriftgateError) as caught:
            batches.add(train[90:], inf[90:])
        self.assertEqual(caught.exception.code, "limit_exceeded")
        self.assertEqual(len(batches), 90)


    def test_a_batch_that_is_in_by_half_is_not_built_on(self):
        train, inf = (x.reshape(4, 9, 50)[:, :8] for x in captures.logits(36, 50))
        tokens = numpy.zeros((4, 8), "i8")
        wrong = tokens.copy()
        wrong[0, 0] = 50
        batches = driftgate.Accumulator()
        with self.assertRaises(driftgate.DriftgateError):
            batches.add(train, inf, wrong)
        self.assertEqual(len(batches), 0)  # the first block failed, so nothing is in
        batches.add(train, inf, tokens)
        self.assertEqual(batches.finish()["sequences"], 4)
        wrong = tokens.copy()
        wrong[2, 0] = 50
        with self.assertRaises(driftgate.DriftgateError):
            batches.add(train, inf, wrong)
        for call in (lambda: batches.add(train, inf, tokens), batches.finish):
            with self.assertRaisesRegex(driftgate.DriftgateError, "begin anew") as caught:
                call()
            self.assertEqual(caught.exception.code, "conflict")

    def test_an_interrupt_behind_the_last_row(self):
        train, inf = captures.logits(ROWS, COLUMNS)

        sent = []

        def late(done, total):
            if done == total and not sent:
                sent.append(os.kill(os.getpid(), signal.SIGINT))

        batches = driftgate.Accumulator(progress=late)
        with self.assertRaises(KeyboardInterrupt):
            batches.add(train, inf)
        self.assertEqual(len(batches), ROWS)
        batches.add(train, inf)
        self.assertEqual(batches.finish()["sequences"], 2)

    def test_numbers_that_are_given_are_not_counted_again(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        batches = driftgate.Accumulator()
        batches.add(train[:8], inf[:8], sequences=[1] * 8)
        batches.add(train[8:16], inf[8:16])
        batches.add(train[16:24], inf[16:24])
        self.assertEqual(batches.finish()["sequences"], 3)
        batches.add(train[24:25], inf[24:25], sequences=[2**63 - 1])
        with self.assertRaisesRegex(driftgate.InvalidArgument, "no number is left"):
            batches.add(train[25:26], inf[25:26])

    def test_another_thread_may_add(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        told = []
        batches = driftgate.Accumulator(progress=lambda done, total: told.append(threading.current_thread().name))
        worker = threading.Thread(target=batches.add, args=(train, inf), name="worker")
        worker.start()
        worker.join()
        self.assertEqual((len(batches), set(told)), (ROWS, {"worker"}))


class Writers(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def write(self, name, source, **options):
        path = os.path.join(self.folder, name)
        with driftgate.CaptureWriter(path, kernel=name, **options) as writer:
            for begin in range(0, ROWS, 40):
                writer.append(source[begin:begin + 40], tokens=TOKENS[begin:begin + 40],
                              sequences=SEQUENCES[begin:begin + 40])
        return path

    def test_parts_are_read_by_the_command_line(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        paths = [self.write(name, x, part_bytes=30_000, temperature=0.5, checkpoint="sha256:7")
                 for name, x in (("train", train), ("inf", inf))]
        self.assertGreater(len([f for f in os.listdir(paths[0]) if f.endswith(".safetensors")]), 1)
        drift = driftgate.drift(train, inf, TOKENS, SEQUENCES, temperature=0.5, checkpoint="sha256:7")
        self.assertEqual(captures.cli(*paths)[0], drift.to_json())
        read = driftgate.Capture.open(paths[0])
        self.assertEqual((read.rows, read.vocabulary, read.columns, read.mode, read.kernel),
                         (ROWS, COLUMNS, COLUMNS, "full", "train"))
        self.assertEqual(read.identity, driftgate.Identity("train", "sha256:7", temperature=0.5))
        self.assertEqual(list(read.tokens), TOKENS.tolist())
        self.assertEqual(list(read.sequences), SEQUENCES.tolist())
        self.assertEqual(list(read.positions), [i % 8 for i in range(ROWS)])
        self.assertEqual(b"".join(read.matrices()), train.tobytes())

    @torch_test
    def test_bfloat16_and_counted_sequences(self):
        train = torch.from_numpy(captures.logits(ROWS, COLUMNS)[0]).bfloat16()
        path = os.path.join(self.folder, "counted")
        with driftgate.CaptureWriter(path) as writer:
            writer.append(train[:8])
            writer.append(train[8:].reshape(14, 8, COLUMNS)[:, :7])
        read = driftgate.Capture.open(path)
        self.assertEqual(list(read.sequences), [0] * 8 + [1 + i // 7 for i in range(98)])
        got = torch.frombuffer(bytearray(read.matrices()[0]), dtype=torch.bfloat16).reshape(-1, COLUMNS)
        self.assertTrue(torch.equal(got[8:], train[8:].reshape(14, 8, COLUMNS)[:, :7].reshape(-1, COLUMNS)))

    def test_a_block_that_raises_leaves_no_capture(self):
        path = os.path.join(self.folder, "broken")
        with self.assertRaises(ZeroDivisionError):
            with driftgate.CaptureWriter(path) as writer:
                writer.append(numpy.zeros((3, 4), "f4"))
                raise ZeroDivisionError
        with self.assertRaises(driftgate.DriftgateError):
            driftgate.Capture.open(path)
        self.write("train", captures.logits(ROWS, COLUMNS)[0])
        with self.assertRaises(driftgate.DriftgateError) as caught:
            self.write("train", captures.logits(ROWS, COLUMNS)[0])
        self.assertEqual(caught.exception.code, "already_exists")

    def test_an_append_that_is_in_by_half_makes_no_capture(self):
        rows = captures.logits(36, 50)[0].reshape(4, 9, 50)[:, :8]
        wrong = numpy.zeros((4, 8), "i8")
        wrong[2, 0] = -1
        path = os.path.join(self.folder, "half")
        with self.assertRaises(driftgate.DriftgateError) as caught:
            with driftgate.CaptureWriter(path) as writer:
                with self.assertRaises(driftgate.DriftgateError):
                    writer.append(rows, tokens=wrong)
                with self.assertRaisesRegex(driftgate.DriftgateError, "another folder"):
                    writer.append(rows)
                writer.close()
        self.assertEqual(caught.exception.code, "conflict")
        with self.assertRaises(driftgate.DriftgateError):
            driftgate.Capture.open(path)


if __name__ == "__main__":
    unittest.main()
