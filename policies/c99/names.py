"""Names, numbers and texts as C: whatever a bundle says, the source stays a source."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError

LONGEST_NAME = 40
LONGEST_COMMENT = 3000
_HEADERS = """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdarg stdbool stddef stdint
    stdio stdlib string tgmath time wchar wctype
"""
# Words of C and C++ (so that the header can be included there), and what some compilers take for macros.
_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main errno bool
    true false asm typeof alignas alignof and and_eq bitand bitor catch class compl concept constexpr const_cast decltype
    delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public reinterpret_cast requires static_assert static_cast template this thread_local throw try typeid
    typename using virtual wchar_t xor xor_eq linux unix near far huge pascal interrupt
    i386 mips sparc sun
"""
HEADERS, WORDS = frozenset(_HEADERS.split()), frozenset(_WORDS.split())


class CExportError(IsthmusError, ValueError):
    """A bundle cannot become C: what it computes is outside of what the compiler knows."""


@dataclass(frozen=True, kw_only=True)
class MemberNames:
    """Members of the structs by the graph's tensors."""

    inputs: dict[str, str]
    outputs: dict[str, str]


def identifier(text: str) -> str:
    """A C identifier made of a name: small letters (macros are capital), digits and single underscores, no keyword."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:LONGEST_NAME].rstrip("_")
    if not name or name[0].isdigit() or name in WORDS:
        name = f"x_{name}".rstrip("_")
    return name


def file_name(text: str) -> str:
    """An identifier for files and the beginnings of names, unlike any header of C."""
    name = identifier(text)
    return f"{name}_policy" if name in HEADERS else name


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """An identifier for each name, all different: the second of two that look alike becomes `<name>_2`."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for text in names:
        base = name = identifier(text)
        count = 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        found[text] = name
    return found


def comment(text: str) -> str:
    """Text that can stand inside a comment: printable ASCII on one line that neither ends nor begins one, nor a trigraph."""
    line = "".join(c if " " <= c <= "~" and c not in "\\?" else "_" for c in " ".join(text.split()))
    line = line.replace("*", "x") if "*/" in line or "/*" in line else line
    return line if len(line) <= LONGEST_COMMENT else line[:LONGEST_COMMENT] + " ..."


def string(text: str) -> str:
    """A string literal of the text's UTF-8 bytes; everything but plain characters as octal escapes."""
    plain = re.compile(r"[A-Za-z0-9 _.,:;()+=<>@#$&!|{}^~'\[\]-]")
    return '"' + "".join(chr(b) if plain.match(chr(b)) else f"\\{b:03o}" for b in text.encode()[:400]) + '"'


def number(value: float) -> str:
    """A float literal that reads back as the same float32."""
    single = np.float32(value)
    if np.isnan(single):
        raise CExportError(f"a constant is {value}, expected a number")
    if np.isinf(single):
        return "INFINITY" if single > 0 else "(-INFINITY)"
    text = np.format_float_scientific(single, unique=True, trim="0")
    if 1e-3 <= abs(single) < 1e6 or single == 0:
        text = np.format_float_positional(single, unique=True, trim="0")
    return f"({text}f)" if text.startswith("-") else f"{text}f"


def bare_number(value: float) -> str:
    """The literal without parentheses, for tables."""
    return number(value).strip("()")
