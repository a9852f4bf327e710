"""Frames of a simulation as a file: a sheet of pictures with their times (.png), or a film (.gif, .mp4)."""

import math
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isthmus.hardware.errors import IsthmusError

from .checks import OptionError, check_output

SHEET_FRAMES, SHEET_COLUMNS = 12, 4
FRAME_S = 0.04  # of a film, at least; that of its time step is a multiple of a control tick
SUFFIXES = (".png", ".gif", ".mp4")


class FilmError(IsthmusError, RuntimeError):
    """A film could not be written."""


def check_film(option: str, path: Path) -> None:
    """Refuse a file that could not be written, by its name or for lack of a program."""
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{option} {path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise OptionError(f"{option} {path}: .mp4 needs the program ffmpeg on the PATH; install it, or write a .gif")
    check_output(option, path)


def filmed_ticks(path: Path, ticks: int, period: float) -> list[int]:
    """The ticks whose frames go into the file, of 0 .. `ticks` with `period` s each."""
    if path.suffix.lower() == ".png":
        return sorted({round(share * ticks) for share in np.linspace(0.0, 1.0, SHEET_FRAMES)})
    return list(range(0, ticks + 1, max(1, math.ceil(FRAME_S / period - 1e-9))))


def write_film(path: Path, frames: Sequence[np.ndarray], times: Sequence[float]) -> None:
    """Write frames (height, width, 3) uint8 with their times, s, in the form that the name's end says."""
    from PIL import Image

    named = [_with_time(frame, time) for frame, time in zip(frames, times, strict=True)]
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    interval = times[1] - times[0] if len(times) > 1 else FRAME_S
    try:
        if path.suffix.lower() == ".png":
            Image.fromarray(_sheet(named)).save(temporary)
        elif path.suffix.lower() == ".gif":
            pictures = [Image.fromarray(frame).quantize(128) for frame in named]
            pictures[0].save(
                temporary, save_all=True, append_images=pictures[1:], duration=round(1000 * interval), loop=0
            )
        else:
            _ffmpeg(temporary, named, 1.0 / interval)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _with_time(frame: np.ndarray, time: float) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(np.ascontiguousarray(frame))
    draw = ImageDraw.Draw(picture)
    draw.text(
        (8, 6), f"{time:.2f} s", fill="white", stroke_width=2, stroke_fill="black", font=ImageFont.load_default(16)
    )
    return np.asarray(picture)


def _sheet(frames: Sequence[np.ndarray]) -> np.ndarray:
    """Frames in rows, from left to right; the last row is filled up with white."""
    columns = min(SHEET_COLUMNS, len(frames))
    blank = np.full_like(frames[0], 255)
    filled = [*frames, *[blank] * (-len(frames) % columns)]
    return np.concatenate(
        [np.concatenate(filled[first : first + columns], axis=1) for first in range(0, len(filled), columns)], axis=0
    )


def _ffmpeg(path: Path, frames: Sequence[np.ndarray], rate: float) -> None:
    height, width = frames[0].shape[:2]
    source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-")
    command = ("ffmpeg", "-y", "-loglevel", "error", *source, "-pix_fmt", "yuv420p", str(path))
    done = subprocess.run(
        command, input=b"".join(frame.tobytes() for frame in frames), capture_output=True, check=False
    )
    if done.returncode != 0:
        raise FilmError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()}; write a .gif")
