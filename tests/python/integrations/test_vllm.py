#!/usr/bin/python3
"""The vLLM integration against stand-ins for its factory, its connector and its outputs, and files in its format."""
import json
import types
import unittest

import support
import tiny
from driftgate.integrations import MissingProject, captures, vllm

np, torch = support.numpy(), support.torch()


def request(name, prompt, sampled):
    return types.SimpleNamespace(request_id=name, prompt_token_ids=prompt, output_token_ids=sampled)


class Plugin(support.Folder):
    def test_the_connector_is_known_by_its_name_and_lists_its_files(self):
        with support.standins():
            vllm.register()
            vllm.register()  # vLLM calls plugins again in other engines of a process
            factory = __import__("vllm.distributed.kv_transfer.kv_connector.factory", fromlist=["x"]).KVConnectorFactory
            made = factory.get_connector_class_by_name("DriftgateHiddenStates")
            self.assertIs(made, vllm.DriftgateHiddenStates)
            self.assertEqual(made.__mro__[1].__name__, "ExampleHiddenStatesConnector")
            connector = made(str(self.folder))
            delayed, params = connector.request_finished(request("a", [1, 2, 3], [4, 5]), [0])
            self.assertEqual((delayed, params), (True, {"hidden_states_path": str(self.folder / "a.safetensors")}))
            connector.request_finished_all_groups(request("b", [7], [8]), ([1],))
            self.assertEqual(connector.request_finished(request("gone", [1], []), []), (False, None))
            vllm.__dict__.pop("DriftgateHiddenStates")
        self.assertEqual(vllm.requests_in(str(self.folder)), [
            vllm.Request(str(self.folder / "a.safetensors"), 3, (4, 5)),
            vllm.Request(str(self.folder / "b.safetensors"), 1, (8,))])

    def test_without_vllm_the_error_says_so(self):
        with self.assertRaisesRegex(MissingProject, "its plugin needs vLLM"):
            vllm.register()
        with self.assertRaisesRegex(MissingProject, "extract_hidden_states"):
            vllm.DriftgateHiddenStates
        with self.assertRaises(AttributeError):
            vllm.SomethingElse

    def test_a_list_that_is_none_is_named_by_its_line(self):
        (self.folder / vllm.LIST).write_text('{"file": "a", "prompt": 1, "sampled": []}\n{"file": 1}\n')
        with self.assertRaisesRegex(ValueError, "line 2"):
            vllm.requests_in(str(self.folder))


