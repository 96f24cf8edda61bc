"""Check a statement of `circletool diff --attest --json` without circletools, with only the standard library.

    python docs/attest.py STATEMENT.json OLD NEW [FOLDER WITH THE SCHEMAS]

Exit status 0 if NEW equals OLD except for the parts that the statement names, else 1; 2 if a file cannot be read.
It reads only valid models.
"""

import io
import json
import os
import struct
import sys
import zipfile
from hashlib import blake2b, sha256
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parent.parent / "schema"
SIZES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4}
APART = {"Model": "operator_codes subgraphs buffers metadata metadata_buffer signature_defs", "Tensor": "buffer"}
STATED = {"schema_version", "format", "before", "after", "equal_parts", "changes"}
KINDS = "https://in-toto.io/Statement/v1", "urn:circletools:identical-except:1"
APART["Operator"] = "opcode_index large_custom_options_offset large_custom_options_size"


def digest(*parts):
    """BLAKE2b of 16 bytes over the parts, each after its length as a u64."""
    return blake2b(b"".join(struct.pack("<Q", len(part)) + part for part in parts), digest_size=16).digest()


class File:
    def __init__(self, path, schemas):
        self.data = Path(path).read_bytes()
        self.format = {b"TFL3": "tflite", b"CIR0": "circle"}[self.data[4:8]]
        self.schema = json.loads((schemas / f"{self.format}.json").read_text())
        self.known, self.programs = {}, {}

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def fields(self, name, at):
        """Yield each field present in a table, and its position."""
        vtable = at - struct.unpack_from("<i", self.data, at)[0]
        entries = struct.unpack_from("<H", self.data, vtable)[0] // 2 - 2
        known = {field["slot"] for field in self.schema["tables"][name]["fields"]}
        for slot in range(entries):
            if slot not in known and struct.unpack_from("<H", self.data, vtable + 4 + 2 * slot)[0]:
                raise SystemExit(f"a {name} has a field that the schema does not know")
        for field in self.schema["tables"][name]["fields"]:
            offset = 0
            if field["slot"] < entries:
                offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * field["slot"])[0]
            if offset:
                yield field, at + offset

    def get(self, name, at, wanted):
        """The position of a field, None if it is absent."""
        return next((place for field, place in self.fields(name, at) if field["name"] == wanted), None)

    def items(self, name, at, wanted):
        """The positions of the elements of a vector of tables."""
        place = self.get(name, at, wanted)
        vector = 0 if place is None else place + self.u32(place)
        places = [vector + 4 + 4 * index for index in range(self.u32(vector) if vector else 0)]
        return [place + self.u32(place) for place in places]

    def number(self, name, at, wanted, size=4):
        place = self.get(name, at, wanted)
        return 0 if place is None else int.from_bytes(self.data[place : place + size], "little")

    def table(self, name, at):
        """The digest of a table: slot (u16) and value of each field that is not a default, by slot."""
        if (name, at) not in self.known:
            found = []
            for field, place in self.fields(name, at):
                if field["name"] not in APART.get(name, "").split() and not field.get("deprecated"):
                    value = self.value(field, at, place, name)
                    found += [] if value is None else [struct.pack("<H", field["slot"]), value]
            self.known[name, at] = digest(*found)
        return self.known[name, at]

    def value(self, field, at, place, name):
        kind = field["kind"]
        if kind not in ("string", "vector", "table", "union"):
            size = SIZES.get(kind, 8)
            raw = self.data[place : place + size]
            form = {"float32": "<f", "float64": "<d"}.get(kind)
            default = field["default"]
            return (
                None
                if raw == (struct.pack(form, default) if form else (default % 256**size).to_bytes(size, "little"))
                else raw
            )
        target = place + self.u32(place)
        if kind in ("string", "table"):
            return self.text(target) if kind == "string" else self.table(field["type"], target)
        if kind == "union":
            codes = next(f for f in self.schema["tables"][name]["fields"] if f["slot"] == field["type_slot"])
            code = self.number(name, at, codes["name"], 1)
            return self.table({v: k for k, v in self.schema["unions"][field["union"]].items()}[code], target)
        count, element = self.u32(target), field.get("element", "uint8")
        if count and name == "SubGraph" and field["name"] in ("tensors", "operators"):
            return None  # parts; without any, it is not the same as an absent one
        if element in self.schema["tables"]:
            places = [target + 4 + 4 * index for index in range(count)]
            return b"".join(self.table(element, place + self.u32(place)) for place in places)
        raw = self.data[target + 4 : target + 4 + count * SIZES.get(element, 8)]
        return self.program(at, raw) if field["name"] == "custom_options" and b"bytecode_offset" in raw else raw

    def program(self, table, options):
        """Custom options without the position of a compiled program in the file; the program is a separate item."""
        from flatbuffers import flexbuffers  # noqa: PLC0415 - only these models need it

        held = flexbuffers.GetRoot(options).AsMap
        start, size = held["bytecode_offset"].AsInt, held["bytecode_size"].AsInt
        if start <= 1:
            return options
        place = start.to_bytes(8, "little")
        at = options.find(place) if options.count(place) == 1 else -1
        self.programs[table] = digest((at % 2**64).to_bytes(8, "little"), self.behind(start, size))
        return options if at < 0 else options.replace(place, bytes(8))

    def data_of(self, buffer):
        """The digest of a buffer's data, in the flatbuffer or after it."""
        return digest(*self.bytes_of(buffer)) if 0 <= buffer < len(self.buffers) else digest()

    def entry_of(self, buffer):
        """The digest of metadata, whose readers ignore data outside the flatbuffer."""
        known = 0 <= buffer < len(self.buffers)
        is_inside = known and self.number("Buffer", self.buffers[buffer], "offset", 8) <= 1
        return self.data_of(buffer) if is_inside else digest(self.data_of(buffer), b"", b"")

    def bytes_of(self, buffer):
        """The bytes outside the flatbuffer, if there are any, and those inside."""
        at = self.buffers[buffer]
        start, size = (self.number("Buffer", at, name, 8) for name in ("offset", "size"))
        place = self.get("Buffer", at, "data")
        outside = [self.behind(start, size)] if start > 1 else []
        if place is None:
            return [*outside, b""][: 1 + (start > 1 and not size)]  # LiteRT refuses empty data outside
        vector = place + self.u32(place)
        inside = self.data[vector + 4 :][: self.u32(vector)]
        return [*outside, inside] if outside or inside else [b"", b""]

    def behind(self, start, size):
        """Bytes that must be in the file."""
        if start + size > len(self.data):
            raise SystemExit("data lies outside the file")
        return self.data[start : start + size]

    def parts(self):
        """The digest of each part."""
        root = self.u32(0)
        self.buffers, found = self.items("Model", root, "buffers"), {}
        place = self.get("Model", root, "metadata_buffer")
        at = 0 if place is None else place + self.u32(place)
        named = [] if place is None else [self.u32(at + 4 + 4 * index) for index in range(self.u32(at))]
        codes = [self.table("OperatorCode", at) for at in self.items("Model", root, "operator_codes")]
        graphs = self.items("Model", root, "subgraphs")
        operators = [at for graph in graphs for at in self.items("SubGraph", graph, "operators")]
        unused = sorted({*codes} - {codes[self.number("Operator", at, "opcode_index")] for at in operators})
        found["model"] = digest(self.table("Model", root), *map(self.entry_of, named), *unused)
        for row, graph in enumerate(graphs):
            found[f"subgraphs[{row}]"] = self.table("SubGraph", graph)
            for index, at in enumerate(self.items("SubGraph", graph, "tensors")):
                buffer = self.number("Tensor", at, "buffer")
                held = [self.data_of(buffer)]
                held += [b"0"] if buffer == 0 and held[0] not in (digest(), digest(b"")) else []
                found[f"subgraphs[{row}].tensors[{index}]"] = digest(self.table("Tensor", at), *held)
            for index, at in enumerate(self.items("SubGraph", graph, "operators")):
                code = codes[self.number("Operator", at, "opcode_index")]
                sizes = [
                    self.number("Operator", at, f"large_custom_options_{name}", 8) for name in ("offset", "size")
                ]
                large = [self.behind(*sizes)] if sizes[0] > 1 else []
                items = [self.table("Operator", at), code, *(large if any(large) else [b"", *large])]
                items += [self.programs[at]] if at in self.programs else []
                found[f"subgraphs[{row}].operators[{index}]"] = digest(*items)
        for row, at in enumerate(self.items("Model", root, "signature_defs")):
            found[f"signatures[{row}]"] = self.table("SignatureDef", at)
        for name, at in self.metadata(root):
            found[numbered(found, "metadata", name)] = self.entry_of(self.number("Metadata", at, "buffer"))
        for name, *items in self.files():
            found[numbered(found, "files", name)] = digest(*items)
        return found

    def metadata(self, root):
        """The name of each metadata entry, and its position."""
        for at in self.items("Model", root, "metadata"):
            place = self.get("Metadata", at, "name")
            start = 0 if place is None else place + self.u32(place)
            yield self.text(start) if place else None, at

    def text(self, at):
        """The bytes of a string, which a NUL must follow, since programs stop at the first one."""
        end = at + 4 + self.u32(at)
        if self.data[end : end + 1] != b"\0":
            raise SystemExit("a string without its final NUL")
        return self.data[at + 4 : end]

    def files(self):
        """The name of each file in an archive, its two records without time and position, and its data."""
        if self.data[-65557:].count(b"PK\5\6") > 1:
            raise SystemExit("the archive has a second end record")
        if b"PK\6\7" in self.data[-65557:]:  # minizip takes it before the end record
            raise SystemExit("the archive is a ZIP64 archive")
        try:
            archive = zipfile.ZipFile(io.BytesIO(self.data))
        except zipfile.BadZipFile:
            if b"PK\5\6" in self.data[-65557:]:
                raise SystemExit("the archive cannot be read") from None
            return
        if sum(info.compress_size for info in archive.infolist()) > len(self.data):
            raise SystemExit("files of the archive overlap")
        if len(self.data) - self.data.rindex(b"PK\5\6") > 0xFFFF - 4:
            raise SystemExit("minizip does not find the archive: it ends too far from the end of the file")
        at, count = archive.start_dir, len(archive.infolist())
        end = struct.unpack_from("<4H2L", self.data, self.data.rindex(b"PK\5\6") + 4)
        if end[:4] != (0, 0, count, count) or end[5] != at:
            raise SystemExit("the archive's end contradicts its directory")
        for info in archive.infolist():
            lengths = struct.unpack_from("<3H", self.data, at + 28)
            record, at = self.data[at : at + 46 + sum(lengths)], at + 46 + sum(lengths)
            data = info.header_offset + 30 + sum(struct.unpack_from("<2H", self.data, info.header_offset + 26))
            local, name = self.data[info.header_offset : data], record[46 : 46 + lengths[0]]
            if local[:4] != b"PK\3\4" or local[30 : 30 + len(name)] != name:
                raise SystemExit("the archive's directory points elsewhere")
            items = record[:12] + record[16:42] + record[46:], local[:10] + local[14:]
            yield name, *items, self.data[data : data + info.compress_size]


