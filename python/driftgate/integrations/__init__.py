"""driftgate inside trainers and engines, each in a module of its own.

    vllm, sglang            captures of what an engine computed
    transformers            captures and drift of two models in one process
    verl, trl, slime        figures of every training step, and a verdict
    mlflow                  the verdict on a model version, by REST

Importing a module of this package imports neither the project that it is for nor numpy's users: what is missing is named
when it is first used. docs/integrations has a page for each.
"""


class MissingProject(ImportError):
    """A function was called that needs a project which is not installed."""


def need(module: str, project: str, purpose: str):
    """The module, or an error that says which project is missing and what it was needed for."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as fault:
        raise MissingProject(f"{purpose} needs {project}, and importing {module} failed: {fault}. Install {project} in "
                             f"this environment; nothing else in driftgate depends on it.") from fault
