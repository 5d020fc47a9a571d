"""The border: what crosses it comes out as it went in and as plain values; whatever else comes in is one clear
error."""

import json
import math
import socket
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.judge.protocol import (
    BOUNDS,
    HEADER,
    BorderError,
    Bounds,
    Closed,
    Endpoint,
    Packer,
    RemoteReference,
    ReplyTimeout,
    Wire,
    read,
)

FUZZ = settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))


def parts(frame: bytes) -> tuple[bytes, bytes]:
    text, blob = HEADER.unpack(frame[: HEADER.size])
    return frame[HEADER.size : HEADER.size + text], frame[HEADER.size + text : HEADER.size + text + blob]


def across(value):
    return read(parts(Packer().frame(value)))


def same(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, (torch.Tensor, np.ndarray)):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("value", [
    None, True, 0, -1, 1 << 200, 1.5, math.inf, -math.inf, math.nan, 2 + 3j, "ü\n", [], (1, [2, (3,)]),
    {1: 2, "a": (1,), None: {}},
    {1, 2}, range(3, 9, 2), slice(1, None, -1), ..., torch.float16, torch.Size([2, 3]), torch.device("cpu"),
    np.float64(1.5), np.int8(3), np.bool_(True), np.arange(6).reshape(2, 3), np.zeros(0),
    torch.tensor(3), torch.zeros(0, 4), torch.ones(2, 3).T, torch.ones(2, dtype=torch.complex128),
    torch.tensor([True, False]), torch.arange(3).to(torch.bfloat16), torch.ones(3).expand(2, 3),
], ids=str)  # fmt: skip # a drawn table
def test_a_value_comes_out_as_it_went_in(value):
    assert same(across(value), value)


def test_one_tensor_twice_stays_one_and_wants_its_gradient():
    x = torch.randn(2, 3, requires_grad=True)
    a, b = across([x, x])
    assert a is b and a.requires_grad and torch.equal(a, x)


def test_a_generator_goes_over_with_its_state():
    source = torch.Generator().manual_seed(7)
    copy = across(source)
    assert torch.equal(torch.randn(3, generator=copy), torch.randn(3, generator=source))


def test_subclasses_come_out_plain():
    class Always(torch.Tensor):
        def __eq__(self, other):
            return True

    class Sly(float):
        def __eq__(self, other):
            return True

    assert type(across(torch.zeros(2).as_subclass(Always))) is torch.Tensor
    assert type(across(torch.nn.Parameter(torch.zeros(2)))) is torch.Tensor
    assert type(across(Sly(0.5))) is float and across(Sly(0.5)) != 0.7


@pytest.mark.parametrize(
    "value",
    [object(), lambda: 0, b"x", torch.nn.Linear(1, 1), np.array([object()])],
    ids=["object", "function", "bytes", "module", "array of objects"],
)
def test_what_has_no_plain_form_does_not_cross(value):
    with pytest.raises(BorderError):
        across(value)


def test_size_depth_and_number_are_bounded():
    deep = []
    for _ in range(50):
        deep = [deep]
    for value in (
        torch.zeros(1 << 25),
        deep,
        [0] * (BOUNDS.nodes + 1),
        [torch.zeros(1) for _ in range(600)],
        "x" * (65 << 20),
    ):
        with pytest.raises(BorderError, match="larger|deeply|parts"):
            across(value)


def test_a_byte_that_is_no_truth_value_is_made_one():
    text, blob = parts(Packer().frame(torch.tensor([True, True])))
    (found,) = [read((text, blob[:-2] + b"\x02\x00"))]
    assert found.tolist() == [True, False] and found.view(torch.uint8).tolist() == [1, 0]


