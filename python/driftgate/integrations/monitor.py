"""A monitor of a training run: figures of every step from pairs of log-probabilities, and a verdict over many steps."""

from typing import Any, Callable, Dict, List, Optional, Sequence

from . import figures

DEFAULT_FAMILIES = ("driftgate",)
_WORST_FIRST = (1, 4, 3, 0)  # exit codes of verdicts


def worst(*codes: float) -> float:
    """The worst of some verdicts' exit codes: violated, then error, then inconclusive, then pass."""
    return float(min(codes, key=lambda code: _WORST_FIRST.index(int(code))))


class DriftStopped(RuntimeError):
    """A contract was violated and the monitor was told to stop the run. `drift` is the result."""

    def __init__(self, message: str, drift: Any):
        super().__init__(message)
        self.drift = drift


class Monitor:
    """Takes each step's log-probabilities and returns its figures; decides a contract every `window` sequences.

    contract         what `driftgate.drift` takes as its contract; None: figures only, and driftgate's library is not used
    window           sequences of one verdict; the next one begins with those after them, so that each is a test of its own
    families         which figures `step` returns, of `figures.FAMILIES`
    on_violation     "log" (the figure driftgate/verdict alone), "stop" (DriftStopped) or a function of the Drift
    train_kernel, inf_kernel, checkpoint, sampling_filter, temperature
                     identity of the rows in reports; the inference kernel is the one that sampled the tokens
    """

    def __init__(self, contract: Any = None, *, window: int = 512, families: Sequence[str] = DEFAULT_FAMILIES,
                 on_violation: Any = "log", clip: float = 0.2, train_kernel: str = "train", inf_kernel: str = "rollout",
                 checkpoint: str = "", sampling_filter: str = "none", temperature: float = 1.0):
        if on_violation not in ("log", "stop") and not callable(on_violation):
            raise ValueError(f"on_violation {on_violation!r} is neither 'log', 'stop' nor a function")
        if window < 1:
            raise ValueError(f"window {window} is no number of sequences")
        figures.all_of(figures.pairs([], []), families)  # an unknown family is refused here and not in the first step
        self.contract, self.window, self.families, self.clip = contract, window, tuple(families), clip
        self.on_violation = on_violation
        self.identity = {"checkpoint": checkpoint, "sampling_filter": sampling_filter, "temperature": temperature}
        self.train_kernel, self.inf_kernel = train_kernel, inf_kernel
        self.last = None  # the latest Drift
        self.verdicts: List[str] = []
        self._waiting: List[Any] = []  # (train, inf, tokens) of each sequence of the window

    def step(self, train: Any, inf: Any, mask: Any = None, tokens: Any = None) -> Dict[str, float]:
        """Figures of one batch. `tokens` are the ids of the realised tokens, shaped as the log-probabilities; a contract
        needs them. With a verdict in this step, `driftgate/verdict` is its exit code: 0 pass, 1 violated, 3 inconclusive, 4
        error; of several the worst.
        """
        pairs = figures.pairs(train, inf, mask)
        out = figures.all_of(pairs, self.families, self.clip)
        if self.contract is not None:
            if tokens is None:
                raise ValueError("a contract needs the realised tokens: give tokens, shaped as the log-probabilities")
            self._keep(pairs, figures.pairs(tokens, tokens, mask))
            codes = []
            while len(self._waiting) >= self.window:
                codes.append(self.judge().exit_code)
            if codes:
                out["driftgate/verdict"] = worst(*codes)
        return out

    def _keep(self, pairs: Any, tokens: Any) -> None:
        if pairs.tokens != tokens.tokens:
            raise ValueError(f"{tokens.tokens} tokens for {pairs.tokens} log-probabilities")
        for begin, end in zip(pairs.offsets[:-1], pairs.offsets[1:]):
            if end > begin:
                self._waiting.append((pairs.train[begin:end], pairs.inf[begin:end], tokens.train[begin:end].astype("int64")))

    def judge(self) -> Any:
        """The Drift of the sequences that wait for a verdict, at most a window of them, which then wait no longer.
        ValueError if none waits."""
        from . import captures

        if not self._waiting:
            raise ValueError("no sequence with a counted token has been seen since the last verdict")
        rows, self._waiting = self._waiting[:self.window], self._waiting[self.window:]
        drift = captures.drift_of_logprobs(rows, contract=self.contract, train_kernel=self.train_kernel,
                                           inf_kernel=self.inf_kernel, **self.identity)
        self.last = drift
        self.verdicts.append(drift.verdict)
        if drift.exit_code == 1 and self.on_violation != "log":
            if callable(self.on_violation):
                self.on_violation(drift)
            else:
                raise DriftStopped(f"the contract is violated over {len(rows)} sequences:\n{drift.to_markdown()}", drift)
        return drift


_current: Optional[Monitor] = None


def configure(**options: Any) -> Monitor:
    """Makes the monitor of this process, which hooks without arguments of their own use."""
    global _current
    _current = Monitor(**options)
    return _current


def current() -> Monitor:
    """The monitor of this process. If there is none, one by environment variables, which reach the processes that a
    launcher starts: DRIFTGATE_CONTRACT (a file), DRIFTGATE_WINDOW, DRIFTGATE_ON_VIOLATION (log or stop),
    DRIFTGATE_FIGURES (families, separated by commas), DRIFTGATE_TRAIN_KERNEL, DRIFTGATE_INF_KERNEL, DRIFTGATE_CHECKPOINT."""
    return _current if _current is not None else configure(**options_of_environment())


def options_of_environment(environment: Optional[Dict[str, str]] = None) -> Dict[str, Any]:
    import os

    environment = dict(os.environ) if environment is None else environment
    readers: Dict[str, Callable[[str], Any]] = {
        "contract": str, "window": int, "on_violation": str, "train_kernel": str, "inf_kernel": str, "checkpoint": str}
    out: Dict[str, Any] = {}
    for name, read in readers.items():
        text = environment.get(f"DRIFTGATE_{name.upper()}", "")
        if text:
            out[name] = read(text)
    if environment.get("DRIFTGATE_FIGURES"):
        out["families"] = tuple(part.strip() for part in environment["DRIFTGATE_FIGURES"].split(","))
    return out
