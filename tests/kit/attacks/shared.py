"""Models whose objects stand in many places: the verifier takes them, and they describe gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.kit.attacks.attack import u32s
from tests.kit.build import Raw

MEBIBYTE = 1 << 20
_MANY, _SOME = 20_000, 5_000
Fields = dict[int, int | tuple[str, int]]


class Sharing(Raw):
    """Writes tables of TFLite by their slots; objects used in many places are written once."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.none = self.ints([0]), self.ints([])

    def tensor(self, **fields: int | tuple[str, int]) -> int:
        """Write a tensor; of its fields the name, shape and others are offsets."""
        slots = {"shape": 0, "type": 1, "buffer": 2, "name": 3, "quantization": 4, "sparsity": 6, "signature": 7}
        plain: Fields = {0: self.one, 1: ("i8", 0), 2: ("u32", 0), 3: self.string("x")}
        return self.table(plain | {slots[name]: value for name, value in fields.items()})

    def operator(self, inputs: int = 0, outputs: int = 0, more: Fields | None = None) -> int:
        """Write an operator; all three are offsets."""
        return self.table({0: ("u32", 0), 1: inputs or self.one, 2: outputs or self.none, **(more or {})})

    def graph(self, tensors: Sequence[int], operators: Sequence[int] = (), more: Fields | None = None) -> int:
        """Write a subgraph."""
        listed = {0: self.refs(tensors), 1: self.one, 2: self.one, 3: self.refs(operators)}
        return self.table(listed | (more or {}))

    def code(self, number: int = 0, custom: int = 0) -> int:
        """Write an operator code."""
        return self.table(
            {0: ("i8", min(number, 127)), 2: ("i32", 1), 3: ("i32", number), **({1: custom} if custom else {})}
        )

    def file(self, graphs: Sequence[int], more: Fields | None = None) -> bytes:
        """Return the file; `more` of the root by slot."""
        plain: Fields = {
            0: ("u32", 3),
            1: self.refs([self.code()]),
            2: self.refs(graphs),
            4: self.refs([self.table()]),
        }
        return self.finish(self.table(plain | (more or {})))

    def staggered(self, count: int, slot: int, each: Callable[[int], Fields], length: int = MEBIBYTE) -> list[int]:
        """Write tables whose vectors in `slot` begin a few bytes apart and overlap."""
        region = self.data(np.full(count + length // 4 * 4, length, "<u4").tobytes())
        return [self.table({**each(index), slot: region - 4 - 4 * index}) for index in range(count)]

    def plain(self, operators: Sequence[int] = (), more: Fields | None = None, tensors: Sequence[int] = ()) -> bytes:
        """Return a file with one subgraph."""
        return self.file([self.graph(tensors or [self.tensor()], operators)], more)


def names_of_tensors(raw: Sharing) -> bytes:
    """20,000 tensors share a name of 64 KiB."""
    name = raw.string("n" * (1 << 16))
    return raw.plain([raw.operator()], tensors=[raw.tensor(name=name) for _ in range(_MANY)])


def names_that_overlap(raw: Sharing) -> bytes:
    """Names of a megabyte begin four bytes apart."""
    plain: Fields = {0: raw.one, 1: ("i8", 0), 2: ("u32", 0)}
    return raw.plain(tensors=raw.staggered(_SOME, 3, lambda _: plain, 1 << 18))


def one_tensor_in_many_places(raw: Sharing) -> bytes:
    """A tensor with a name of a megabyte is used in 200,000 places."""
    return raw.plain([raw.operator()], tensors=[raw.tensor(name=raw.string("n" * MEBIBYTE))] * 200_000)


def one_operator_in_many_places(raw: Sharing) -> bytes:
    """An operator is used in 500,000 places."""
    return raw.plain([raw.operator()] * 500_000)


def operator_with_long_inputs(raw: Sharing) -> bytes:
    """An operator of 1,000 inputs is used in 20,000 places."""
    return raw.plain([raw.operator(raw.ints([0] * 1000))] * _MANY)


def inputs_of_operators(raw: Sharing) -> bytes:
    """5,000 operators share a list of 200,000 inputs."""
    inputs = raw.ints([0] * 200_000)
    return raw.plain([raw.operator(inputs) for _ in range(_SOME)])


def outputs_of_operators(raw: Sharing) -> bytes:
    """5,000 operators share a list of 2,000 outputs."""
    outputs = raw.ints(range(2000))
    return raw.plain(
        [raw.operator(raw.one, outputs) for _ in range(_SOME)], tensors=[raw.tensor() for _ in range(2000)]
    )


def intermediates(raw: Sharing) -> bytes:
    """5,000 operators share a list of 200,000 intermediates."""
    held = raw.ints([0] * 200_000)
    return raw.plain([raw.operator(more={8: held}) for _ in range(_SOME)])


def shapes(raw: Sharing) -> bytes:
    """20,000 tensors share a shape of 100,000 dimensions."""
    held = raw.ints([1] * 100_000)
    return raw.plain([raw.operator()], tensors=[raw.tensor(shape=held) for _ in range(_MANY)])


def shapes_that_overlap(raw: Sharing) -> bytes:
    """Shapes of 100,000 dimensions begin four bytes apart."""
    name = raw.string("x")
    return raw.plain(tensors=raw.staggered(_SOME, 0, lambda _: {1: ("i8", 0), 2: ("u32", 0), 3: name}, 100_000))


def quantizations(raw: Sharing) -> bytes:
    """20,000 quantizations share 100,000 scales."""
    scales, zeros = raw.ints([0x3F800000] * 100_000), raw.ints([])
    each = [raw.table({2: scales, 3: zeros}) for _ in range(_MANY)]
    return raw.plain([raw.operator()], tensors=[raw.tensor(quantization=at, type=("i8", 9)) for at in each])


def sparsities(raw: Sharing) -> bytes:
    """20,000 tensors share a sparsity whose orders have 200,000 numbers, and a dimension in 40 places."""
    order = raw.ints([0] * 200_000)
    dimension = raw.table({0: ("i8", 0), 1: ("i32", 1)})
    held = raw.table({0: order, 1: order, 2: raw.refs([dimension] * 40)})
    return raw.plain([raw.operator()], tensors=[raw.tensor(sparsity=held) for _ in range(_MANY)])


def custom_codes(raw: Sharing) -> bytes:
    """5,000 operator codes share a name of a megabyte, and each operator has one."""
    name = raw.string("c" * MEBIBYTE)
    operators = [raw.table({0: ("u32", index), 1: raw.one, 2: raw.none}) for index in range(_SOME)]
    return raw.plain(operators, {1: raw.refs([raw.code(32, name) for _ in range(_SOME)])})


def code_of_many_operators(raw: Sharing) -> bytes:
    """20,000 operators are of one custom code with a name of 64 KiB."""
    codes = raw.refs([raw.code(32, raw.string("c" * (1 << 16)))])
    outputs = [raw.ints([index + 1]) for index in range(_MANY)]
    operators = [raw.operator(raw.one, at) for at in outputs]
    return raw.plain(operators, {1: codes}, [raw.tensor() for _ in range(_MANY + 1)])


def name_of_many_readers(raw: Sharing) -> bytes:
    """20,000 operators read a tensor with a name of 64 KiB."""
    outputs = [raw.ints([index + 1]) for index in range(_MANY)]
    operators = [raw.operator(raw.one, at) for at in outputs]
    tensors = [raw.tensor(name=raw.string("n" * (1 << 16))), *(raw.tensor() for _ in range(_MANY))]
    return raw.plain(operators, tensors=tensors)


def subgraphs(raw: Sharing) -> bytes:
    """A subgraph of 900 operators is used in 1,000 places."""
    graph = raw.graph([raw.tensor()], [raw.operator() for _ in range(900)])
    return raw.file([graph] * 1000)


def one_tensor_of_many_outputs(raw: Sharing) -> bytes:
    """A tensor is in 250,000 slots of the outputs."""
    return raw.file([raw.graph([raw.tensor()], [raw.operator()], {2: raw.ints([0] * 250_000)})])


def tensors_of_subgraphs(raw: Sharing) -> bytes:
    """900 subgraphs share a list of 1,000 tensors."""
    tensors, operators = raw.refs([raw.tensor() for _ in range(1000)]), raw.refs([raw.operator()])
    each = {0: tensors, 1: raw.one, 2: raw.one, 3: operators}
    return raw.file([raw.table(each) for _ in range(900)])


def signatures(raw: Sharing) -> bytes:
    """A signature with a key of a megabyte is used in 100,000 places."""
    entry = raw.table({2: raw.string("k" * MEBIBYTE), 4: ("u32", 0)})
    return raw.plain([raw.operator()], {7: raw.refs([entry] * 100_000)})


def small_entries(raw: Sharing) -> bytes:
    """A signature and a metadata entry stand in 130,000 places, an operator code in 65,000."""
    signature = raw.table({2: raw.string("k"), 4: ("u32", 0)})
    metadata = raw.table({0: raw.string("m"), 1: ("u32", 0)})
    places = {1: [raw.code()] * 65_000, 6: [metadata] * 130_000, 7: [signature] * 130_000}
    return raw.plain([raw.operator()], {slot: raw.refs(each) for slot, each in places.items()})


def maps_of_signatures(raw: Sharing) -> bytes:
    """1,000 signatures share 900 inputs, each with a name of 1,000 characters."""
    held = raw.refs([raw.table({0: raw.string(f"{at:01000}"), 1: ("u32", 0)}) for at in range(900)])
    entries = [raw.table({0: held, 2: raw.string(f"k{at}"), 4: ("u32", 0)}) for at in range(1000)]
    return raw.plain([raw.operator()], {7: raw.refs(entries)})


def values_of_metadata(raw: Sharing) -> bytes:
    """20,000 metadata entries name one buffer of a megabyte."""
    buffers = raw.refs([raw.table(), raw.table({0: raw.data(bytes(MEBIBYTE))})])
    entries = [raw.table({0: raw.string(f"m{at}"), 1: ("u32", 1)}) for at in range(_MANY)]
    return raw.plain([raw.operator()], {4: buffers, 6: raw.refs(entries)})


def one_buffer_in_many_places(raw: Sharing) -> bytes:
    """A buffer of a megabyte is used in 50,000 places, each for a tensor."""
    buffers = raw.refs([raw.table(), *[raw.table({0: raw.data(b"y" * MEBIBYTE)})] * 50_000])
    shape = raw.ints([MEBIBYTE])
    tensors = [raw.tensor(shape=shape, type=("i8", 9), buffer=("u32", at + 1)) for at in range(50_000)]
    return raw.plain([raw.operator()], {4: buffers}, tensors)


def data_of_buffers(raw: Sharing) -> bytes:
    """5,000 buffers share a megabyte, each for a tensor that an operator reads."""
    data, shape = raw.data(b"y" * MEBIBYTE), raw.ints([MEBIBYTE])
    buffers = raw.refs([raw.table(), *(raw.table({0: data}) for _ in range(_SOME))])
    tensors = [raw.tensor(), *(raw.tensor(shape=shape, buffer=("u32", at + 1)) for at in range(_SOME))]
    operators = [raw.operator(raw.ints([at + 1])) for at in range(_SOME)]
    return raw.plain(operators, {4: buffers}, tensors)


def one_buffer_of_many_tensors(raw: Sharing) -> bytes:
    """20,000 tensors have one buffer of a megabyte."""
    buffers, shape = raw.refs([raw.table(), raw.table({0: raw.data(b"y" * MEBIBYTE)})]), raw.ints([MEBIBYTE])
    tensors = [raw.tensor(shape=shape, type=("i8", 9), buffer=("u32", 1)) for _ in range(_MANY)]
    return raw.plain([raw.operator()], {4: buffers}, tensors)


def buffers_that_overlap(raw: Sharing) -> bytes:
    """Buffers of a megabyte begin four bytes apart, each for a tensor."""
    buffers = [raw.table(), *raw.staggered(_SOME, 0, lambda _: {}, MEBIBYTE)]
    shape = raw.ints([MEBIBYTE])
    tensors = [raw.tensor(shape=shape, type=("i8", 9), buffer=("u32", at + 1)) for at in range(_SOME)]
    return raw.plain([raw.operator()], {4: raw.refs(buffers)}, tensors)


def options_that_overlap(raw: Sharing) -> bytes:
    """Custom options of a megabyte begin four bytes apart."""
    each: Fields = {0: ("u32", 0), 1: raw.one, 2: raw.none}
    return raw.plain(raw.staggered(_SOME, 5, lambda _: each))


def vectors_in_options(raw: Sharing) -> bytes:
    """5,000 RESHAPEs share a new shape of 200,000 dimensions."""
    shape = raw.ints([1] * 200_000)
    each = [raw.operator(more={3: ("u8", 17), 4: raw.table({0: shape})}) for _ in range(_SOME)]
    return raw.plain(each, {1: raw.refs([raw.code(22)])})


def strings_in_options(raw: Sharing) -> bytes:
    """5,000 VAR_HANDLEs share a name of a megabyte."""
    name = raw.string("v" * MEBIBYTE)
    each = [raw.operator(more={3: ("u8", 111), 4: raw.table({0: name, 1: name})}) for _ in range(_SOME)]
    return raw.plain(each, {1: raw.refs([raw.code(142)])})


def vtables_that_overlap(raw: Sharing) -> bytes:
    """20,000 buffers whose vtables of 64 KB overlap."""
    region = raw.data(np.array([65532, *[0] * 15] * (_MANY + 2050), "<u2").tobytes())
    # The distance from a table to its vtable is its first number; the tables are written in front of the region.
    tables = []
    for index in range(_MANY):
        raw.builder.Prep(4, 0)
        at = raw.builder.Offset() + 4
        raw.builder.PrependInt32(-(at - (region - 4 - 32 * index)))
        tables.append(raw.builder.Offset())
    return raw.plain([raw.operator()], {4: raw.refs([raw.table(), *tables])})


def calls(raw: Sharing) -> bytes:
    """30 subgraphs, each with two WHILEs of the next: a thousand million ways."""
    graphs = []
    for index in range(30):
        bodies: Fields = {3: ("u8", 92), 4: raw.table({0: ("i32", index + 1), 1: ("i32", index + 1)})}
        graphs.append(raw.graph([raw.tensor()], [raw.operator(more=bodies)] * 2 if index < 29 else []))
    return raw.file(graphs, {1: raw.refs([raw.code(119)])})


def cases(raw: Sharing) -> bytes:
    """1,000 STABLEHLO_CASEs share a list of 100,000 branches."""
    branches = raw.ints([1] * 100_000)
    more: list[Fields] = [{11: ("u8", 23), 12: raw.table({0: branches})} for _ in range(1000)]
    graphs = [raw.graph([raw.tensor()], [raw.operator(more=each) for each in more]), raw.graph([raw.tensor()])]
    return raw.file(graphs, {1: raw.refs([raw.code(209)])})


def graphs_that_call_each_other(raw: Sharing) -> bytes:
    """900 subgraphs have a STABLEHLO_CASE each, which share a list of all of them."""
    more: Fields = {11: ("u8", 23), 12: raw.table({0: raw.ints(range(900))})}
    graphs = [raw.graph([raw.tensor()], [raw.operator(more=more)]) for _ in range(900)]
    return raw.file(graphs, {1: raw.refs([raw.code(209)])})


def source_of_many_operators(raw: Sharing) -> bytes:
    """20,000 operators come from a source with a name of 64 KiB."""
    name = b"torch.nn." + b"s" * (1 << 16)
    source = b"\1\0\0\0\0\0\0\0" + len(name + b"\0").to_bytes(4, "little") + name + b"\0"
    table = u32s(_MANY, *(number for operator in range(_MANY) for number in (operator, 1, 0)))
    buffers = [raw.table(), *(raw.table({0: raw.data(data)}) for data in (source, table))]
    entries = [
        raw.table({0: raw.string(entry), 1: ("u32", at)})
        for at, entry in ((1, "ONE_source_table"), (2, "ONE_op_table"))
    ]
    outputs = [raw.ints([index + 1]) for index in range(_MANY)]
    operators = [raw.operator(raw.one, at) for at in outputs]
    more: Fields = {4: raw.refs(buffers), 6: raw.refs(entries)}
    return raw.plain(operators, more, [raw.tensor() for _ in range(_MANY + 1)])


def codes_of_operators(raw: Sharing) -> bytes:
    """12,000 operators, each of a custom code of its own."""
    codes = raw.refs([raw.code(32, raw.string(f"c{at}")) for at in range(12_000)])
    operators = [raw.table({0: ("u32", at), 1: raw.one, 2: raw.ints([at + 1])}) for at in range(12_000)]
    return raw.plain(operators, {1: codes}, [raw.tensor() for _ in range(12_001)])


def results_of_operators(raw: Sharing) -> bytes:
    """12,000 operators, whose results are all outputs."""
    operators = [raw.operator(outputs=raw.ints([at + 1])) for at in range(12_000)]
    return raw.file([raw.graph([raw.tensor() for _ in range(12_001)], operators, {2: raw.ints(range(1, 12_001))})])


def results_of_one_operator(raw: Sharing) -> bytes:
    """An operator computes 12,000 tensors."""
    return raw.plain([raw.operator(outputs=raw.ints(range(1, 12_001)))], {}, [raw.tensor() for _ in range(12_001)])


def handles_of_a_variable(raw: Sharing) -> bytes:
    """2,000 operators name one variable, which 2,000 others write."""
    named: Fields = {3: ("u8", 111), 4: raw.table({1: raw.string("v")})}
    ends = [raw.ints([at + 1]) for at in range(2000)]
    operators = [raw.operator(raw.none, at, named) for at in ends]
    operators += [raw.table({0: ("u32", 1), 1: raw.ints([at + 1, 0]), 2: raw.none}) for at in range(2000)]
    tensors = [raw.tensor(), *(raw.tensor(type=("i8", 13)) for _ in ends)]
    return raw.plain(operators, {1: raw.refs([raw.code(142), raw.code(144)])}, tensors)


def tables_of_four_bytes(raw: Sharing) -> bytes:
    """200,000 operators without fields, which have one vtable."""
    region = raw.data(u32s(4 << 16 | 4, *range(4, 800_004, 4)))
    return raw.plain(range(region - 8, region - 800_008, -4))


SHARED: dict[str, Callable[[Sharing], bytes]] = {
    make.__name__: make
    for make in (
        names_of_tensors, names_that_overlap, one_tensor_in_many_places, one_operator_in_many_places,
        operator_with_long_inputs, inputs_of_operators, outputs_of_operators, intermediates,
        shapes, shapes_that_overlap, quantizations, sparsities, custom_codes,
        code_of_many_operators, name_of_many_readers, subgraphs,
        one_tensor_of_many_outputs, tensors_of_subgraphs, signatures,
        small_entries, maps_of_signatures,
        values_of_metadata, one_buffer_in_many_places, data_of_buffers, one_buffer_of_many_tensors,
        buffers_that_overlap, options_that_overlap, vectors_in_options, strings_in_options, vtables_that_overlap,
        calls, cases, graphs_that_call_each_other, source_of_many_operators, codes_of_operators,
        results_of_operators, results_of_one_operator, handles_of_a_variable, tables_of_four_bytes,
    )
}  # fmt: skip


def shared_file(name: str) -> bytes:
    """Return one of the files."""
    return SHARED[name](Sharing())
