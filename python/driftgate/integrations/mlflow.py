"""MLflow: a verdict on a version of a registered model, by the REST interface of a tracking server.

    python3 -m driftgate.integrations.mlflow --model qwen --version 7 --report drift.json --bundle pr.bundle

A passing verdict puts tags on the version, uploads the bundle and the report as artifacts of the version's run, and then
points the alias at the version. Any other verdict only tags it and takes the alias away if it pointed here. mlflow itself
is not needed. The server and its credentials are those of mlflow's own client: MLFLOW_TRACKING_URI,
MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, and MLFLOW_TRACKING_SERVER_CERT_PATH.
docs/integrations/mlflow.md.
"""

import json
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

_MOST_TAG = 5000  # characters of a tag's value that every store of MLflow keeps
_MOST_ANSWER = 16 << 20
PASS = "pass"


class MlflowError(RuntimeError):
    """The server refused a request, or could not be reached. `code` is MLflow's error_code, `status` that of HTTP."""

    def __init__(self, message: str, code: str = "", status: int = 0):
        super().__init__(message)
        self.code, self.status = code, status


class Outcome(NamedTuple):
    """What is to be said of the version."""

    verdict: str  # "pass", "violated", "inconclusive", "error", or a promotion's state that is not "succeeded"
    tags: Dict[str, str]
    report: bytes  # JSON


def outcome_of(result: Any) -> Outcome:
    """Of a driftgate.Drift with a contract, of the JSON of `driftgate drift --json`, or of a promotion's JSON.

    ValueError for a report without a contract, which has no verdict.
    """
    text = result.to_json() if hasattr(result, "to_json") else result
    data = json.loads(text) if isinstance(text, (str, bytes)) else dict(text)
    report = text.encode() if isinstance(text, str) else text if isinstance(text, bytes) else json.dumps(text).encode()
    if "state" in data:  # a promotion
        tags = {"promotion": str(data.get("id", "")), "contract": str(data.get("contract_name", "")),
                "contract_digest": str(data.get("contract", "")), "engine": str(data.get("engine", ""))}
        return Outcome(PASS if data["state"] == "succeeded" else str(data["state"]), tags, report)
    contract = data.get("contract")
    verdict = data.get("verdict")
    if not verdict or not contract:
        raise ValueError("the report has no verdict: measure with a contract")
    train, inf = data.get("train", {}), data.get("inf", {})
    tags = {"train_kernel": str(train.get("kernel", "")), "inf_kernel": str(inf.get("kernel", "")),
            "checkpoint_digest": str(inf.get("checkpoint_digest", "")), "rows": str(data.get("rows", "")),
            "sequences": str(data.get("sequences", ""))}
    if isinstance(contract, dict):
        tags.update({"contract": str(contract.get("name", "")), "contract_digest": str(contract.get("digest", ""))})
    return Outcome(str(verdict), tags, report)


class Client:
    """The few requests of MLflow's REST interface that are needed."""

    def __init__(self, uri: str = "", *, token: str = "", username: str = "", password: str = "", cafile: str = "",
                 timeout: float = 60.0):
        import base64

        environment = os.environ.get
        self.uri = (uri or environment("MLFLOW_TRACKING_URI", "")).rstrip("/")
        if not self.uri.startswith(("http://", "https://")):
            raise ValueError(f"tracking server {self.uri!r}: wants an http:// or https:// address, by argument or "
                             "MLFLOW_TRACKING_URI")
        self.cafile, self.timeout = cafile or environment("MLFLOW_TRACKING_SERVER_CERT_PATH", ""), timeout
        self.headers: Dict[str, str] = {}
        token = token or environment("MLFLOW_TRACKING_TOKEN", "")
        username = username or environment("MLFLOW_TRACKING_USERNAME", "")
        password = password or environment("MLFLOW_TRACKING_PASSWORD", "")
        if username:
            self.headers["Authorization"] = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        elif token:
            self.headers["Authorization"] = f"Bearer {token}"

    def send(self, method: str, path: str, *, query: Optional[Dict[str, str]] = None, body: Any = None,
             file: Optional[Any] = None, size: int = 0) -> Dict[str, Any]:
        """One request below /api/2.0; `body` as JSON, or `file` of `size` bytes as it is. MlflowError otherwise."""
        import ssl
        import urllib.error
        import urllib.parse
        import urllib.request

        url = f"{self.uri}/api/2.0/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = dict(self.headers)
        data: Any = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif file is not None:
            data = file
            headers.update({"Content-Type": "application/octet-stream", "Content-Length": str(size)})
        request = urllib.request.Request(url, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.cafile or None) if url.startswith("https:") else None
        try:
            with urllib.request.urlopen(request, timeout=self.timeout, context=context) as answer:
                text = answer.read(_MOST_ANSWER)
        except urllib.error.HTTPError as fault:
            raise self._refused(method, path, fault) from fault
        except OSError as fault:
            raise MlflowError(f"{self.uri} does not answer {method} {path}: {fault}") from fault
        try:
            return json.loads(text) if text.strip() else {}
        except json.JSONDecodeError as fault:
            raise MlflowError(f"{method} {path} was answered with something else than JSON: is {self.uri} an MLflow "
                              "tracking server?") from fault

    @staticmethod
    def _refused(method: str, path: str, fault: Any) -> MlflowError:
        text = fault.read(65536).decode(errors="replace")
        try:
            said = json.loads(text)
            code, message = str(said.get("error_code", "")), str(said.get("message", ""))
        except (ValueError, AttributeError):
            code, message = "", text[:200]
        return MlflowError(f"{method} {path}: HTTP {fault.code} {code} {message}".rstrip(), code, fault.code)

    def version(self, model: str, version: str) -> Dict[str, Any]:
        return self.send("GET", "mlflow/model-versions/get", query={"name": model, "version": version})["model_version"]

    def tag(self, model: str, version: str, key: str, value: str) -> None:
        self.send("POST", "mlflow/model-versions/set-tag",
                  body={"name": model, "version": version, "key": key, "value": value[:_MOST_TAG]})

    def point(self, model: str, alias: str, version: str) -> None:
        self.send("POST", "mlflow/registered-models/alias", body={"name": model, "alias": alias, "version": version})

    def pointed(self, model: str, alias: str) -> Optional[str]:
        """The version that an alias points at, or None."""
        try:
            found = self.send("GET", "mlflow/registered-models/alias", query={"name": model, "alias": alias})
        except MlflowError as fault:
            if fault.status in (400, 404) and fault.code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        return str(found["model_version"]["version"])

    def unpoint(self, model: str, alias: str) -> None:
        self.send("DELETE", "mlflow/registered-models/alias", query={"name": model, "alias": alias})

    def artifacts_of(self, run: str) -> str:
        """The path of a run's artifacts behind the server's proxy. MlflowError where the server does not serve them."""
        uri = self.send("GET", "mlflow/runs/get", query={"run_id": run})["run"]["info"]["artifact_uri"]
        if not uri.startswith("mlflow-artifacts:"):
            raise MlflowError(f"the artifacts of run {run} are at {uri}, which is not behind the tracking server: start it "
                              "with --serve-artifacts, or give no bundle")
        import urllib.parse

        return urllib.parse.urlparse(uri).path.strip("/")

    def upload(self, path: str, file: Any, size: int) -> None:
        import urllib.parse

        self.send("PUT", f"mlflow-artifacts/artifacts/{urllib.parse.quote(path)}", file=file, size=size)