@pytest.mark.parametrize("text", [
    b"", b"{", b"[1]", b'["nothing", 1]', b'{"a": 1}', b"NaN", b'["tensor", 0, false, false]', b'["tensor", -1, 0, 0]',
    b'["dict", [["list", []]], [1]]', b'["dict", [1], []]', b'["dtype", "load"]', b'["range", 0, "x", 1]',
    b'["range", 0, 5, 0]',
    b'["int", "zz"]', b'["float", 5]', b'["complex", ["list", []], 1]', b'["size", ["a"]]', b'["device", "moon:1"]',
    b'["ref", 1]', b"[" * 100_000, b"9" * 10_000, b'["generator", 5]', b'["scalar", 1]', b'["set", [["list", []]]]',
], ids=lambda text: text[:30].decode())  # fmt: skip # a drawn table
def test_a_malformed_frame_is_one_clear_error(text):
    with pytest.raises(BorderError) as caught:
        read((text, b""))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", [b"[],", b"1,", b"[[", b'["list",[]],'], ids=lambda part: part.decode())
def test_a_frame_of_many_parts_is_refused_before_they_are_made(part):
    text = b"[" + part * (12_000_000 // len(part)) + b"1]"
    tracemalloc.start()
    with pytest.raises(BorderError, match="too many parts"):
        read((text, b""))
    assert tracemalloc.get_traced_memory()[1] < 3 * len(text)
    tracemalloc.stop()


def test_commas_and_brackets_in_a_text_are_no_parts():
    text = '[[1, 2], {"a\\": [,]' * 60_000
    assert across([text, text[1:]]) == [text, text[1:]]


def test_a_lie_about_tensors_is_an_error():
    for header in ({"0": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}},
                   {"0": {"dtype": "F32", "shape": [1 << 62, 1 << 62, 0], "data_offsets": [0, 0]}},
                   {"1": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
                   {"0": {"dtype": "PICKLE", "shape": [], "data_offsets": [0, 4]}}):  # fmt: skip # a drawn table
        said = json.dumps(header).encode()
        with pytest.raises(BorderError):
            read((b'["tensor", 0, false, false]', struct.pack("<Q", len(said)) + said + b"1234"))


# ---------------------------------------------------------------- fuzzing

tags = st.sampled_from(["float", "int", "complex", "tensor", "array", "scalar", "size", "list", "tuple", "set", "dict",
                        "range", "slice", "dtype", "device", "generator", "ellipsis", "ref",
                        "home", "?"])  # fmt: skip # a drawn table
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("0x" + "f" * 50)
nodes = st.recursive(leaves, lambda inner: st.tuples(tags, st.lists(inner, max_size=4)).map(lambda two: [two[0],
                                                                                                         *two[1]])
                     | st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
                     max_leaves=25)  # fmt: skip # a drawn table
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers()
    | st.text(alphabet=st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner,
                                                         max_size=4).map(tuple) | st.dictionaries(st.text(max_size=3),
                                                                                                  inner, max_size=4),
    max_leaves=20,
)  # fmt: skip # a drawn table


def survives(text: bytes, blob: bytes) -> None:
    try:
        read((text, blob), resolve=lambda node: None)
    except BorderError as error:
        assert "\n" not in str(error)


@FUZZ
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_a_value_or_a_border_error(text, blob):
    survives(text, blob)


@FUZZ
@given(nodes, st.booleans(), st.binary(max_size=40), st.integers(0, 200))
def test_any_tree_with_any_damaged_tensors_is_a_value_or_a_border_error(node, keep, noise, at):
    _, blob = parts(Packer().frame([torch.arange(6.0), torch.tensor([True, False])]))
    survives(json.dumps(node).encode(), blob if keep else blob[:at] + noise + blob[at + len(noise) :])


@FUZZ
@given(plain)
def test_any_plain_value_crosses_unchanged(value):
    assert same(across(value), value)


# ---------------------------------------------------------------- the wire


def test_the_wire_says_when_nobody_answers_and_when_nobody_is_there():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(ReplyTimeout):
            Wire(ours).receive(0.01)
        theirs.close()
        with pytest.raises(Closed):
            Wire(ours).receive(1)
        with pytest.raises(Closed):
            Wire(ours).send(b"x" * 10_000_000, 1)


def test_a_frame_that_claims_gigabytes_is_refused_before_it_is_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(HEADER.pack(1 << 31, 0))
        with pytest.raises(BorderError, match="larger"):
            Wire(ours).receive(1)


def test_a_full_pipe_does_not_hold_the_sender_for_ever():
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ReplyTimeout):
        Wire(ours, Bounds()).send(b"x" * 50_000_000, 0.05)


def test_objects_stay_at_home_and_a_stand_in_is_sent_home():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        home = Endpoint(Wire(ours), RemoteReference, lambda *_: {})
        away = Endpoint(Wire(theirs), RemoteReference, lambda *_: {})
        home.tell({"it": print, "twice": [len]})
        message = away.hear(1)
        assert repr(message["it"]) == "<object print>" and isinstance(message["twice"][0], RemoteReference)
        away.tell({"back": message["it"]})
        assert home.hear(1)["back"] is print
