#!/usr/bin/python3
"""The transformers integration with transformers itself: a tiny Llama of random weights, made here without a network."""
import unittest

import support

transformers, torch = support.imported("transformers"), support.torch()
if not hasattr(transformers, "LlamaConfig"):
    raise unittest.SkipTest("transformers is a stand-in here")
driftgate = support.driftgate()

from driftgate.integrations import transformers as integration  # noqa: E402

VOCABULARY = 331
CONTRACT = """apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: two-types}
kernels: {train: {ref: hf-f32}, inf: {ref: hf-bf16}}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: tv, metric: tv, aggregate: sequence_mean, clip: 0.25, max: LIMIT}
"""


def model(dtype=torch.float32, **options):
    torch.manual_seed(11)
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                                      tie_word_embeddings=False, initializer_range=0.2, **options)
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


def sequences(count=60, most=24):
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(2, most, (count,), generator=generator).tolist()
    return [(3 * i, torch.randint(0, VOCABULARY, (n,), generator=generator).tolist()) for i, n in enumerate(lengths)]


class Two(support.Folder):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.train, cls.inf, cls.sequences = model(), model(torch.bfloat16), sequences()
        cls.rows = sum(len(ids) - 1 for _, ids in cls.sequences)

    def files(self, **options):
        paths = []
        for name, side in (("train", self.train), ("inf", self.inf)):
            path = str(self.folder / f"{name}-{'hidden' if options.get('hidden') else 'logits'}")
            unrounded = bool(options.get("hidden")) and side is self.inf
            count = integration.capture(side, self.sequences, path, unrounded_logits=unrounded, **options)
            self.assertEqual(count, self.rows)
            paths.append(path)
        return paths

    def test_captures_hold_what_the_model_said(self):
        path, _ = self.files()
        opened = driftgate.Capture.open(path)
        self.assertEqual((opened.rows, opened.mode, opened.vocabulary), (self.rows, "full", VOCABULARY))
        self.assertEqual(opened.kernel, integration.kernel_of(self.train))
        self.assertIn("LlamaForCausalLM-float32", opened.kernel)
        self.assertEqual(list(opened.tokens), [t for _, ids in self.sequences for t in ids[1:]])
        self.assertEqual(list(opened.sequences), [n for n, ids in self.sequences for _ in ids[1:]])
        number, ids = self.sequences[1]
        with torch.no_grad():
            wanted = self.train(torch.tensor([ids])).logits[0, :-1]
        begin = len(self.sequences[0][1]) - 1
        stored = torch.frombuffer(bytearray(opened.matrices()[0]), dtype=torch.float32).reshape(-1, VOCABULARY)
        self.assertTrue(torch.equal(stored[begin:begin + len(ids) - 1], wanted))

    def test_two_types_drift_and_hidden_states_agree_with_logits(self):
        logits = driftgate.drift(*self.files()).to_dict()["metrics"]
        self.assertGreater(logits["tv"]["mean"], 1e-4, "bfloat16 is another kernel")
        hidden = driftgate.drift(*self.files(hidden=True)).to_dict()["metrics"]
        # the served kernel rounds its logits to bfloat16, and hidden states leave that out: 2^-9 of a logit at most, so
        # that a tv may differ by half the span of what was rounded away
        with torch.no_grad():
            largest = max(self.inf(torch.tensor([ids])).logits.abs().max().item() for _, ids in self.sequences)
        bound = largest * 2 ** -8
        self.assertLess(abs(logits["tv"]["max"] - hidden["tv"]["max"]), bound)
        self.assertLess(abs(logits["tv"]["mean"] - hidden["tv"]["mean"]), bound)

    def test_in_float32_hidden_states_say_the_same(self):
        other = model(rms_norm_eps=1e-3)
        figures = []
        for hidden in (False, True):
            paths = [str(self.folder / f"{name}-{hidden}") for name in ("a", "b")]
            for path, side in zip(paths, (self.train, other)):
                integration.capture(side, self.sequences, path, hidden=hidden)
            figures.append(driftgate.drift(*paths).to_dict()["metrics"])
        self.assertGreater(figures[0]["tv"]["mean"], 1e-5)
        for name in ("tv", "kl_inf_train", "js", "top1_flip"):
            for figure in ("mean", "max"):
                self.assertAlmostEqual(figures[0][name][figure], figures[1][name][figure], delta=2e-6, msg=f"{name} {figure}")

    def test_side_by_side_is_the_same_as_files(self):
        wanted = driftgate.drift(*self.files())
        drift = integration.compare(self.train, self.inf, self.sequences)
        self.assertEqual(drift.to_dict()["metrics"], wanted.to_dict()["metrics"])
        self.assertEqual(drift.to_dict()["inf"]["kernel"], integration.kernel_of(self.inf))
        hidden = integration.compare(self.train, self.inf, self.sequences, hidden=True, unrounded_logits=True)
        self.assertEqual(hidden.to_dict()["metrics"], driftgate.drift(*self.files(hidden=True)).to_dict()["metrics"])

    def test_a_contract_passes_and_is_violated(self):
        for limit, verdict in (("0.2", "pass"), ("0.000001", "violated")):
            contract = self.contract(CONTRACT.replace("LIMIT", limit))
            drift = integration.compare(self.train, self.inf, self.sequences, contract=contract)
            self.assertEqual(drift.verdict, verdict)

    def test_a_padded_batch_is_the_same_kernel_with_other_sums(self):
        floor = integration.compare(self.train, self.train, self.sequences, inf_batch_size=7).to_dict()["metrics"]
        self.assertLess(floor["tv"]["max"], 1e-4)
        same = integration.compare(self.train, self.train, self.sequences).to_dict()["metrics"]
        self.assertEqual(same["tv"]["max"], 0)
        last = str(self.folder / "last")
        count = integration.capture(self.train, self.sequences, last, batch_size=5, last=2)
        self.assertEqual(count, sum(min(2, len(ids) - 1) for _, ids in self.sequences))

    def test_hidden_states_of_a_rounding_kernel_are_refused(self):
        with self.assertRaisesRegex(ValueError, "rounds its logits"):
            integration.capture(self.inf, self.sequences, str(self.folder / "x"), hidden=True)
        with self.assertRaisesRegex(ValueError, "rounds its logits"):
            integration.compare(self.train, self.inf, self.sequences, hidden=True)
        with self.assertRaisesRegex(ValueError, "batch_size"):
            integration.compare(self.train, self.inf, self.sequences, batch_size=0)
        with self.assertRaisesRegex(ValueError, "no row"):
            integration.capture(self.train, [(0, [1])], str(self.folder / "y"))

    def test_a_model_in_training_stays_in_training(self):
        self.train.train()
        try:
            integration.compare(self.train, self.inf, self.sequences[:3])
            self.assertTrue(self.train.training)
        finally:
            self.train.eval()

    def test_tied_heads(self):
        tied = model()
        tied.lm_head.weight = tied.model.embed_tokens.weight
        drift = integration.compare(tied, tied, self.sequences[:5], hidden=True).to_dict()
        self.assertEqual(drift["metrics"]["tv"]["max"], 0)

    def test_texts(self):
        def tokenizer(text, truncation, max_length):
            return {"input_ids": list(text.encode())[:max_length]}

        self.assertEqual(integration.tokenized(tokenizer, ["abc", "d", (7, "ef")], most=2), [(0, [97, 98]), (7, [101, 102])])


if __name__ == "__main__":
    unittest.main()
