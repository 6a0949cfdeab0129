#!/usr/bin/python3
"""The SGLang integration against a stand-in for its server's /generate, in the shape that SGLang documents."""
import http.server
import json
import threading
import unittest
import urllib.error

import support
import tiny
from driftgate.integrations import sglang

np = support.numpy()


def answer(model, ids, request, cached=0):
    """What SGLang says of one request, with the texts of tokens left out as it does by default."""
    said, states = model.logprobs(ids), model.normed(ids)
    generated = int(said[-1].argmax())
    meta = {"prompt_tokens": len(ids), "completion_tokens": 1, "cached_tokens": cached}
    if request.get("return_logprob"):
        top = request.get("top_logprobs_num", 0)

        def listed(row):
            return [[float(row[t]), int(t), None] for t in np.argsort(-row)[:top]]

        meta["input_token_logprobs"] = [[None, ids[0], None]] + [[float(said[i][t]), t, None] for i, t in enumerate(ids[1:])]
        meta["output_token_logprobs"] = [[float(said[-1][generated]), generated, None]]
        if top:
            meta["input_top_logprobs"] = [None] + [listed(row) for row in said[:-1]]
            meta["output_top_logprobs"] = [listed(said[-1])]
    if request.get("return_hidden_states"):
        meta["hidden_states"] = [states[cached:].tolist(), states[-1].tolist()][:1 if cached else 2]
    return {"text": "", "output_ids": [generated], "meta_info": meta}


class Engine:
    """Stand-in for sglang.Engine, by its method generate."""

    def __init__(self, model, cached=0):
        self.model, self.cached, self.requests = model, cached, []

    def generate(self, **request):
        self.requests.append(request)
        return [answer(self.model, ids, request, self.cached) for ids in request["input_ids"]]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/generate" or self.headers.get("Authorization") != "Bearer secret":
            self.send_error(401)
            return
        data = json.dumps(self.server.engine.generate(**body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


class Scoring(support.Folder):
    def setUp(self):
        super().setUp()
        self.driftgate = support.driftgate()
        self.model, self.sequences = tiny.Model(), tiny.sequences()
        self.tokens = [t for _, ids in self.sequences for t in ids[1:]]
        self.places = [(n, i) for n, ids in self.sequences for i in range(len(ids) - 1)]

    def opened(self, name):
        found = self.driftgate.Capture.open(str(self.folder / name))
        self.assertEqual(list(found.tokens), self.tokens)
        self.assertEqual(list(zip(found.sequences, found.positions)), self.places)
        return found

    def test_lists_by_http(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.engine = Engine(self.model)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/"
            count = sglang.score(sglang.Server(url, key="secret"), self.sequences, str(self.folder / "http"), top=5,
                                 kernel="sgl", vocabulary=tiny.VOCABULARY)
            with self.assertRaises(urllib.error.HTTPError):
                sglang.score(sglang.Server(url), self.sequences, str(self.folder / "denied"))
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        self.assertEqual(server.engine.requests[0]["logprob_start_len"], 0)
        opened = self.opened("http")
        self.assertEqual((opened.rows, opened.mode, opened.kernel), (count, "topk", "sgl"))

    def test_target_tokens_and_their_drift(self):
        for name, model in (("train", self.model), ("inf", tiny.Model(noise=0.05))):
            sglang.score(Engine(model).generate, self.sequences, str(self.folder / name), kernel=name)
        both = self.opened("train"), self.opened("inf")
        self.assertEqual(both[0].mode, "realised")
        got = self.driftgate.drift(*both).to_dict()["metrics"]["abs_log_ratio"]["value"]
        noisy = tiny.Model(noise=0.05)
        gaps = []
        for _, ids in self.sequences:
            one, two = self.model.logprobs(ids), noisy.logprobs(ids)
            gaps += [abs(one[i][t] - two[i][t]) for i, t in enumerate(ids[1:])]
        self.assertAlmostEqual(got, float(np.mean(gaps)), 6)
        self.assertGreater(got, 1e-3)

    def test_hidden_states_meet_the_head(self):
        head = self.driftgate.Head(self.model.head)
        sglang.score(Engine(self.model).generate, self.sequences, str(self.folder / "hidden"), hidden=True, head=head)
        opened = self.opened("hidden")
        self.assertEqual((opened.mode, opened.rows), ("hidden", len(self.tokens)))
        wanted = str(self.folder / "wanted")
        with self.driftgate.CaptureWriter(wanted, "numpy") as writer:
            for number, ids in self.sequences:
                rows = len(ids) - 1
                writer.append(self.driftgate.Hidden(np.ascontiguousarray(self.model.normed(ids)[:-1].astype(np.float32)), head),
                              tokens=np.array(ids[1:]), sequences=np.full(rows, number), positions=np.arange(rows))
        self.assertLess(self.driftgate.drift(wanted, str(self.folder / "hidden")).to_dict()["metrics"]["tv"]["max"], 1e-6)

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(ValueError, "disable-radix-cache"):
            sglang.score(Engine(self.model, cached=2).generate, self.sequences, str(self.folder / "a"), hidden=True,
                         head=self.driftgate.Head(self.model.head))
        with self.assertRaisesRegex(ValueError, "need head"):
            sglang.score(Engine(self.model).generate, self.sequences, str(self.folder / "b"), hidden=True)
        plain = [answer(self.model, ids, {}) for _, ids in self.sequences]
        with self.assertRaisesRegex(ValueError, "answer 0 has no input_token_logprobs"):
            sglang.capture_of_answers(plain, str(self.folder / "c"))
        with self.assertRaisesRegex(ValueError, "enable-return-hidden-states"):
            sglang.hidden_of(plain[0], 3)
        with self.assertRaisesRegex(ValueError, "12 sequences were sent and 1 answers"):
            sglang.score(lambda **request: plain[:1], self.sequences, str(self.folder / "d"))
        with self.assertRaisesRegex(ValueError, "no .logprob, token, text."):
            sglang.capture_of_answers([{"meta_info": {"input_token_logprobs": [{"logprob": 1}]}}], str(self.folder / "e"))

    def test_sampled_tokens_name_their_source(self):
        answers = [answer(self.model, ids, {"return_logprob": True, "top_logprobs_num": 3}) for _, ids in self.sequences]
        sglang.capture_of_answers(answers, str(self.folder / "out"), rows="output", kernel="sgl", sampling_filter="top-p 0.9")
        opened = self.driftgate.Capture.open(str(self.folder / "out"))
        self.assertEqual(list(opened.positions), [len(ids) - 1 for _, ids in self.sequences])
        self.assertEqual((opened.identity.token_source, opened.identity.sampling_filter), ("sgl", "top-p 0.9"))


if __name__ == "__main__":
    unittest.main()
