"""`isthmus bundle`: show, verify, diff, sign."""

import os
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from isthmus.deploy.cli import main
from isthmus.policies.bundle import load_bundle
from isthmus.policies.bundle_writer import write_bundle
from isthmus.policies.signature import SignatureError, check_signature, make_key, sign, signature_file

OLD = Path(__file__).parents[1] / "policies" / "data" / "schema1_so101_reach.onnx"


def isthmus(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


@pytest.fixture
def bundle(tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(OLD.read_bytes())
    return path


def rewritten(source, path, **changes):
    """The same graph and golden rows under a changed manifest."""
    bundle = load_bundle(source)
    write_bundle(path, onnx.load(str(source)), replace(bundle.manifest, **changes), bundle.golden)
    return path


def test_show_says_what_decides_on_the_robot(bundle, capsys):
    assert isthmus("bundle", "show", bundle) == 0
    text = capsys.readouterr().out
    for words in (
        "so101-reach for robot so101, 50 Hz",
        "joint-increment",
        "shoulder_pan",
        "4 3 2 1 0",
        "sha256",
        "command.target",
    ):
        assert words in text


def test_verify_replays_and_refuses_a_changed_byte(bundle, capsys):
    assert isthmus("bundle", "verify", bundle) == 0
    assert "64 golden rows replayed" in capsys.readouterr().out
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    assert isthmus("bundle", "verify", bundle) == 2
    assert "damaged or was edited" in capsys.readouterr().err


def test_diff_names_each_value_that_differs(bundle, tmp_path, capsys):
    contract = load_bundle(bundle).manifest.contract
    joint = replace(contract.joints[2], kp=20.5)
    other = rewritten(
        bundle,
        tmp_path / "other.onnx",
        contract=replace(contract, joints=(*contract.joints[:2], joint, *contract.joints[3:]), latency_s=(0.0, 0.1)),
    )
    assert isthmus("bundle", "diff", bundle, other) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "contract.joints[2].kp: 17.8 / 20.5" in lines and "contract.latency_s[1]: 0.045 / 0.1" in lines
    assert len([line for line in lines if line.startswith("contract.")]) == 3
    assert isthmus("bundle", "diff", bundle, bundle) == 0


def test_a_signed_bundle_is_trusted_and_a_changed_one_is_not(bundle, tmp_path, capsys):
    key = tmp_path / "me.pem"
    assert isthmus("bundle", "sign", bundle, "--key", key, "--new-key") == 0
    assert key.stat().st_mode & 0o077 == 0
    assert isthmus("bundle", "verify", bundle, "--trusted", f"{key}.pub") == 0
    rewritten(OLD, bundle, name="another")
    assert isthmus("bundle", "verify", bundle, "--trusted", f"{key}.pub") == 2
    assert "no signature of this very file" in capsys.readouterr().err


def test_signatures_of_others_and_missing_ones_are_refused(bundle, tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for key in (mine, theirs):
        make_key(key)
    with pytest.raises(SignatureError, match="is not signed"):
        check_signature(bundle, Path(f"{mine}.pub"))
    sign(bundle, theirs)
    with pytest.raises(SignatureError, match="somebody else signed it"):
        check_signature(bundle, Path(f"{mine}.pub"))
    for rubbish in (b"", b"\xff\xfe", b"====", b"A" * 10_000):
        signature_file(bundle).write_bytes(rubbish)
        with pytest.raises(SignatureError, match="no signature"):
            check_signature(bundle, Path(f"{theirs}.pub"))


def test_keys_are_never_overwritten_and_other_files_are_no_keys(bundle, tmp_path):
    key = tmp_path / "key"
    make_key(key)
    with pytest.raises(SignatureError, match="never overwritten"):
        make_key(key)
    with pytest.raises(SignatureError, match="no private key"):
        sign(bundle, bundle)
    with pytest.raises(SignatureError, match="no private key"):
        sign(bundle, Path(f"{key}.pub"))
    with pytest.raises(SignatureError, match="no public key"):
        check_signature(bundle, key)
    with pytest.raises(SignatureError, match="cannot be read"):
        sign(bundle, tmp_path / "nothing")


def test_diff_tells_rounding_and_long_lists_in_one_line_each(bundle, tmp_path, capsys):
    contract = load_bundle(bundle).manifest.contract
    rounded = tuple(replace(joint, upper=joint.upper * (1.0 + 3e-8)) for joint in contract.joints)
    one, other = (
        rewritten(bundle, tmp_path / f"{k}.onnx", contract=replace(contract, **changes))
        for k, changes in enumerate(
            (
                {"latency_s": (0.0, 0.045)},
                {"joints": rounded, "latency_s": (0.0, 0.045 * (1 + 1e-8))},
            )
        )
    )
    assert isthmus("bundle", "diff", one, other) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "contract.latency_s: 1 value differs by at most 4.5e-10: rounding" in lines
    assert len([line for line in lines if line.endswith(": rounding")]) == len(contract.joints) + 1 - sum(
        joint.upper == 0 for joint in contract.joints
    )
    assert not any(" / " in line for line in lines)


def test_many_values_of_a_list_are_told_by_their_largest_difference():
    from isthmus.deploy.commands.bundle import _told

    far: list[tuple[str, object, object]] = [(f"a.mean[{k}]", float(k), float(k) + 0.5 + 0.01 * k) for k in range(12)]
    near: list[tuple[str, object, object]] = [(f"a.mean[{k}]", float(k), float(k) * (1 + 1e-7)) for k in range(12, 24)]
    assert list(_told("a.mean", far)) == ["a.mean: 12 values differ by up to 0.61"]
    assert list(_told("a.mean", near)) == ["a.mean: 12 values differ by at most 2.3e-06: rounding"]
    assert list(_told("a.mean", [far[0], near[0]])) == [
        "a.mean: 1 value differs by at most 1.2e-06: rounding",
        "a.mean[0]: 0.0 / 0.5",
    ]
    assert list(_told("name", [("name", "a", "b")])) == ["name: 'a' / 'b'"]


def test_show_gives_units_joint_by_joint():
    from isthmus.deploy.commands.bundle import _units
    from isthmus.policies.contracts import get_contract

    contract = get_contract("cartpole-balance")
    assert _units(contract) == "pole: rad, N m, s; slider: m, N, s"
    assert _units(replace(contract, robot="elsewhere")) == "rad, N m, s where it turns, m, N, s where it slides"
    assert _units(get_contract("so101-reach")) == "rad, N m, s"


def test_what_is_no_file_is_no_key_and_no_bundle(bundle, tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero"), tmp_path / "nothing"):
        assert isthmus("bundle", "sign", bundle, "--key", path) == 2
        assert isthmus("bundle", "verify", bundle, "--trusted", path) == 2
        assert isthmus("bundle", "verify", path) == 2
        said = capsys.readouterr().err
        assert said.count(str(path)) == 3 and said.count("cannot be read") == 2
