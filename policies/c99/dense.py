"""Layers as calls of kernels: weights in the order in which they are used, as float32 or as int8."""

import numpy as np

from .ir import Buffer, Call, Dense, Program, Ref, Region, whole

FEWEST_INT8 = 256  # weights of a layer worth rounding; smaller ones are mostly geometry
LARGEST_ACTIVATION = 32767
FLOAT_BLOCKS, INT8_BLOCKS = (8, 4, 1), (4, 1)


def make_calls(program: Program, *, int8: bool) -> list[str]:
    """Turn every `Dense` into a `Call`; returns the names of the layers whose weights are int8."""
    rounded = []
    for number, step in enumerate(program.steps):
        if isinstance(step, Dense):
            if int8 and worth_rounding(step.weights):
                rounded.append(step.name)
                program.steps[number] = _int8_call(step)
            else:
                program.steps[number] = _float_call(step)
    return rounded


def worth_rounding(weights: np.ndarray) -> bool:
    """Whether a layer is a network's, not a few numbers of geometry or a choice of joints."""
    return weights.size >= FEWEST_INT8 and int(np.count_nonzero(weights, axis=1).max()) > 1


def rounded_weights(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (rows, columns) as int8 and the scale of each row: weights = scale * int8, +-127 at most."""
    largest = np.abs(weights).max(axis=1)
    scale = np.where(largest > 0, largest / 127.0, 1.0).astype(np.float32)
    return np.rint(weights / scale[:, None]).astype(np.int8), scale


def largest_activation(columns: int) -> int:
    """Largest integer for a value, such that no sum over so many columns overflows int32."""
    return min(LARGEST_ACTIVATION, (2**31 - 1) // (127 * columns))


def _float_call(step: Dense) -> Call:
    rows, columns = step.weights.shape
    arguments = {"w": table(in_blocks(step.weights, FLOAT_BLOCKS)), "b": table(step.bias), "x": step.x}
    return Call(
        template=f"k_dense({{w}}, {{b}}, {{x}}, {{y}}, {rows}, {columns});", arguments=arguments, region=step.region
    )


def _int8_call(step: Dense) -> Call:
    rows, columns = step.weights.shape
    weights, scale = rounded_weights(step.weights)
    arguments = {"w": words(weights), "s": table(scale), "b": table(step.bias), "x": step.x}
    most = largest_activation(columns)
    packed = Buffer(place="scratch", name="", size=2 * ((columns + 3) // 4), c_type="uint32_t")
    return Call(
        template=f"k_dense8({{w}}, {{s}}, {{b}}, {{x}}, {{q}}, {{y}}, {rows}, {columns}, {most}.0f);",
        arguments=arguments,
        region=step.region,
        own={"q": Region(buffer=packed, start=0, size=packed.size)},
    )


def in_blocks(values: np.ndarray, blocks: tuple[int, ...]) -> np.ndarray:
    """Rows in blocks of the largest size that is left, each column by column."""
    parts, row = [], 0
    while row < len(values):
        size = next(block for block in blocks if block <= len(values) - row)
        parts.append(values[row : row + size].T.reshape(-1))
        row += size
    return np.concatenate(parts)


def words(weights: np.ndarray) -> Ref:
    """Int8 weights four to a word, bytes in the order 0, 2, 1, 3 that k_dot4 unpacks."""
    rows, columns = weights.shape
    padded = np.zeros((rows, -(-columns // 4) * 4), dtype=np.uint8)
    padded[:, :columns] = weights.view(np.uint8)
    quads = padded.reshape(rows, -1, 4).astype(np.uint32)
    packed = quads[..., 0] | quads[..., 2] << 8 | quads[..., 1] << 16 | quads[..., 3] << 24
    return table(in_blocks(packed, INT8_BLOCKS), "uint32_t")


def table(values: np.ndarray, c_type: str = "float") -> Ref:
    """A constant table."""
    data = values.reshape(-1)
    return whole(Buffer(place="constant", name="", size=data.size, c_type=c_type, data=data), data.shape)
