"""driftgate.drift on arrays against the command line on captures of the same bytes, and what it refuses."""
import json
import os
import tempfile
import unittest

import numpy

import captures
import driftgate
from optional import torch, torch_test

ROWS, COLUMNS = 96, 321
SEQUENCES = numpy.repeat(numpy.arange(12), 8)
TOKENS = numpy.arange(ROWS) * 3 % COLUMNS
LANGUAGES = ["de", "en", "fr"] * 4
VERDICTS = {0: "pass", 1: "violated", 3: "inconclusive", 4: "error"}  # by exit code
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


class Folder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as handle:
            handle.write(text)
        return self.path(name)

    def capture(self, name, data, dtype="F32", shape=(ROWS, COLUMNS), sequences=SEQUENCES, tokens=TOKENS, **others):
        tensors = {"logits": (dtype, shape, data), "sequence_ids": captures.ids(sequences)}
        if tokens is not None:
            tensors["token_ids"] = captures.ids(tokens)
        return captures.write(self.path(f"{name}.safetensors"), tensors, **{"kernel": name, **others})

    def both(self, train, inf, **options):
        shape = (int(numpy.prod(train.shape[:-1])), train.shape[-1])
        return [self.capture(name, x.tobytes(), shape=shape, **options) for name, x in (("train", train), ("inf", inf))]

    def corpus(self):
        return self.file("corpus.jsonl", "".join(f'{{"sequence": {i}, "slices": {{"language": "{language}"}}}}\n'
                                                 for i, language in enumerate(LANGUAGES)))


