"""Which keys do something now, and what."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .modes import Mode


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key and its meaning."""

    key: str
    does: str


_STOP = Key(key="x", does="stop")
_END = Key(key="Ctrl-C", does="hold and end")
_TAKE = Key(key="space", does="take over")
_BACK = Key(key="r", does="go back along the path")
_GO_ON = Key(key="c", does="let the policy go on")
_DRIVING = (
    Key(key="space", does="give back"),
    Key(key="arrows or w s a d", does="move"),
    Key(key="page or e q", does="up, down"),
    Key(key="Enter", does="done"),
    Key(key="g", does="give up"),
    _BACK,
)
_KEYS: Mapping[str, tuple[Key, ...]] = MappingProxyType(
    {"POLICY": (_TAKE, _BACK), "TELEOP": _DRIVING, "REWIND": (_TAKE, _GO_ON), "HELP": (_TAKE, _GO_ON, _BACK)}
)


def keys_now(mode: Mode, *, keyboard: bool) -> tuple[Key, ...]:
    """The keys that work in a mode, the most urgent first; without the keyboard operator only the terminal's own."""
    return (_STOP, *_KEYS.get(mode.name, ()), _END) if keyboard else (_END,)
