#!/usr/bin/python3
"""The MLflow integration against a stand-in for a tracking server: the endpoints of MLflow's REST documentation."""
import base64
import contextlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
import unittest
import unittest.mock
import urllib.parse

import support
from driftgate.integrations import mlflow

REPORT = {"train": {"kernel": "f32"}, "inf": {"kernel": "bf16", "checkpoint_digest": "sha256:1"}, "rows": 100, "sequences": 10,
          "contract": {"name": "serve", "digest": "sha256:2"}, "verdict": "pass"}


class Registry(http.server.BaseHTTPRequestHandler):
    """One registered model, with the errors and answers that MLflow documents."""

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, name, message):
        self.answer(code, {"error_code": name, "message": message})

    def handle_any(self):
        server, url = self.server, urllib.parse.urlparse(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body, query = self.rfile.read(size), dict(urllib.parse.parse_qsl(url.query))
        server.requests.append((self.command, url.path))
        if self.headers.get("Authorization") != server.wanted:
            return self.refuse(401, "UNAUTHENTICATED", "You are not authenticated.")
        path = url.path.removeprefix("/api/2.0/")
        if path.startswith("mlflow-artifacts/artifacts/") and self.command == "PUT":
            if server.full:
                return self.refuse(500, "INTERNAL_ERROR", "No space left on device")
            server.artifacts[urllib.parse.unquote(path.removeprefix("mlflow-artifacts/artifacts/"))] = body
            return self.answer(200, {})
        data = json.loads(body) if body else query
        known = data.get("name", "qwen") == "qwen"
        if (self.command, path) == ("GET", "mlflow/model-versions/get"):
            if not known or data["version"] not in server.versions:
                return self.refuse(404, "RESOURCE_DOES_NOT_EXIST", f"Model Version (name={data['name']}) not found")
            return self.answer(200, {"model_version": {"name": "qwen", "version": data["version"],
                                                       "run_id": server.versions[data["version"]]}})
        if (self.command, path) == ("GET", "mlflow/runs/get"):
            return self.answer(200, {"run": {"info": {"run_id": data["run_id"],
                                                      "artifact_uri": server.uri + data["run_id"] + "/artifacts"}}})
        if (self.command, path) == ("POST", "mlflow/model-versions/set-tag"):
            server.tags.setdefault(data["version"], {})[data["key"]] = data["value"]
            return self.answer(200, {})
        if path == "mlflow/registered-models/alias":
            if self.command == "POST":
                server.aliases[data["alias"]] = data["version"]
                return self.answer(200, {})
            if data["alias"] not in server.aliases:
                return self.refuse(400, "INVALID_PARAMETER_VALUE", f"Registered model alias {data['alias']} not found.")
            if self.command == "DELETE":
                del server.aliases[data["alias"]]
                return self.answer(200, {})
            return self.answer(200, {"model_version": {"name": "qwen", "version": server.aliases[data["alias"]]}})
        return self.refuse(404, "ENDPOINT_NOT_FOUND", f"No endpoint {self.command} {path}")

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def log_message(self, *arguments):
        pass


class Server(support.Folder):
    def setUp(self):
        super().setUp()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        server.requests, server.artifacts, server.tags, server.aliases = [], {}, {}, {}
        server.versions, server.uri, server.full = {"7": "run7", "8": ""}, "mlflow-artifacts:/1/", False
        server.wanted = "Bearer secret"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.server, self.address = server, f"http://127.0.0.1:{server.server_address[1]}"
        self.client = mlflow.Client(self.address, token="secret")

    def bundle(self):
        (self.folder / "b" / "sub").mkdir(parents=True)
        (self.folder / "b" / "entries.jsonl").write_bytes(b"entries\n")
        (self.folder / "b" / "sub" / "a b.note").write_bytes(bytes(range(256)))
        return str(self.folder / "b")

    def test_a_pass_is_tagged_kept_and_pointed_at(self):
        done = mlflow.publish("qwen", 7, REPORT, bundle=self.bundle(), client=self.client, tags={"engine": "vllm"})
        self.assertEqual(self.server.aliases, {"driftgate-passed": "7"})
        self.assertEqual(sorted(self.server.artifacts), ["1/run7/artifacts/driftgate/entries.jsonl",
                                                         "1/run7/artifacts/driftgate/report.json",
                                                         "1/run7/artifacts/driftgate/sub/a b.note"])
        self.assertEqual(self.server.artifacts["1/run7/artifacts/driftgate/sub/a b.note"], bytes(range(256)))
        self.assertEqual(json.loads(self.server.artifacts["1/run7/artifacts/driftgate/report.json"]), REPORT)
        tags = self.server.tags["7"]
        self.assertEqual([tags[f"driftgate.{key}"] for key in ("verdict", "contract", "inf_kernel", "engine")],
                         ["pass", "serve", "bf16", "vllm"])
        self.assertEqual(done["alias"], "driftgate-passed")
        self.assertEqual(self.server.requests[-1], ("POST", "/api/2.0/mlflow/registered-models/alias"), "the alias is last")

    def test_anything_else_takes_the_alias_away(self):
        self.server.aliases["driftgate-passed"] = "7"
        for verdict in ("violated", "inconclusive", "error"):
            done = mlflow.publish("qwen", "7", {**REPORT, "verdict": verdict}, client=self.client)
            self.assertIsNone(done["alias"])
            self.assertEqual(self.server.tags["7"]["driftgate.verdict"], verdict)
        self.assertEqual(self.server.aliases, {})
        self.server.aliases["driftgate-passed"] = "6"
        mlflow.publish("qwen", "7", {**REPORT, "verdict": "violated"}, client=self.client)
        self.assertEqual(self.server.aliases, {"driftgate-passed": "6"}, "another version keeps it")
        self.assertEqual(self.server.artifacts, {})

    def test_promotions(self):
        promotion = {"id": "pr-1", "state": "succeeded", "contract_name": "serve", "contract": "sha256:2", "engine": "vllm-1"}
        mlflow.publish("qwen", "7", json.dumps(promotion), client=self.client)
        self.assertEqual(self.server.tags["7"]["driftgate.promotion"], "pr-1")
        self.assertEqual(self.server.aliases, {"driftgate-passed": "7"})
        mlflow.publish("qwen", "7", {**promotion, "state": "rejected"}, client=self.client)
        self.assertEqual((self.server.aliases, self.server.tags["7"]["driftgate.verdict"]), ({}, "rejected"))

    def test_an_upload_that_fails_leaves_the_alias(self):
        self.server.full = True
        with self.assertRaisesRegex(mlflow.MlflowError, "HTTP 500 INTERNAL_ERROR No space left") as caught:
            mlflow.publish("qwen", "7", REPORT, bundle=self.bundle(), client=self.client)
        self.assertEqual((caught.exception.status, self.server.aliases, self.server.tags), (500, {}, {}))

    def test_versions_without_a_place_for_artifacts(self):
        done = mlflow.publish("qwen", "8", REPORT, client=self.client)
        self.assertEqual((done["artifacts"], self.server.aliases), ([], {"driftgate-passed": "8"}))
        with self.assertRaisesRegex(mlflow.MlflowError, "belongs to no run"):
            mlflow.publish("qwen", "8", REPORT, bundle=self.bundle(), client=self.client)
        self.server.uri = "s3://bucket/"
        with self.assertRaisesRegex(mlflow.MlflowError, "serve-artifacts"):
            mlflow.publish("qwen", "7", REPORT, client=self.client)

    def test_errors_say_what_and_where(self):
        with self.assertRaisesRegex(mlflow.MlflowError, "HTTP 404 RESOURCE_DOES_NOT_EXIST Model Version"):
            mlflow.publish("qwen", "9", REPORT, client=self.client)
        with self.assertRaisesRegex(mlflow.MlflowError, "HTTP 401"):
            mlflow.publish("qwen", "7", REPORT, client=mlflow.Client(self.address, token="guess"))
        with self.assertRaisesRegex(ValueError, "no verdict"):
            mlflow.publish("qwen", "7", {"rows": 1}, client=self.client)
        with self.assertRaisesRegex(OSError, "cannot be read"):
            mlflow.publish("qwen", "7", REPORT, bundle=str(self.folder / "none"), client=self.client)
        with self.assertRaisesRegex(ValueError, "MLFLOW_TRACKING_URI"):
            mlflow.Client("databricks")

    def test_credentials_of_mlflows_own_client(self):
        self.server.wanted = "Basic " + base64.b64encode(b"ada:pass word").decode()
        with unittest.mock.patch.dict(os.environ, {"MLFLOW_TRACKING_URI": self.address, "MLFLOW_TRACKING_USERNAME": "ada",
                                                   "MLFLOW_TRACKING_PASSWORD": "pass word"}):
            mlflow.publish("qwen", "7", REPORT)
        self.assertEqual(self.server.aliases, {"driftgate-passed": "7"})

    def test_the_command(self):
        (self.folder / "report.json").write_text(json.dumps(REPORT))
        environment = {"MLFLOW_TRACKING_URI": self.address, "MLFLOW_TRACKING_TOKEN": "secret"}
        options = ["--model", "qwen", "--version", "7", "--report", str(self.folder / "report.json")]
        with unittest.mock.patch.dict(os.environ, environment):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.assertEqual(mlflow.main([*options, "--bundle", self.bundle()]), 0)
                (self.folder / "report.json").write_text(json.dumps({**REPORT, "verdict": "violated"}))
                self.assertEqual(mlflow.main(options), 1)
                self.assertEqual(mlflow.main([*options, "--version", "99"]), 4)
        self.assertEqual(json.loads(out.getvalue().splitlines()[0])["alias"], "driftgate-passed")
        self.assertIn("RESOURCE_DOES_NOT_EXIST", err.getvalue())

    def test_a_drift_of_the_library(self):
        driftgate = support.driftgate()
        from driftgate.integrations import captures
        train, inf, mask, tokens = support.rollouts(200, 0.02)
        rows = [(train[i, :n], inf[i, :n], tokens[i, :n]) for i, n in enumerate(mask.sum(1))]
        drift = captures.drift_of_logprobs(rows, contract=self.contract())
        self.assertIsInstance(drift, driftgate.Drift)
        mlflow.publish("qwen", "7", drift, client=self.client)
        self.assertEqual(self.server.tags["7"]["driftgate.contract"], "rollouts")
        self.assertEqual(self.server.artifacts["1/run7/artifacts/driftgate/report.json"].decode(), drift.to_json())


class Module(unittest.TestCase):
    def test_it_needs_no_mlflow(self):
        done = subprocess.run([sys.executable, "-m", "driftgate.integrations.mlflow", "--help"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.environ.get("DRIFTGATE_PYTHON", str(support.ROOT / "python"))})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--bundle", done.stdout)


if __name__ == "__main__":
    unittest.main()