def _files(bundle: str) -> List[Tuple[str, str]]:
    """(name below the artifact path, file) of a file or of each file of a folder, in the order of their names."""
    if not os.path.isdir(bundle):
        return [(os.path.basename(bundle), bundle)]
    out = []
    for folder, _, names in os.walk(bundle):
        out += [(os.path.relpath(os.path.join(folder, name), bundle).replace(os.sep, "/"), os.path.join(folder, name))
                for name in names]
    return sorted(out)


def publish(model: str, version: Any, result: Any, *, alias: str = "driftgate-passed", bundle: Optional[str] = None,
            artifact_path: str = "driftgate", client: Optional[Client] = None,
            tags: Optional[Dict[str, str]] = None) -> Dict[str, Any]:
    """Says on the model's version what `result` says of it (see `outcome_of`); returns what was done.

    bundle   a file or folder of evidence (driftgate audit export), uploaded beside the report
    tags     more tags; each key, as ours, is put behind "driftgate."
    The alias is set last, so that it never points at a version without its evidence; an upload that fails leaves it
    where it was. MlflowError where the server refuses; OSError where the bundle cannot be read.
    """
    import io

    said, version = outcome_of(result), str(version)
    client = Client() if client is None else client
    uploads = [("report.json", None)] + ([] if bundle is None else _files(bundle))
    for _, source in uploads:
        if source is not None and not os.access(source, os.R_OK):
            raise OSError(f"{source} cannot be read")
    found = client.version(model, version)
    passed = said.verdict == PASS
    done: Dict[str, Any] = {"verdict": said.verdict, "tags": {}, "artifacts": [], "alias": None}
    if not passed and client.pointed(model, alias) == version:
        client.unpoint(model, alias)  # before anything else: nobody should serve it
        done["alias_removed"] = alias
    run = found.get("run_id") or ""
    if passed and (run or bundle is not None):
        if not run:
            raise MlflowError(f"version {version} of {model} belongs to no run, so that it has no place for artifacts: "
                              "give no bundle, or register it from a run")
        base = f"{client.artifacts_of(run)}/{artifact_path.strip('/')}"
        for name, source in uploads:
            if source is None:
                client.upload(f"{base}/{name}", io.BytesIO(said.report), len(said.report))
            else:
                with open(source, "rb") as file:
                    client.upload(f"{base}/{name}", file, os.path.getsize(source))
            done["artifacts"].append(f"{artifact_path.strip('/')}/{name}")
    for key, value in {**said.tags, **(tags or {}), "verdict": said.verdict}.items():
        if value:
            client.tag(model, version, f"driftgate.{key}", str(value))
            done["tags"][f"driftgate.{key}"] = str(value)
    if passed:
        client.point(model, alias, version)
        done["alias"] = alias
    return done


def main(arguments: Optional[Iterable[str]] = None) -> int:
    """The command line. Exit codes: 0 the alias points at the version, 1 the verdict was another, 4 an error."""
    import argparse
    import sys

    parser = argparse.ArgumentParser(prog="python3 -m driftgate.integrations.mlflow",
                                     description="Says on a version of a registered model what driftgate found.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--report", required=True, help="JSON of `driftgate drift --json` or of a promotion; -: standard input")
    parser.add_argument("--bundle", help="file or folder of evidence")
    parser.add_argument("--alias", default="driftgate-passed")
    parser.add_argument("--tracking-uri", default="")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        with (sys.stdin.buffer if options.report == "-" else open(options.report, "rb")) as file:
            report = file.read()
        done = publish(options.model, options.version, report, alias=options.alias, bundle=options.bundle,
                       client=Client(options.tracking_uri))
    except (MlflowError, OSError, ValueError) as fault:
        print(f"driftgate.integrations.mlflow: {fault}", file=sys.stderr)
        return 4
    print(json.dumps(done))
    return 0 if done["alias"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
