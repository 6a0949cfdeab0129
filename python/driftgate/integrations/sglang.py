"""SGLang: captures of its log-probabilities and hidden states.

    score(engine.generate, sequences, "inf", top=20)                     # sglang.Engine
    score(Server("http://127.0.0.1:30000"), sequences, "inf", top=20)    # python3 -m sglang.launch_server

Both return what SGLang's /generate returns, which `capture_of_answers` reads. docs/integrations/sglang.md.
"""

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import captures, need


class Server:
    """Calls /generate of a server by its address, with the arguments of sglang.Engine.generate.

    Errors: urllib.error.URLError where it does not answer, ValueError where the answer is no JSON.
    """

    def __init__(self, url: str, *, key: str = "", timeout: float = 600.0):
        self.url, self.key, self.timeout = url.rstrip("/"), key, timeout

    def __call__(self, **arguments: Any) -> Any:
        import urllib.request

        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(f"{self.url}/generate", json.dumps(arguments).encode(), headers)
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:
            return json.loads(answer.read())


def _pairs(entries: Any, what: str) -> List[Tuple[Optional[float], int]]:
    """(log-probability or nothing, token) of each entry [logprob, id, text]."""
    out = []
    for entry in entries:
        if not isinstance(entry, (list, tuple)) or len(entry) < 2:
            raise ValueError(f"meta_info.{what} holds {entry!r}, which is no [logprob, token, text]")
        out.append((None if entry[0] is None else float(entry[0]), int(entry[1])))
    return out


def _rows(number: int, meta: Dict[str, Any], side: str, first: int) -> List[captures.Row]:
    """The rows of input or output tokens. The first input token has no log-probability and is left out."""
    said = _pairs(meta.get(f"{side}_token_logprobs") or [], f"{side}_token_logprobs")
    lists = meta.get(f"{side}_top_logprobs") or [None] * len(said)
    if len(lists) != len(said):
        raise ValueError(f"meta_info has {len(said)} {side}_token_logprobs and {len(lists)} {side}_top_logprobs")
    out = []
    for offset, ((value, token), listed) in enumerate(zip(said, lists)):
        if value is None and not listed:
            continue
        known = {token_of: value_of for value_of, token_of in _pairs(listed or [], f"{side}_top_logprobs")}
        out.append(captures.Row(number, first + offset, token, value, known))
    return out


def capture_of_answers(answers: Sequence[Any], path: str, *, kernel: str = "sglang", rows: str = "input",
                       numbers: Optional[Sequence[int]] = None, vocabulary: int = 0, **identity: Any) -> int:
    """A capture of the log-probabilities in SGLang's answers: of the "input" tokens (with logprob_start_len=0) or of the
    "output" tokens that it sampled, with this kernel as their source. Returns the rows.

    Those of input tokens are of temperature 1. Those of output tokens come after the sampling temperature unless the
    server has SGLANG_RETURN_ORIGINAL_LOGPROB: state `temperature`. ValueError where an answer has none.
    """
    if rows not in ("input", "output"):
        raise ValueError(f"rows {rows!r} is neither input nor output")
    found: List[captures.Row] = []
    for index, answer in enumerate(answers):
        meta = answer["meta_info"]
        number = numbers[index] if numbers is not None else index
        prompt = int(meta.get("prompt_tokens") or len(meta.get("input_token_logprobs") or []) or 1)
        begin = -1 if rows == "input" else prompt - 1  # the row before a token says what is known of it
        mine = _rows(number, meta, rows, begin)
        if not mine:
            raise ValueError(f"answer {index} has no {rows}_token_logprobs: ask with return_logprob and logprob_start_len=0")
        found += mine
    if rows == "output":
        identity.setdefault("token_source", kernel)
    return captures.write_rows(path, found, kernel, vocabulary=vocabulary, **identity)


def hidden_of(answer: Any, tokens: int) -> Any:
    """The hidden states of an answer, [tokens, width] float32: those of the prompt, then one for each decoding step.

    They are what the head is applied to. ValueError where some are missing: tokens that came from the radix cache have
    none, so that the server must run with --disable-radix-cache.
    """
    np = need("numpy", "numpy", "reading hidden states")
    chunks = answer["meta_info"].get("hidden_states")
    if chunks is None:
        raise ValueError("the answer has no hidden_states: start the server with --enable-return-hidden-states and ask "
                         "with return_hidden_states")
    parts = []
    for chunk in chunks:
        if hasattr(chunk, "detach"):
            chunk = chunk.detach().float().cpu().numpy()
        parts.append(np.atleast_2d(np.asarray(chunk, np.float32)))
    states = np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
    if len(states) < tokens:
        raise ValueError(f"{len(states)} hidden states for {tokens} tokens: the others came from the radix cache; start "
                         "the server with --disable-radix-cache")
    return states[:tokens]


def score(generate: Any, sequences: Sequence[Tuple[int, Sequence[int]]], path: str, *, top: int = 0, hidden: bool = False,
          head: Any = None, kernel: str = "sglang", **identity: Any) -> int:
    """Scores given tokens: (number, token ids) through `generate`, and writes a capture. Returns the rows.

    generate   sglang.Engine.generate or a Server
    top        likely tokens of each row; 0: the target tokens alone
    hidden     hidden states instead of log-probabilities; `head` is the model's driftgate.Head
    One token is generated for each sequence and thrown away.
    """
    if hidden and head is None:
        raise ValueError("hidden states need head: driftgate.Head(weight) of the model")
    arguments: Dict[str, Any] = {"input_ids": [list(ids) for _, ids in sequences],
                                 "sampling_params": {"max_new_tokens": 1, "temperature": 0.0}}
    if hidden:
        arguments["return_hidden_states"] = True
    else:
        arguments.update(return_logprob=True, logprob_start_len=0, top_logprobs_num=top)
    answers = generate(**arguments)
    if not isinstance(answers, list) or len(answers) != len(sequences):
        raise ValueError(f"{len(sequences)} sequences were sent and {len(answers) if isinstance(answers, list) else 1} "
                         "answers came back")
    numbers = [number for number, _ in sequences]
    if not hidden:
        return capture_of_answers(answers, path, kernel=kernel, numbers=numbers, **identity)
    return _write_hidden(answers, sequences, path, head, kernel, identity)


def _write_hidden(answers: Sequence[Any], sequences: Sequence[Tuple[int, Sequence[int]]], path: str, head: Any, kernel: str,
                  identity: Dict[str, Any]) -> int:
    import driftgate

    np = need("numpy", "numpy", "writing hidden states")
    count = 0
    with driftgate.CaptureWriter(path, kernel, **identity) as writer:
        for (number, ids), answer in zip(sequences, answers):
            if len(ids) < 2:
                continue
            states = hidden_of(answer, len(ids))[:-1]  # the state of the last token says nothing of a given one
            writer.append(driftgate.Hidden(np.ascontiguousarray(states), head), tokens=np.array(ids[1:], np.int64),
                          sequences=np.full(len(states), number, np.int64),
                          positions=np.arange(len(states), dtype=np.int64))
            count += len(states)
    return count
