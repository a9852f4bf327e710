"""Empty stand-ins for the simulator's packages, which are not on PyPI: Isaac Lab imports them whatever it is used for."""

import importlib.abc
import importlib.machinery
from types import ModuleType
from typing import ClassVar
from unittest.mock import MagicMock

ABSENT = (
    *("omni", "carb", "pxr", "isaacsim", "usdrt", "h5py", "hid", "flatdict", "junitparser", "open3d"),
    *("trimesh", "pinocchio", "pink", "dex_retargeting"),
)


class Nothing(MagicMock):
    """A class, function or number of an absent package."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.__name__ = self.__qualname__ = "nothing"
        self.__str__ = lambda _: "nothing"


class Stand(ModuleType):
    """An empty module: whatever is taken from it is a mock."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name=f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives stand-ins for the packages that are absent."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Stand(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
