"""The text of header and source."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from isthmus.hardware.files import write_whole

from .allocate import Layout, allocate
from .ir import Buffer, Call, Loop, Program, Step
from .loops import loop_text
from .names import MemberNames, comment
from .notes import Notes
from .tables import SCRATCH, Places, Tables

KERNELS = Path(__file__).with_name("kernels")
PRELUDE = """\
#include "{name}.h"

#include <float.h>
#include <math.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || FLT_EVAL_METHOD == 2
#error "compile without -ffast-math and with plain float arithmetic: rounding and the search for NaN rest on it"
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns") /* or loops become calls of memcpy and memset */
#endif

/* a * b + c, rounded once where that is one instruction */
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define K_MAC(a, b, c) fmaf((a), (b), (c))
#else
#define K_MAC(a, b, c) ((a) * (b) + (c))
#endif
"""


@dataclass(frozen=True, kw_only=True)
class CSource:
    """A compiled model. `name` begins every name that others can see, and is that of both files."""

    name: str
    header: str
    source: str
    layout: Layout
    names: MemberNames
    int8_layers: tuple[str, ...]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Both files; returns the source and the header."""
        paths = folder / f"{self.name}.c", folder / f"{self.name}.h"
        for path, text in zip(paths, (self.source, self.header), strict=True):
            write_whole(path, text.encode("ascii"))
        return paths


def source_text(name: str, program: Program) -> tuple[str, Layout]:
    """The source, and where its scratch lies."""
    layout, tables = allocate(program), Tables()
    places = Places(layout, tables)
    body = "\n".join(_step_text(step, places) for step in program.steps)
    functions = f"{_reset(name, program)}\n{_step(name, program, layout, body)}"
    parts = [PRELUDE.format(name=name), *kernels(functions), tables.text(), functions]
    return "\n".join(part for part in parts if part), layout


def kernels(text: str) -> list[str]:
    """The kernels that a text calls, those that they call before them."""
    found: list[str] = []

    def add(caller: str) -> None:
        for called in re.findall(r"\b(k_\w+)\(", caller):
            kernel = _kernel(called)
            if kernel and kernel not in found and kernel != caller:
                add(kernel)
                if kernel not in found:
                    found.append(kernel)

    add(text)
    return found


@lru_cache(maxsize=256)
def _kernel(name: str) -> str:
    path = KERNELS / f"{name}.c"
    return path.read_text() if path.is_file() else ""


def _step_text(step: Step, places: Places) -> str:
    if isinstance(step, Loop):
        return loop_text(step, places)
    assert isinstance(step, Call)
    named = {name: places.pointer(ref) for name, ref in step.arguments.items()}
    named |= {name: places.address(r.buffer, r.start) for name, r in {"y": step.region, **step.own}.items()}
    return f"    {step.template.format(**named)}"


def _reset(name: str, program: Program) -> str:
    lines = [
        f"    for (int i = 0; i < {b.size}; ++i)\n        s->memory[0].{b.name}[i] = 0.0f;" for b in program.memory
    ]
    lines.append("    s->now = 0;")
    return f"void {name}_reset({name}_state *s)\n{{\n" + "\n".join(lines) + "\n}\n"


def _step(name: str, program: Program, layout: Layout, body: str) -> str:
    tests = [f"    bad += k_unfinite(out->{b.name}, {b.size});" for b in program.outputs]
    tests += [f"    bad += k_unfinite(next->{b.name}, {b.size});" for b in program.following]
    whole = "\n".join([body, *tests])
    pointers = [f"    {kind} *const {SCRATCH[kind]} = s->{SCRATCH[kind]};" for kind in layout.sizes]
    if re.search(r"(?<!->)\bnow->", whole):
        pointers.append(f"    const {name}_memory *const now = &s->memory[s->now & 1];")
    if program.following:
        pointers.append(f"    {name}_memory *const next = &s->memory[(s->now & 1) ^ 1];")
    silent = [] if re.search(r"\bin->", body) else ["    (void)in;"]
    return "\n".join(
        [
            f"int {name}_step({name}_state *s, const {name}_input *in, {name}_output *out)",
            "{",
            *pointers,
            "    float bad = 0.0f;",
            *silent,
            body,
            *tests,
            "    if (!(bad == 0.0f))",
            "        return 1;",
            "    s->now = (s->now & 1) ^ 1;" if program.memory else "    s->now = 0;",
            "    return 0;",
            "}",
            "",
        ]
    )


def header_text(name: str, program: Program, layout: Layout, notes: Notes, names: MemberNames) -> str:
    """The header: definitions, structs, functions."""
    upper = name.upper()
    title = "\n".join(f" * {comment(line)}" for line in notes.title)
    defines = "\n".join(f"#define {upper}_{end} {text}" for end, text in notes.defines)
    of_inputs, of_outputs = (
        {member: notes.members[tensor] for tensor, member in side.items() if tensor in notes.members}
        for side in (names.inputs, names.outputs)
    )
    scratch = [f"    {kind} {SCRATCH[kind]}[{size}];" for kind, size in layout.sizes.items()]
    memory = [_struct(f"{name}_memory", program.memory, of_inputs)] if program.memory else []
    kept = [f"    {name}_memory memory[2]; /* as it is, and as it becomes */"] if program.memory else []
    state = ["typedef struct {", *kept, *scratch, "    int now;", f"}} {name}_state;\n"]
    return "\n".join(
        [
            *([f"/*\n{title}\n */"] if title else []),
            f"#ifndef {upper}_H\n#define {upper}_H\n\n#include <stdint.h>\n",
            *([defines, ""] if defines else []),
            _struct(f"{name}_input", program.inputs, of_inputs),
            _struct(f"{name}_output", program.outputs, of_outputs),
            *memory,
            "/* All that the policy keeps, and its scratch memory. */",
            "\n".join(state),
            '#ifdef __cplusplus\nextern "C" {\n#endif\n',
            "/* Begin an episode. Call it before the first step. */",
            f"void {name}_reset({name}_state *s);\n",
            "/* One tick. Returns 0; 1 if a result is not finite: do not use it, the state stays as it was. */",
            f"int {name}_step({name}_state *s, const {name}_input *in, {name}_output *out);\n",
            "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
        ]
    )


def _struct(name: str, buffers: list[Buffer], notes: dict[str, str]) -> str:
    lines = []
    for buffer in buffers:
        note = f" /* {comment(notes[buffer.name])} */" if buffer.name in notes else ""
        lines.append(f"    float {buffer.name}[{buffer.size}];{note}")
    return "\n".join(["typedef struct {", *(lines or ["    char unused;"]), f"}} {name};\n"])
