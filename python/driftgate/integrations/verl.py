"""verl: driftgate's figures beside verl's own rollout-correction metrics, and a verdict over many steps.

    VERL_USE_EXTERNAL_MODULES=driftgate.integrations.verl python3 -m verl.trainer.main_ppo \\
        actor_rollout_ref.rollout.calculate_log_probs=True …

verl imports the modules that VERL_USE_EXTERNAL_MODULES names in each of its processes. Imported that way, this module
waits for verl's metric functions to be imported and wraps them; imported in any other way, it does so when `install()`
is called. docs/integrations/verl.md.
"""

import functools
import importlib.abc
import importlib.util
import logging
import os
import sys
from typing import Any, Callable, Dict, Optional

from . import figures, monitor

_log = logging.getLogger(__name__)

# verl's functions that see both log-probabilities, and where the batch stands among what each returns.
_CORRECTION = ("verl.trainer.ppo.rollout_corr_helper", "compute_rollout_correction_and_add_to_batch")
_DEBUG = ("verl.utils.debug.metrics", "calculate_debug_metrics")


def metrics_of(batch: Any, watch: Optional[monitor.Monitor] = None) -> Dict[str, float]:
    """Figures of a verl batch: `batch.batch` holds old_log_probs, rollout_log_probs, responses and response_mask.

    Without response_mask, the last columns of loss_mask or attention_mask. Nothing where a log-probability is missing.
    """
    tensors = batch.batch
    if "old_log_probs" not in tensors or "rollout_log_probs" not in tensors:
        return {}
    train, inf = tensors["old_log_probs"], tensors["rollout_log_probs"]
    width = train.shape[1]
    for name in ("response_mask", "loss_mask", "attention_mask"):
        if name in tensors:
            mask = tensors[name][:, -width:]
            break
    else:
        raise ValueError("the batch has neither response_mask, loss_mask nor attention_mask")
    watch = monitor.current() if watch is None else watch
    tokens = tensors["responses"] if "responses" in tensors else None
    return watch.step(train, inf, mask, tokens)


def _with_figures(function: Callable[..., Any], watch: Optional[monitor.Monitor]) -> Callable[..., Any]:
    """`compute_rollout_correction_and_add_to_batch(batch, config) -> (batch, metrics)` with more metrics."""

    @functools.wraps(function)
    def wrapped(batch: Any, *arguments: Any, **options: Any) -> Any:
        ours = metrics_of(batch, watch)  # before the call, which may reject sequences by changing response_mask
        batch, metrics = function(batch, *arguments, **options)
        return batch, {**ours, **metrics}

    wrapped.driftgate = True  # type: ignore[attr-defined]
    return wrapped


def _with_debug_figures(function: Callable[..., Any], watch: Optional[monitor.Monitor]) -> Callable[..., Any]:
    """`calculate_debug_metrics(batch) -> metrics` with more metrics."""

    @functools.wraps(function)
    def wrapped(batch: Any, *arguments: Any, **options: Any) -> Any:
        return {**metrics_of(batch, watch), **function(batch, *arguments, **options)}

    wrapped.driftgate = True  # type: ignore[attr-defined]
    return wrapped


def install(watch: Optional[monitor.Monitor] = None, *, at: str = "debug") -> str:
    """Wraps verl's metric function and returns its full name.

    `at` says which: "debug", which verl calls in every step whose rollouts carry log-probabilities, or "correction",
    which it calls only with algorithm.rollout_correction in decoupled mode. A second call changes nothing. Without
    `watch` the monitor of the process is used (monitor.current). MissingProject without verl.
    """
    from . import need

    module_name, name = _target(at)
    module = need(module_name, "verl", "hooking verl's metrics")
    return _wrap(module, name, at, watch)


def _target(at: str) -> Any:
    if at not in ("debug", "correction"):
        raise ValueError(f"at {at!r} is neither 'debug' nor 'correction'")
    return _DEBUG if at == "debug" else _CORRECTION


def _wrap(module: Any, name: str, at: str, watch: Optional[monitor.Monitor]) -> str:
    function = getattr(module, name, None)
    if function is None:
        raise AttributeError(f"{module.__name__} has no {name}: this verl is older or newer than the one that "
                             f"driftgate knows; call driftgate.integrations.verl.metrics_of(batch) in your trainer")
    if not getattr(function, "driftgate", False):
        setattr(module, name, (_with_debug_figures if at == "debug" else _with_figures)(function, watch))
        _log.info("driftgate adds its figures to those of %s.%s", module.__name__, name)
    return f"{module.__name__}.{name}"


class _Waiting(importlib.abc.MetaPathFinder):
    """Wraps the function when verl imports its module, which it does in the middle of training."""

    def __init__(self, at: str):
        self.at = at
        self.module, self.name = _target(at)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run, name, at = spec.loader.exec_module, self.name, self.at

            def exec_module(module: Any) -> None:
                run(module)
                _wrap(module, name, at, None)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def wait_for_verl(at: str = "debug") -> None:
    """As `install`, as soon as verl imports the module of its function, and at once if it has."""
    module, name = _target(at)
    if module in sys.modules:
        _wrap(sys.modules[module], name, at, None)
    elif not any(isinstance(finder, _Waiting) and finder.at == at for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting(at))


def figures_of(batch: Any) -> Dict[str, float]:
    """Every family of figures of a verl batch, for a trainer of your own that logs what it likes."""
    return metrics_of(batch, monitor.Monitor(families=tuple(figures.FAMILIES)))


if __name__ in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").replace(" ", "").split(","):
    wait_for_verl(os.environ.get("DRIFTGATE_VERL_AT", "debug"))
