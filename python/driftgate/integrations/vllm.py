"""vLLM: captures of its hidden states and of its log-probabilities.

`register` is the entry point of group vllm.general_plugins, which vLLM calls in each of its processes. It makes the
connector DriftgateHiddenStates known, which is vLLM's own for extract_hidden_states plus a list of the files:

    vllm serve MODEL --no-enable-chunked-prefill
      --speculative-config '{"method": "extract_hidden_states", "num_speculative_tokens": 1, "draft_model_config":
                             {"hf_config": {"eagle_aux_hidden_state_layer_ids": [NUM_HIDDEN_LAYERS]}}}'
      --kv-transfer-config '{"kv_connector": "DriftgateHiddenStates", "kv_role": "kv_producer",
                             "kv_connector_extra_config": {"shared_storage_path": "FOLDER"}}'

`capture_of_files` makes a capture of the folder. `score` and `capture_of_outputs` need neither plugin nor files: they
read the log-probabilities that LLM.generate returns. docs/integrations/vllm.md.
"""

import fcntl
import json
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import captures, need

CONNECTOR = "DriftgateHiddenStates"
LIST = "driftgate.jsonl"  # in the folder of the files, a line for each finished request
_BASE = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector"


def register() -> None:
    """Makes the connector known to vLLM by its name. vLLM may call it more than once in a process."""
    factory = need("vllm.distributed.kv_transfer.kv_connector.factory", "vLLM", "its plugin").KVConnectorFactory
    try:
        factory.register_connector(CONNECTOR, __name__, "DriftgateHiddenStates")
    except ValueError:  # it is registered already
        pass


def __getattr__(name: str) -> Any:
    if name != "DriftgateHiddenStates":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    base = need(_BASE, "vLLM with extract_hidden_states", "the connector DriftgateHiddenStates").ExampleHiddenStatesConnector

    class DriftgateHiddenStates(base):  # type: ignore[misc, valid-type]
        """vLLM's connector of hidden states, which also writes a list of its files with the tokens that were sampled."""

        def request_finished(self, request: Any, block_ids: List[int]) -> Tuple[bool, Optional[Dict[str, Any]]]:
            delayed, params = super().request_finished(request, block_ids)
            path = (params or {}).get("hidden_states_path")
            if path:
                note_request(os.path.join(os.path.dirname(path), LIST), request, path)
            return delayed, params

    globals()[name] = DriftgateHiddenStates  # the same class every time
    return DriftgateHiddenStates