class Files(support.Folder):
    """Files as extract_hidden_states writes them: [tokens, layers, width], the last layer without its norm."""

    def setUp(self):
        super().setUp()
        self.driftgate = support.driftgate()
        self.model, self.sequences = tiny.Model(), tiny.sequences()
        self.engine = self.folder / "engine"
        self.engine.mkdir()

    def write(self, with_list=True, kept=None):
        lines = []
        for number, (_, ids) in enumerate(self.sequences):
            prompt = ids[:2]
            states = self.model.states(ids)[:kept or len(ids) - 1]
            name = f"cmpl-{number}.safetensors"
            tiny.write_safetensors(self.engine / name, {
                "hidden_states": np.stack([np.zeros_like(states), states], 1), "token_ids": np.array(ids[:len(states)])})
            lines.append(json.dumps({"request": name, "file": name, "prompt": len(prompt), "sampled": ids[2:]}))
        if with_list:
            (self.engine / vllm.LIST).write_text("".join(line + "\n" for line in lines))

    def capture(self, name="inf", **options):
        path = str(self.folder / name)
        count = vllm.capture_of_files(str(self.engine), path, head=self.driftgate.Head(torch.tensor(self.model.head)),
                                      norm=(torch.tensor(self.model.norm), self.model.eps), **options)
        opened = self.driftgate.Capture.open(path)
        self.assertEqual(opened.rows, count)
        return path, opened

    def reference(self, keep):
        """The same rows as numpy makes them: normed states and the token that follows."""
        path = str(self.folder / f"full-{keep[1]}-{len(keep[0](range(6)))}")
        head = self.driftgate.Head(torch.tensor(self.model.head))
        with self.driftgate.CaptureWriter(path, "reference", token_source=keep[1]) as writer:
            for number, (_, ids) in enumerate(self.sequences):
                rows = keep[0](ids)
                writer.append(self.driftgate.Hidden(torch.tensor(self.model.normed(ids)[rows]), head),
                              tokens=np.array(ids)[[r + 1 for r in rows]].astype(np.int64),
                              sequences=np.full(len(rows), number, np.int64), positions=np.array(rows, np.int64))
        return path

    def test_states_are_normed_and_meet_the_token_that_follows(self):
        self.write()
        for rows, keep, source in (("all", lambda ids: list(range(len(ids) - 1)), "corpus"),
                                   ("prompt", lambda ids: [0], "corpus"),
                                   ("sampled", lambda ids: list(range(1, len(ids) - 1)), "vllm")):
            path, opened = self.capture(rows, rows=rows)
            self.assertEqual(opened.mode, "hidden")
            self.assertEqual(opened.identity.token_source, source)
            wanted = [ids[r + 1] for _, ids in self.sequences for r in keep(ids)]
            self.assertEqual(list(opened.tokens), wanted)
            reference = self.reference((keep, source))
            both = [self.driftgate.Capture.open(p) for p in (reference, path)]
            self.assertEqual(list(both[0].positions), list(both[1].positions))
            metrics = self.driftgate.drift(*both).to_dict()["metrics"]
            self.assertLess(metrics["tv"]["max"], 1e-5)

    def test_the_prompt_alone_has_one_row_more_by_the_list(self):
        self.write(kept=2)
        _, listed = self.capture("listed")
        self.assertEqual(list(listed.tokens), [t for _, ids in self.sequences for t in ids[1:3]])
        (self.engine / vllm.LIST).unlink()
        _, plain = self.capture("plain")  # by names: cmpl-0, cmpl-1, cmpl-10, ...
        self.assertEqual(plain.rows, len(self.sequences))

    def test_bfloat16_is_rounded_as_the_engine_rounds(self):
        states = torch.randn(5, tiny.WIDTH).to(torch.bfloat16)
        bits = states.view(torch.int16).numpy().view(np.uint16)
        tiny.write_safetensors(self.engine / "a.safetensors",
                               {"hidden_states": (bits[:, None], "BF16"), "token_ids": np.arange(5)})
        path, opened = self.capture("bf16")
        got = vllm.rms_norm(states, torch.tensor(self.model.norm), self.model.eps)
        self.assertEqual((got.dtype, opened.rows), (torch.bfloat16, 4))

    def test_head_and_norm_of_a_checkpoint(self):
        self.write()
        given, _ = self.capture("given")
        folder = self.folder / "checkpoint"
        folder.mkdir()
        tiny.write_safetensors(folder / "model-00002.safetensors", {"model.norm.weight": self.model.norm})
        tiny.write_safetensors(folder / "model-00001.safetensors", {"model.embed_tokens.weight": self.model.head})
        config = {"rms_norm_eps": self.model.eps, "tie_word_embeddings": True, "model_type": "llama"}
        (folder / "config.json").write_text(json.dumps(config))
        read = str(self.folder / "read")
        vllm.capture_of_files(str(self.engine), read, **captures.parts_of_checkpoint(str(folder)))
        self.assertEqual(self.driftgate.drift(given, read).to_dict()["metrics"]["tv"]["max"], 0)
        (folder / "config.json").write_text(json.dumps({**config, "model_type": "gemma2"}))
        self.assertTrue(np.array_equal(captures.parts_of_checkpoint(str(folder))["norm"][0], self.model.norm + 1))
        (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        with self.assertRaisesRegex(KeyError, "no tensor lm_head.weight"):
            captures.parts_of_checkpoint(str(folder))

    def test_other_files_are_refused(self):
        tiny.write_safetensors(self.engine / "a.safetensors", {"weight": np.zeros((2, 2), np.float32)})
        with self.assertRaisesRegex(ValueError, "no file of extract_hidden_states"):
            self.capture("x1")
        (self.engine / "a.safetensors").write_bytes(b"\xff" * 40)
        with self.assertRaisesRegex(ValueError, "no safetensors file"):
            self.capture("x2")
        with self.assertRaisesRegex(ValueError, "none of all, prompt"):
            self.capture("x3", rows="everything")


class Outputs(support.Folder):
    """What LLM.generate returns: lists of {token: Logprob}, which hold the target token whatever its rank."""

    def generate(self, prompts, params):
        out = []
        for index, prompt in enumerate(prompts):
            ids = prompt["prompt_token_ids"]
            said = self.model.logprobs(ids)
            out.append(types.SimpleNamespace(
                request_id=str(index), prompt_token_ids=ids,
                prompt_logprobs=[None] + [self.listed(said[i], ids[i + 1], params.prompt_logprobs) for i in range(len(ids) - 1)],
                outputs=[types.SimpleNamespace(token_ids=[1], logprobs=[self.listed(said[-1], 1, 2)])]))
        return out

    @staticmethod
    def listed(row, token, top):
        ranks = np.empty(len(row), int)
        ranks[np.argsort(-row)] = np.arange(1, len(row) + 1)
        return {int(t): types.SimpleNamespace(logprob=float(row[t]), rank=int(ranks[t])) for t in range(len(row))
                if ranks[t] <= top or t == token}

    def setUp(self):
        super().setUp()
        self.driftgate = support.driftgate()
        self.model, self.sequences = tiny.Model(), tiny.sequences()

    def test_scoring_keeps_the_lists(self):
        path = str(self.folder / "scored")
        with support.standins():
            count = vllm.score(self, self.sequences, path, top=4, kernel="vllm-bf16", vocabulary=tiny.VOCABULARY)
        opened = self.driftgate.Capture.open(path)
        self.assertEqual((opened.rows, opened.mode, opened.kernel), (count, "topk", "vllm-bf16"))
        self.assertEqual(list(opened.tokens), [t for _, ids in self.sequences for t in ids[1:]])
        self.assertEqual(list(opened.sequences), [n for n, ids in self.sequences for _ in ids[1:]])
        self.assertEqual(list(opened.positions), [i for _, ids in self.sequences for i in range(len(ids) - 1)])
        drift = self.driftgate.drift(opened, opened).to_dict()
        self.assertLess(drift["metrics"]["tv_sampled"]["value"], 1e-6)

    def test_a_target_beyond_the_list_is_not_listed(self):
        for token in range(tiny.VOCABULARY):
            row = self.model.logprobs([0])[0]
            listed = self.listed(row, token, 3)
            made = list(vllm._lists(0, [token], [listed], 0))[0]
            rank = int((row > row[token]).sum()) + 1
            self.assertEqual(len(made.listed), 4 if rank == 4 else 3, "the fourth continues the list, a later one does not")
            self.assertAlmostEqual(made.logprob, row[token])

    def test_target_tokens_alone(self):
        path = str(self.folder / "targets")
        outputs = self.generate([{"prompt_token_ids": ids} for _, ids in self.sequences],
                                types.SimpleNamespace(prompt_logprobs=2))
        self.assertEqual(vllm.capture_of_outputs(outputs, path, rows="sampled", kernel="k"), len(self.sequences))
        opened = self.driftgate.Capture.open(path)
        self.assertEqual(opened.identity.token_source, "k")
        self.assertEqual(list(opened.positions), [len(ids) - 1 for _, ids in self.sequences])
        outputs[0].prompt_logprobs = None
        with self.assertRaisesRegex(ValueError, "request 0 has no prompt_logprobs"):
            vllm.capture_of_outputs(outputs, str(self.folder / "none"))


if __name__ == "__main__":
    unittest.main()