class AsTheCommandLine(Folder):
    @torch_test
    def test_tensors_of_every_type(self):
        train, inf = map(torch.from_numpy, captures.logits(ROWS, COLUMNS))
        contract, corpus = self.file("contract.yaml", captures.contract(0.5)), self.corpus()
        for name, dtype in DTYPES.items():
            sides = [x.to(getattr(torch, name)) for x in (train, inf)]
            paths = [self.capture(side, x.view(torch.int16 if x.element_size() == 2 else torch.int32).numpy().tobytes(),
                                  dtype) for side, x in zip(("train", "inf"), sides)]
            said, code = captures.cli(*paths, "--corpus", corpus, "--contract", contract)
            drift = driftgate.drift(*sides, torch.from_numpy(TOKENS), torch.from_numpy(SEQUENCES),
                                    slices={"language": LANGUAGES}, contract=contract)
            self.assertEqual(drift.to_json(), said, name)
            self.assertEqual((drift.exit_code, drift.verdict), (code, VERDICTS[code]))

    def test_numpy_with_and_without_everything(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        paths = self.both(train, inf, tokens=None)
        self.assertEqual(driftgate.drift(train, inf, sequences=SEQUENCES).to_json(), captures.cli(*paths)[0])
        drift = driftgate.drift(*self.both(train, inf))
        self.assertIsNone(drift.verdict)
        self.assertEqual(drift.to_json(), captures.cli(*self.both(train, inf))[0])
        self.assertEqual(drift.to_json(), driftgate.drift(train, inf, TOKENS, SEQUENCES).to_json())
        self.assertEqual(drift.to_dict()["rows"], ROWS)
        self.assertEqual(drift["rows"], ROWS)

    def test_options(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        paths = self.both(train, inf, temperature="0.7", **{"checkpoint.digest": "sha256:1"})
        said = captures.cli(*paths, "--metrics", "core", "--top-rows", 3, "--top-k", 5, "--threads", 1)[0]
        drift = driftgate.drift(train, inf, TOKENS, SEQUENCES, metrics="core", top_rows=3, top_k=5, threads=1,
                                temperature=0.7, checkpoint="sha256:1")
        self.assertEqual(drift.to_json(), said)
        told = []
        drift = driftgate.drift(train, inf, TOKENS, SEQUENCES, metrics="core", top_rows=3, top_k=5, threads=1,
                                temperature=0.7, checkpoint="sha256:1", progress=lambda *rows: told.append(rows))
        self.assertEqual((drift.to_json(), told[-1]), (said, (ROWS, ROWS)))
        self.assertEqual(driftgate.drift(train, inf, top_rows=0)["worst_rows"], [])

    def test_a_verdict_and_floors(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        again, _ = captures.logits(ROWS, COLUMNS, noise=0)
        paths = self.both(train, inf)
        floor = self.capture("floor", (again + numpy.float32(1e-4) * inf).astype("f4").tobytes(), kernel="train")
        contract = captures.contract(1e-9)
        said, code = captures.cli(*paths, "--contract", self.file("contract.yaml", contract), "--floor-train", floor)
        drift = driftgate.drift(*paths, contract=driftgate.Contract(contract), floor_train=floor)
        self.assertEqual(drift.to_json(), said)
        self.assertEqual((drift.verdict, drift.exit_code, code), ("violated", 1, 1))

    def test_floors_of_arrays(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        floor = (train + numpy.float32(1e-4) * inf).astype("f4")
        path = self.capture("floor", floor.tobytes(), kernel="train")
        said = captures.cli(*self.both(train, inf), "--floor-train", path)[0]
        self.assertEqual(driftgate.drift(train, inf, TOKENS, SEQUENCES, floor_train=floor).to_json(), said)
        self.assertEqual(driftgate.drift(*self.both(train, inf), floor_train=[floor]).to_json(), said)
        with self.assertRaisesRegex(driftgate.InvalidArgument, "floor_inf: dict"):
            driftgate.drift(train, inf, floor_inf={})
        with self.assertRaisesRegex(driftgate.DriftgateError, "floor_inf 95"):
            driftgate.drift(train, inf, floor_inf=[inf[1:]])

    def test_strides_blocks_and_lists(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        said = captures.cli(*self.both(train, inf))[0]
        wide = [numpy.concatenate([x, x], axis=1)[:, :COLUMNS] for x in (train, inf)]
        self.assertEqual(driftgate.drift(*wide, TOKENS, SEQUENCES).to_json(), said)
        batch = [x.reshape(12, 8, COLUMNS) for x in (train, inf)]
        self.assertEqual(driftgate.drift(*batch, TOKENS.reshape(12, 8)).to_json(), said)
        longer = [numpy.concatenate([x, x[:, :1]], axis=1)[:, :-1] for x in batch]  # twelve blocks of memory
        self.assertEqual(driftgate.drift(*longer, TOKENS).to_json(), said)
        self.assertEqual(driftgate.drift(longer[0], batch[1], TOKENS).to_json(), said)
        ragged = [[x[:8], *x[8:].reshape(11, 8, COLUMNS)] for x in (train, inf)]
        self.assertEqual(driftgate.drift(*ragged, TOKENS).to_json(), said)
        with self.assertRaisesRegex(driftgate.DriftgateError, "contiguous"):
            driftgate.drift(self.path("train.safetensors"), longer[1])

    def test_an_array_beside_a_capture(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        paths = self.both(train, inf, temperature="0.5", token_source="inf")
        said = captures.cli(*paths)[0]
        self.assertEqual(driftgate.drift(paths[0], inf).to_json(), said)
        opened = driftgate.Capture.open(paths[1])
        self.assertEqual(driftgate.drift(train, opened).to_json(), said)
        with self.assertRaisesRegex(driftgate.InvalidArgument, "tokens: captures hold it"):
            driftgate.drift(paths[0], opened, tokens=TOKENS)

    def test_hidden_states_with_a_head(self):
        random = numpy.random.default_rng(3)
        states = random.standard_normal((2, ROWS, 40), dtype="f4")
        states[1] = states[0] + states[1] * numpy.float32(1e-3)
        weight, bias = random.standard_normal((COLUMNS, 40), dtype="f4"), random.standard_normal(COLUMNS, dtype="f4")
        captures.write(self.path("head.tensors"), {"w": ("F32", weight.shape, weight.tobytes()),
                                                   "b": ("F32", bias.shape, bias.tobytes())})
        paths = [captures.write(self.path(f"{name}.safetensors"), {
            "hidden": ("F32", x.shape, x.tobytes()), "sequence_ids": captures.ids(SEQUENCES),
            "token_ids": captures.ids(TOKENS)}, kernel=name, **{
                "lm_head": "head.tensors#w", "lm_head.bias": "b", "lm_head.soft_cap": "30"})
            for name, x in zip(("train", "inf"), states)]
        head = driftgate.Head(weight, bias, soft_cap=30)
        self.assertEqual((head.vocabulary, head.width), (COLUMNS, 40))
        drift = driftgate.drift(driftgate.Hidden(states[0], head), driftgate.Hidden(states[1], head), TOKENS, SEQUENCES)
        self.assertEqual(drift.to_json(), captures.cli(*paths)[0])
        with self.assertRaisesRegex(driftgate.InvalidArgument, "driftgate.Head"):
            driftgate.Hidden(states[0], weight)

    def test_lists_and_log_probabilities(self):
        random = numpy.random.default_rng(4)
        ids = numpy.argsort(random.random((ROWS, 50)), axis=1)[:, :5].astype("i4")
        values = [(-numpy.sort(random.random((ROWS, 5))) - 1.7).astype("f4") for _ in range(2)]
        said = [-random.random(ROWS, dtype="f4") - 1 for _ in range(2)]
        tokens = {"sequence_ids": captures.ids(SEQUENCES), "token_ids": captures.ids(ids[:, 0])}
        paths = [captures.write(self.path(f"{name}.safetensors"), {
            "topk_ids": ("I32", ids.shape, ids.tobytes()), "topk_logprobs": ("F32", v.shape, v.tobytes()), **tokens},
            kernel=name, vocabulary="50") for name, v in zip(("train", "inf"), values)]
        drift = driftgate.drift(*(driftgate.TopK(ids, v, vocabulary=50) for v in values), ids[:, 0], SEQUENCES)
        self.assertEqual(drift.to_json(), captures.cli(*paths)[0])
        paths = [captures.write(self.path(f"{name}.safetensors"), {"logprobs": ("F32", v.shape, v.tobytes()), **tokens},
                                kernel=name) for name, v in zip(("train", "inf"), said)]
        drift = driftgate.drift(*map(driftgate.Logprobs, said), ids[:, 0], SEQUENCES)
        self.assertEqual(drift.to_json(), captures.cli(*paths)[0])


class Rows(Folder):
    def test_figures_of_every_row_are_those_of_rows_out(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        paths = self.both(train, inf)
        captures.cli(*paths, "--rows-out", self.path("rows"))
        with open(self.path("rows"), "rb") as handle:
            size = int.from_bytes(handle.read(8), "little")
            header, data = json.loads(handle.read(size)), handle.read()
        rows = driftgate.drift(train, inf, TOKENS, SEQUENCES).rows()
        self.assertEqual(list(rows), driftgate.metric_names())
        for name, values in rows.items():
            begin, end = header[name]["data_offsets"]
            self.assertEqual(bytes(values), data[begin:end], name)
            self.assertEqual(numpy.asarray(values).dtype, numpy.float64)
        with self.assertRaises(KeyError):
            driftgate.drift(train, inf).column("kl")

    def test_rows_that_were_not_kept(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        with self.assertRaises(driftgate.DriftgateError) as caught:
            driftgate.drift(train, inf, keep_rows=False).rows()
        self.assertEqual(caught.exception.code, "conflict")

    def test_nan_is_never_averaged_away(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        inf[5, 7] = numpy.nan
        drift = driftgate.drift(train, inf, TOKENS, SEQUENCES, slices={"language": LANGUAGES},
                                contract=driftgate.Contract(captures.contract(0.5)))
        self.assertEqual((drift.verdict, drift.exit_code, drift["nonfinite_rows"]), ("violated", 1, 1))
        self.assertEqual(drift["worst_rows"][0]["row"], 5)
        kl = numpy.asarray(drift.column("kl_inf_train"))
        self.assertEqual(numpy.flatnonzero(numpy.isnan(kl)).tolist(), [5])


class Reports(Folder):
    def test_every_form(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        drift = driftgate.drift(train, inf, TOKENS, SEQUENCES, slices={"language": LANGUAGES},
                                contract=driftgate.Contract(captures.contract(1e-9)))
        self.assertIn("violated, 96 rows", repr(drift))
        self.assertIn("kl", drift.to_markdown())
        self.assertIn("<testsuite", drift.to_junit())
        self.assertIn("<html", drift.to_html())
        self.assertTrue(drift._repr_html_().startswith('<iframe srcdoc="'))


class Refused(Folder):
    def refused(self, words, *arguments, code="invalid_argument", **options):
        with self.assertRaisesRegex(driftgate.DriftgateError, words) as caught:
            driftgate.drift(*arguments, **options)
        self.assertEqual(caught.exception.code, code)

    def test_wrong_shapes(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        self.refused("rows", train, inf[1:], code="not_comparable")
        self.refused("vocabular", train, inf[:, 1:].copy(), code="not_comparable")
        self.refused("tokens: 95 of them", train, inf, TOKENS[1:])
        self.refused("slices: 2 of them for 1 sequences", train, inf, slices=[{"a": 1}, {"a": 2}])
        self.refused("one value for each", train, inf, slices={"a": [1], "b": [1, 2]})
        self.refused("give one of them", train, inf, slices={"a": [1]}, corpus="x")
        self.refused("metrics", train, inf, metrics="some")
        self.refused("threads", train, inf, threads=-1)
        self.refused("contract: int", train, inf, contract=3)
        self.refused("give text and whole numbers", train, inf, threads=[1])
        self.refused("give text and whole numbers", train, inf, device=["cpu"])
        self.refused("give text and a number", train, inf, train_kernel=["a"])
        self.refused("threads: 1.0", train, inf, threads=1.0)  # equal to one that was taken before
        longer = numpy.zeros((3, 4, 5), "f4")
        self.refused("train has 9 rows and inf 12", longer[:, :-1], longer, code="not_comparable")

    def test_ids_of_another_shape(self):
        train, inf = (x.reshape(12, 8, COLUMNS) for x in captures.logits(ROWS, COLUMNS))
        tokens = TOKENS.reshape(12, 8)
        self.refused("tokens: the shape is", train, inf, numpy.ascontiguousarray(tokens.T))
        self.refused("tokens: the shape is", train, inf, TOKENS[:, None])
        self.refused("tokens: the list has 8 parts of 12, and the rows are 12 sequences of 8", train, inf,
                     tokens.T.tolist())
        self.refused("tokens: the list has 8 parts", train, inf, list(tokens.T))
        self.refused("positions: the shape is", train, inf, positions=numpy.zeros((8, 12), int))
        self.refused("sequences: the shape is", train, inf, sequences=numpy.zeros((8, 12), int))
        ragged = [[x[0, :6], numpy.concatenate([x[1], x[2, :2]])] for x in (train, inf)]
        self.refused("rows are 2 sequences of 6 to 10", *ragged, numpy.zeros((2, 8), int))
        with self.assertRaisesRegex(driftgate.InvalidArgument, "logprobs: the shape is"):
            driftgate.Capture.of(train, logprobs=numpy.zeros((8, 12), "f4"))
        wanted = driftgate.drift(train, inf, tokens).to_json()
        for same in (TOKENS, tokens, tokens.tolist(), list(tokens), list(TOKENS)):
            self.assertEqual(driftgate.drift(train, inf, same).to_json(), wanted)
        flat = [x.reshape(ROWS, COLUMNS) for x in (train, inf)]
        for sides in ((flat[0], inf), (train, flat[1])):  # either shape tells the sequences
            self.assertEqual(driftgate.drift(*sides, tokens).to_json(), wanted)

    def test_numbers_that_c_would_wrap_or_take_for_others(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        identity = driftgate.Identity._fields
        self.assertIn("temperature", identity)
        for number in (0, 0.0, -1, float("inf"), float("nan"), "warm"):
            self.refused("temperature: ", train, inf, temperature=number)
            with self.assertRaisesRegex(driftgate.InvalidArgument, "temperature: .*give a number"):
                driftgate.Accumulator(temperature=number)
        for scale in (0.0, float("nan"), "much"):
            with self.assertRaisesRegex(driftgate.InvalidArgument, "scale: "):
                driftgate.Head(train, scale=scale)
        ids = numpy.zeros((ROWS, 1), "i4")
        for number in (2**32 + 7, -1, 0, 1.5):
            for make in (lambda: driftgate.Capture.of(driftgate.Logprobs(train[:, 0].copy(), vocabulary=number)),
                         lambda: driftgate.Capture.of(driftgate.TopK(ids, train[:, :1].copy(), vocabulary=number)),
                         lambda: driftgate.Head(train, vocabulary=number)):
                with self.assertRaisesRegex(driftgate.InvalidArgument, "vocabulary: "):
                    make()
            with self.assertRaisesRegex(driftgate.InvalidArgument, "part_bytes: "):
                driftgate.CaptureWriter(self.path("none"), part_bytes=number if number != 2**32 + 7 else 2**64)
            with self.assertRaisesRegex(driftgate.InvalidArgument, "max_rows: "):
                driftgate.Accumulator(max_rows=number if number != 2**32 + 7 else 2**64)
        self.assertFalse(os.path.exists(self.path("none")))
        self.assertEqual(driftgate.drift(train, inf, top_rows=numpy.int64(2), threads=numpy.int32(1))["rows"], ROWS)

    def test_what_is_neither_a_path_nor_text(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        for call in (lambda: driftgate.Capture.open(3), lambda: driftgate.Capture.open(self.path("x"), lm_head=3),
                     lambda: driftgate.CaptureWriter(None), lambda: driftgate.Contract.open(3),
                     lambda: driftgate.drift(train, inf, slices=[{"a": "\ud800"}]),
                     lambda: driftgate.drift(train, inf, slices={"a": "d"}),
                     lambda: driftgate.drift(train, inf, slices={"a": 3}), lambda: driftgate.drift(train, inf, slices=3),
                     lambda: driftgate.drift(train, inf, corpus=3), lambda: driftgate.drift(train, inf, train_kernel=3),
                     lambda: driftgate.drift(train, inf, contract={"a": train}),
                     lambda: driftgate.drift(train, inf, checkpoint="\ud800")):
            with self.assertRaises(driftgate.InvalidArgument):
                call()

    def test_bad_ids_files_and_devices(self):
        train, inf = captures.logits(ROWS, COLUMNS)
        self.refused("token", train, inf, TOKENS + COLUMNS, code="invalid_capture")
        self.refused("absent", self.path("absent"), inf, code="not_found")
        with self.assertRaises(driftgate.DriftgateError):
            driftgate.drift(train, inf, device="gpu")
        with self.assertRaisesRegex(driftgate.DriftgateError, "sequence") as caught:
            driftgate.drift(train, inf, sequences=SEQUENCES, slices={3: {"a": "b"}})
        self.assertEqual(caught.exception.code, "not_comparable")

    def test_contracts_list_their_faults(self):
        with self.assertRaisesRegex(driftgate.DriftgateError, r"limits:\d+:\d+: ") as caught:
            driftgate.Contract(captures.contract("much").replace("p90", "p91"), "limits")
        self.assertEqual(caught.exception.code, "invalid_document")
        self.assertGreater(len(str(caught.exception).splitlines()), 1)
        path = self.file("contract.yaml", captures.contract(1))
        self.assertEqual(driftgate.Contract.open(path).digest, driftgate.Contract(captures.contract(1)).digest)
        self.assertEqual(driftgate.Contract.open(path).name, "python-test")


if __name__ == "__main__":
    unittest.main()
