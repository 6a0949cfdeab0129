"""A stand-in for vLLM's factory: a name is registered once, and its module is imported when a connector is made."""
import importlib


class KVConnectorFactory:
    _registry = {}

    @classmethod
    def register_connector(cls, name, module_path, class_name):
        if name in cls._registry:
            raise ValueError(f"Connector '{name}' is already registered.")
        cls._registry[name] = lambda: getattr(importlib.import_module(module_path), class_name)

    @classmethod
    def get_connector_class_by_name(cls, name):
        return cls._registry[name]()