def note_request(list_path: str, request: Any, path: str) -> None:
    """Adds a line for one request: its file, the length of its prompt and the tokens that were sampled."""
    line = json.dumps({"request": request.request_id, "file": os.path.basename(path),
                       "prompt": len(request.prompt_token_ids or []), "sampled": list(request.output_token_ids)})
    with open(list_path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several engines may share the folder
        file.write(line + "\n")


class Request(NamedTuple):
    """One file of hidden states. `sampled` are the tokens after the prompt, where they are known."""

    path: str
    prompt: int
    sampled: Tuple[int, ...]


def requests_in(folder: str) -> List[Request]:
    """The requests of the folder's list in its order; without a list its *.safetensors in the order of their names."""
    path = os.path.join(folder, LIST)
    if not os.path.exists(path):
        names = sorted(name for name in os.listdir(folder) if name.endswith(".safetensors"))
        return [Request(os.path.join(folder, name), 0, ()) for name in names]
    out = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                name = os.path.basename(str(entry["file"]))
                out.append(Request(os.path.join(folder, name), int(entry["prompt"]), tuple(map(int, entry["sampled"]))))
            except (ValueError, TypeError, KeyError) as fault:
                raise ValueError(f"{path}, line {number}: is no line of this list: {fault!r}") from fault
    return out


def _loaded(path: str) -> Tuple[Any, Any]:
    """(token ids, hidden states [tokens, layers, width]); waits for a writer that still holds the file's lock."""
    if os.path.exists(path + ".lock"):
        with open(path + ".lock", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        tensors, _ = captures.read(path, ("token_ids", "hidden_states"))
    except KeyError as fault:
        raise ValueError(f"{path} has no tensor {fault}: it is no file of extract_hidden_states") from fault
    return tensors["token_ids"], tensors["hidden_states"]


def rms_norm(states: Any, weight: Any, eps: float) -> Any:
    """x / sqrt(mean(x²) + eps) in float32, rounded to the type of `states`, times `weight`, rounded again: as the engine
    computes it. For a model whose norm adds 1 to its weight, give the weight with 1 added."""
    torch = need("torch", "PyTorch", "applying the last norm")
    states = states if hasattr(states, "detach") else torch.from_numpy(states.copy())
    weight = weight if hasattr(weight, "detach") else torch.from_numpy(weight)
    wide = states.float()
    normed = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(states.dtype)
    return normed * weight.to(states.dtype)


def capture_of_files(source: Any, path: str, *, head: Any, norm: Optional[Tuple[Any, float]], layer: int = -1,
                     kernel: str = "vllm", rows: str = "all", **identity: Any) -> int:
    """A capture of the files of extract_hidden_states: a folder, or requests as `requests_in` returns them.

    head     the driftgate.Head of the model
    norm     (weight, eps) of the norm before the head: vLLM's last layer comes without it. None where the states are normed.
             captures.parts_of_checkpoint(folder) has both
    layer    which of the file's layers is the last one of the model
    rows     "prompt": what is said of tokens of the prompt; "sampled": of tokens that the engine sampled, with this
             kernel as their source; "all" of both, as a corpus of given tokens
    Sequences are numbered in the order of the requests. Returns the rows. `identity`: of driftgate.CaptureWriter.
    """
    import driftgate

    np = need("numpy", "numpy", "making captures")
    if rows not in ("all", "prompt", "sampled"):
        raise ValueError(f"rows {rows!r} is none of all, prompt, sampled")
    requests = requests_in(source) if isinstance(source, (str, os.PathLike)) else list(source)
    if rows == "sampled":
        identity.setdefault("token_source", kernel)
    count = 0
    with driftgate.CaptureWriter(path, kernel, **identity) as writer:
        for number, request in enumerate(requests):
            ids, states = _loaded(request.path)
            targets, first = _targets(np, request, np.asarray(ids), len(states), rows)
            if not len(targets):
                continue
            chosen = states[first:first + len(targets), layer]
            chosen = rms_norm(chosen, *norm) if norm is not None else chosen + 0  # of its own memory, row after row
            writer.append(driftgate.Hidden(chosen, head), tokens=targets,
                          sequences=np.full(len(targets), number, np.int64),
                          positions=np.arange(first, first + len(targets), dtype=np.int64))
            count += len(targets)
        if not count:
            raise ValueError(f"{len(requests)} files hold no row with a known next token")
    return count


def _targets(np: Any, request: Request, ids: Any, states: int, rows: str) -> Tuple[Any, int]:
    """(the token after each row that is wanted, the first such row). The token after the last row is the first one
    that was sampled, where the list has it."""
    if len(ids) != states:
        raise ValueError(f"{request.path}: {len(ids)} tokens and {states} hidden states")
    prompt = request.prompt or len(ids)
    following = list(ids[1:])
    after = len(ids) - prompt  # sampled tokens that are in the file already
    following += list(request.sampled[after:after + 1])
    begin, end = 0, len(following)
    if rows == "prompt":
        end = min(end, prompt - 1)
    elif rows == "sampled":
        begin = min(end, prompt - 1)
    return np.array(following[begin:end], np.int64), begin


def _value(entry: Any) -> float:
    return float(getattr(entry, "logprob", entry))


def _lists(sequence: int, ids: Sequence[int], lists: Iterable[Any], first: int) -> Iterator[captures.Row]:
    """A row for each token that has a list {token: Logprob}, which has the target token whatever its rank: a target that
    is beyond the rank of the others was appended and is not listed."""
    for offset, (token, listed) in enumerate(zip(ids, lists)):
        if not listed:
            continue
        known = {int(t): _value(entry) for t, entry in listed.items()}
        said = known.get(int(token))
        rank, others = getattr(listed.get(token), "rank", None), len(known) - (said is not None)
        if rank is None or rank > others + 1:
            known.pop(int(token), None)
        yield captures.Row(sequence, first + offset, int(token), said, known)


def capture_of_outputs(outputs: Sequence[Any], path: str, *, kernel: str = "vllm", rows: str = "prompt",
                       numbers: Optional[Sequence[int]] = None, vocabulary: int = 0, **identity: Any) -> int:
    """A capture of what `LLM.generate` returned: the lists of prompt_logprobs ("prompt") or of logprobs ("sampled").

    Of sampled tokens this kernel is their source; state `sampling_filter` if they were filtered, and `temperature` only
    where vLLM's logprobs_mode returns processed values. Returns the rows.
    """
    if rows not in ("prompt", "sampled"):
        raise ValueError(f"rows {rows!r} is neither prompt nor sampled")
    found: List[captures.Row] = []
    number = 0
    for index, output in enumerate(outputs):
        prompt = list(output.prompt_token_ids or [])
        if rows == "prompt":
            if output.prompt_logprobs is None:
                raise ValueError(f"request {output.request_id} has no prompt_logprobs: set it in SamplingParams")
            where = numbers[index] if numbers is not None else index
            found += [captures.Row(row.sequence, row.position - 1, row.token, row.logprob, row.listed)
                      for row in _lists(where, prompt, output.prompt_logprobs, 0)]
            continue
        for completion in output.outputs:
            if completion.logprobs is None:
                raise ValueError(f"request {output.request_id} has no logprobs: set it in SamplingParams")
            found += _lists(number, completion.token_ids, completion.logprobs, len(prompt) - 1)
            number += 1
    if rows == "sampled":
        identity.setdefault("token_source", kernel)
    return captures.write_rows(path, found, kernel, vocabulary=vocabulary, **identity)


def score(llm: Any, sequences: Sequence[Tuple[int, Sequence[int]]], path: str, *, top: int = 20, kernel: str = "vllm",
          **identity: Any) -> int:
    """Scores given tokens: (number, token ids) through `llm.generate` with prompt_logprobs, and writes the capture.

    One token is generated for each sequence and thrown away. vLLM's max_logprobs limits `top`; a `top` of 0 keeps the
    target tokens alone.
    """
    params = need("vllm", "vLLM", "scoring").SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=top)
    outputs = llm.generate([{"prompt_token_ids": list(ids)} for _, ids in sequences], params)
    return capture_of_outputs(outputs, path, kernel=kernel, numbers=[number for number, _ in sequences], **identity)
