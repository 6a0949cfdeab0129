"""A stand-in for verl: imports the modules that VERL_USE_EXTERNAL_MODULES names, as verl does when it is imported."""
import importlib
import os

for _name in filter(None, os.environ.get("VERL_USE_EXTERNAL_MODULES", "").replace(" ", "").split(",")):
    importlib.import_module(_name)