def numbered(found, kind, name):
    """The path of a part by name; the second part with a name gets a number."""
    plain = "#absent" if name is None else name.decode("utf-8", "surrogateescape").replace("#", "##")
    count = 1
    path = f"{kind}[{plain}]"
    while path in found:
        count += 1
        path = f"{kind}[{plain}#{count}]"
    return path


def whole(parts):
    """The digest of a model: of its parts' names and digests, by name."""
    return digest(
        *(x for name in sorted(parts) for x in (name.encode("utf-8", "surrogateescape"), parts[name]))
    ).hex()


def unique(pairs):
    """A JSON object, whose keys must differ: other programs might read another of two equal ones."""
    if len(dict(pairs)) < len(pairs):
        raise SystemExit("two keys of an object are equal")
    return dict(pairs)


def main(statement, old, new, schemas=SCHEMAS):
    claims = json.loads(Path(statement).read_text(), object_pairs_hook=unique)
    files = [File(path, Path(schemas)) for path in (old, new)]
    source, *result = ({"name": 0, "digest": {"sha256": sha256(file.data).hexdigest()}} for file in files)
    if "predicate" in claims:  # of an in-toto statement
        kinds = claims.pop("_type", ""), claims.pop("predicateType", "")
        subject, predicate = claims.pop("subject"), claims.pop("predicate")
        if kinds != KINDS or claims or [{**one, "name": 0} for one in subject] != result:
            raise SystemExit("not a statement about these files")
        claims = predicate
    if {**claims.pop("from", source), "name": 0} != source:  # only the name may differ
        raise SystemExit("not a statement about these files")
    if {*claims} != STATED or any({*one} != {"part", "before", "after"} for one in claims["changes"]):
        raise SystemExit("the statement says more, or less, than this program checks")
    if claims["schema_version"] != 1:
        raise SystemExit("an unknown version of the statement")
    before, after = (file.parts() for file in files)
    names = sorted({*before, *after})
    found = {name: tuple(side[name].hex() if name in side else None for side in (before, after)) for name in names}
    changes = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    listed = {change["part"]: (change["before"], change["after"]) for change in claims["changes"]}
    wrong = [name for name in sorted({*changes, *listed}) if changes.get(name) != listed.get(name)]
    if (whole(before), whole(after)) != (claims["before"], claims["after"]):
        wrong.append("the digests of the models")
    if {claims["format"]} != {file.format for file in files}:
        wrong.append("the formats")
    if len(listed) < len(claims["changes"]) or claims["equal_parts"] != len(names) - len(changes):
        wrong.append("the number of parts")
    shown = (repr(name)[1:-1] for name in wrong)  # without line ends or other controls
    print("\n".join(f"not as stated: {name}" for name in shown) or f"as stated; changes: {len(changes)}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:]))
    except BrokenPipeError:
        os._exit(1)  # the reader of the output has stopped; an ordinary exit would write again
    except (OSError, ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
        print(f"cannot read it: {error}", file=sys.stderr)
        sys.exit(2)
