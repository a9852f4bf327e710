"""What a terminal sends -> names of keys."""

import re

_ESCAPES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
}
# ECMA-48 control sequences, single shifts of keypads and the Linux console's function keys; everything else is a key.
_KEY = re.compile(rb"\x1b(?:\[\[[@-~]|\[[0-?]*[ -/]*[@-~]|O[0-9;]*[@-~])|.", re.DOTALL)
_CUT_OFF = re.compile(rb"\x1b(?:\[\[|\[[0-?]*[ -/]*|O[0-9;]*)?\Z")


def decode_keys(data: bytes) -> list[str]:
    """Names of the keys in what a terminal sent: arrows and page keys as words, other characters in lower case.

    Escape sequences of other keys are left out whole.
    """
    found = _KEY.findall(data)
    keys = (_ESCAPES.get(key, "") if len(key) > 1 else chr(key[0]).lower() for key in found)
    return [key for key in keys if key]


def split_cut_off(data: bytes) -> tuple[bytes, bytes]:
    """What is whole, and the beginning of an escape sequence at the end whose rest has not come yet."""
    cut = _CUT_OFF.search(data)
    return (data, b"") if cut is None else (data[: cut.start()], cut.group())
