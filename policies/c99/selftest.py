"""Golden rows as a program in C: consecutive signals in, results compared."""

from collections.abc import Mapping

import numpy as np

from .names import number
from .source import CSource
from .tables import rows

MAIN = """
#ifdef ISTHMUS_SELFTEST
#include <stdio.h>
#ifndef ISTHMUS_BEFORE_STEP /* where somebody wants to measure */
#define ISTHMUS_BEFORE_STEP
#define ISTHMUS_AFTER_STEP
#define ISTHMUS_AT_END
#endif

{tables}
/* Errors relative to the largest value of their row, or to 1. */
static float golden_error(const float *found, const float *golden, int count)
{{
    float size = 1.0f, worst = 0.0f;
    for (int i = 0; i < count; ++i)
        size = fabsf(golden[i]) > size ? fabsf(golden[i]) : size;
    for (int i = 0; i < count; ++i) {{
        const float error = fabsf(found[i] - golden[i]) / size;
        worst = error <= worst ? worst : error;
    }}
    return worst;
}}

int main(void)
{{
    static {name}_state state;
    static {name}_input in;
    static {name}_output out;
    float worst = 0.0f;
    int code;
    {name}_reset(&state);
    for (int row = 0; row < {count}; ++row) {{
{given}
        ISTHMUS_BEFORE_STEP
        code = {name}_step(&state, &in, &out);
        ISTHMUS_AFTER_STEP
        if (code) {{
            printf("golden row %d: a result is not finite\\n", row);
            return 2;
        }}
{checked}
    }}
    printf("{count} golden rows: largest error %.3g, allowed %.3g\\n", (double)worst, (double){tolerance});
    ISTHMUS_AT_END
    return worst <= {tolerance} ? 0 : 1;
}}
#endif
"""


def with_selftest(
    source: CSource, signals: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray], tolerance: float
) -> str:
    """The source with a test behind it that `-DISTHMUS_SELFTEST` compiles to a program.

    Args:
        source: the compiled policy.
        signals: consecutive rows (rows, width) of every input.
        results: what must come out, by output.
        tolerance: largest error, relative to the largest value of a row or to 1.
    """
    count = len(next(iter(results.values())))
    tables, given, checked = [], [], []
    for name, values in signals.items():
        member, width = source.names.inputs[name], values.shape[1]
        tables.append(_table(f"golden_in_{member}", values))
        given.append(f"        for (int i = 0; i < {width}; ++i)")
        given.append(f"            in.{member}[i] = golden_in_{member}[row * {width} + i];")
    for name, values in results.items():
        member, width = source.names.outputs[name], values.shape[1]
        tables.append(_table(f"golden_out_{member}", values))
        checked.append("        {")
        checked.append(
            f"            const float e = golden_error(out.{member}, golden_out_{member} + row * {width}, {width});"
        )
        checked.append("            worst = e <= worst ? worst : e;\n        }")
    return source.source + MAIN.format(
        tables="\n".join(tables),
        name=source.name,
        count=count,
        given="\n".join(given),
        checked="\n".join(checked),
        tolerance=number(tolerance),
    )


def _table(name: str, values: np.ndarray) -> str:
    flat = np.asarray(values, dtype=np.float32).reshape(-1)
    return f"static const float {name}[{flat.size}] = {{\n{rows(flat, 'float')}\n}};\n"
