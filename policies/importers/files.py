"""Reading other people's files: within bounds, inside one folder, and without running anything that is in them."""

import gzip
import io
import lzma
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from .common import ImportFailed

MAX_BYTES = 256 * 2**20  # of one file, and of everything that an archive holds
MAX_TEXT = 4 * 2**20
MAX_MEMBERS = 1000
_GZIP = b"\x1f\x8b"


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """A file's content; raises ImportFailed where there is none, or more than `limit` bytes."""
    if not path.is_file():
        raise ImportFailed(f"{path}: no such file")
    if path.stat().st_size > limit:
        raise ImportFailed(f"{path}: {path.stat().st_size} bytes, more than the {limit} that are read")
    return path.read_bytes()


def read_text(path: Path) -> str:
    """A text file's content; raises ImportFailed where it is none."""
    try:
        return read_bytes(path, MAX_TEXT).decode()
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{path}: not a text file: {error}") from None


def toml_tables(path: Path) -> dict[str, Any]:
    """A TOML file's content; raises ImportFailed where it is none, or tables lie too deep in each other."""
    try:
        return tomllib.loads(read_text(path).removeprefix("\ufeff"))  # some editors begin a file with a byte order mark
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ImportFailed(f"{path}: cannot be read as TOML: {error}") from None


def read_onnx(path: Path) -> onnx.ModelProto:
    """An ONNX model with its weights inside, also where the exporter split them into a file beside it.

    Raises:
        ImportFailed: not ONNX, damaged, weights outside the model's own folder or missing, or a weight that is not finite.
    """
    return parse_onnx(read_bytes(path), str(path), path.parent)


def parse_onnx(data: bytes, source: str, folder: Path | None = None) -> onnx.ModelProto:
    """A model from its bytes; split weights are taken from `folder` alone."""
    if not data:
        raise ImportFailed(f"{source}: the file is empty")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise ImportFailed(f"{source}: not an ONNX model, or cut off; nothing else is loaded") from None
    if not model.graph.node or not model.graph.output:
        raise ImportFailed(f"{source}: not an ONNX model: no graph")
    bodies = [node for function in model.functions for node in function.node]
    for tensor in (*_tensors(model.graph), *(tensor for node in bodies for tensor in _in_node(node))):
        if tensor.data_location == TensorProto.EXTERNAL:
            _take_in(tensor, source, folder)
        _check_finite(tensor, source)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
        raise ImportFailed(f"{source}: not a valid ONNX model: {error}") from None
    return model


def _tensors(graph: onnx.GraphProto) -> Iterable[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from _in_node(node)


def _in_node(node: onnx.NodeProto) -> Iterable[TensorProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            yield attribute.t
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from _tensors(attribute.g)


def _take_in(tensor: TensorProto, source: str, folder: Path | None) -> None:
    """Put split weights back into the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None or location in ("", ".", "..") or location != Path(location).name or "\\" in location:
        raise ImportFailed(
            f"{source}: weight {tensor.name!r} lies at {location!r}; only a file in the model's own folder is read"
        )
    path = folder / location
    if path.is_symlink():
        raise ImportFailed(f"{path}: a link; only a file in the model's own folder is read")
    data = read_bytes(path)
    try:
        start = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(len(data) - start)))
    except ValueError:
        raise ImportFailed(f"{source}: weight {tensor.name!r}: offset and length must be numbers") from None
    if start < 0 or length < 0 or start + length > len(data):
        raise ImportFailed(
            f"{path}: {len(data)} bytes, weight {tensor.name!r} needs {start} .. {start + length}: cut off"
        )
    tensor.raw_data = data[start : start + length]
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _check_finite(tensor: TensorProto, source: str) -> None:
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ImportFailed(f"{source}: weight {tensor.name!r} cannot be read: {error}") from None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ImportFailed(f"{source}: weight {tensor.name!r} is not finite: the training diverged; do not run it")


def read_archive(path: Path) -> dict[str, bytes]:
    """Every regular file of a zip or tar archive by name; nothing is written to disk.

    Raises:
        ImportFailed: damaged, a name that leads out of the archive, a link, or more data than is read.
    """
    data = read_bytes(path)
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            return _read_zip(data, path)
        return _read_tar(data, path)
    except ImportFailed:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError) as error:
        raise ImportFailed(f"{path}: not an archive that can be read: {error}") from None
    except (EOFError, OSError, RuntimeError, ValueError) as error:  # of places that lie outside the file
        raise ImportFailed(f"{path}: not an archive that can be read: {error}") from None


def _read_zip(data: bytes, path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [info for info in archive.infolist() if not info.is_dir()]
        _check_members(path, [(info.filename, info.file_size) for info in members])
        contents = dict[str, bytes]()
        for info in members:
            with archive.open(info) as file:
                contents[info.filename] = _read_bounded(file, info.file_size, path)
        return contents


def _gunzipped(data: bytes, path: Path) -> bytes:
    """What a gzip file holds, its checksum checked; tarfile, which reads as a stream, does not check it."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        content = stream.read(2 * MAX_BYTES)
    if len(content) == 2 * MAX_BYTES:
        raise ImportFailed(f"{path}: unpacks to more than the {MAX_BYTES} bytes that are read")
    return content


def _read_tar(data: bytes, path: Path) -> dict[str, bytes]:
    data = _gunzipped(data, path) if data.startswith(_GZIP) else data
    contents, total = dict[str, bytes](), 0
    with tarfile.open(
        fileobj=io.BytesIO(data), mode="r|*"
    ) as archive:  # a stream: nothing is unpacked before it is counted
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise ImportFailed(f"{path}: {member.name!r} is a link or a device; expected plain files")
            total += member.size
            _check_members(path, [*((name, 0) for name in contents), (member.name, total)])
            file = archive.extractfile(member)
            contents[member.name] = b"" if file is None else file.read()
    return contents


def _read_bounded(file: IO[bytes], size: int, path: Path) -> bytes:
    data = file.read(size + 1)  # a header may lie about its size
    if len(data) > size:
        raise ImportFailed(f"{path}: a file is larger than the archive says")
    return data


def _check_members(path: Path, members: list[tuple[str, int]]) -> None:
    names = [name for name, _ in members]
    unsafe = [n for n in names if PurePosixPath(n).is_absolute() or ".." in PurePosixPath(n).parts or "\\" in n]
    if unsafe:
        raise ImportFailed(f"{path}: {unsafe} lead out of the archive")
    if len(set(names)) != len(names):
        raise ImportFailed(f"{path}: two files of one name")
    total = sum(size for _, size in members)
    if total > MAX_BYTES or len(members) > MAX_MEMBERS:
        raise ImportFailed(
            f"{path}: {len(members)} files of {total} bytes, more than {MAX_MEMBERS} of {MAX_BYTES} in all"
        )


def metadata(model: onnx.ModelProto) -> dict[str, str]:
    """The model's properties; raises ImportFailed where they are no text, which protocol buffers give as bytes."""
    odd = [words for entry in model.metadata_props for words in (entry.key, entry.value) if not isinstance(words, str)]
    if odd:
        raise ImportFailed(f"the model's properties are no text: {odd[0][:40]!r}; the file is damaged, get it again")
    return {entry.key: entry.value for entry in model.metadata_props}
