"""Files are written whole or not at all, and nobody else's file is touched on the way."""

import os
import threading

import pytest

from isthmus.hardware.files import replacing, write_whole


def test_a_file_is_there_in_full_with_the_usual_rights(tmp_path):
    path = tmp_path / "policy.onnx"
    write_whole(path, b"new")
    mask = os.umask(0)
    os.umask(mask)
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o666 & ~mask
    assert os.listdir(tmp_path) == ["policy.onnx"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_was_there_stays_when_writing_fails(tmp_path, error):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"old")
    with pytest.raises(type(error)), replacing(path) as temporary:
        temporary.write_bytes(b"half")
        raise error
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["policy.onnx"]


def test_an_error_of_the_disk_names_the_file(tmp_path):
    path = tmp_path / "policy.onnx"
    with pytest.raises(OSError, match=r"policy\.onnx"), replacing(path):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "policy.onnx", b"")


def test_neighbours_and_links_are_left_alone(tmp_path):
    secret, neighbour = tmp_path / "secret", tmp_path / "policy.tmp"
    secret.write_bytes(b"secret")
    neighbour.symlink_to(secret)
    write_whole(tmp_path / "policy.onnx", b"new")
    assert secret.read_bytes() == b"secret" and neighbour.is_symlink()


def test_several_may_write_at_once_and_one_of_them_is_there_in_full(tmp_path):
    path, size = tmp_path / "policy.onnx", 200_000
    threads = [threading.Thread(target=write_whole, args=(path, bytes([k]) * size)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = path.read_bytes()
    assert len(data) == size and len(set(data)) == 1 and os.listdir(tmp_path) == ["policy.onnx"]
