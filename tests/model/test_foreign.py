"""Files that are not models of ours are named, with what to do."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

import circletools as ct
from circletools.model.model import foreign_format
from tests.kit.support import own_models


def archive(*names: str, size: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name in names:
            written.writestr(name, b"x" * size)
    return file.getvalue()


FOREIGN = {
    "ONNX": (b"\x08\x0a\x12\x07pytorch", "an ONNX model", "onnx2tf"),
    "old ONNX": (b"\x08\x03\x12\x02x", "an ONNX model", "onnx2tf"),
    "SavedModel": (b"\x08\x01\x12\xff\x03", "a TensorFlow SavedModel", "TFLiteConverter"),
    "Keras": (archive("metadata.json", "model.weights.h5"), "a Keras model", "TFLiteConverter"),
    "Keras of old": (b"\x89HDF\r\n\x1a\n" + bytes(8), "an HDF5 file", "TFLiteConverter"),
    "PyTorch": (archive("net/data.pkl", "net/data/0", size=1 << 17), "a PyTorch model", "litert-torch"),
    "exported program": (archive("m/archive_format", "m/models/model.json"), "a PyTorch model", "TICO"),
    "PyTorch of old": (b"\x80\x02\x8a\nl\xfc", "a pickle", "PyTorch"),
    "ExecuTorch": (b"\x20\0\0\0ET12" + bytes(8), "an ExecuTorch program", "PyTorch"),
    "task": (archive("pose_detector.tflite", "pose.tflite", size=99), "a bundle of models", "!pose.tflite"),
    "task of an LLM": (archive("TF_LITE_PREFILL_DECODE", "TOKENIZER_MODEL"), "a bundle of models", "unpack"),
    "app": (archive("AndroidManifest.xml", "assets/a.tflite"), "an Android package", "!assets/a.tflite"),
    "other archive": (archive("readme.txt"), "a ZIP archive", "unpack"),
    "litertlm": (b"LITERTLM\1\0\0\0", "a bundle for LiteRT-LM", "litert-lm-peek"),
    "GGUF": (b"GGUF\3\0\0\0", "a GGUF model", "PyTorch"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{}}', "weights in safetensors", "PyTorch"),
    "gzip": (gzip.compress(b"model"), "a file compressed with gzip", "decompress"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(8), "a file compressed with zstd", "decompress"),
    "tar": (b"model.tflite".ljust(257, b"\0") + b"ustar", "a tar archive", "unpack"),
    "HTML": (b"\n<!doctype HTML>\n<html>", "a web page", "download"),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "a git-lfs pointer", "git lfs pull"),
    "OpenVINO": (b'<?xml version="1.0"?>\n<net name="m" version="11">', "an OpenVINO model", "use the model"),
    "JSON": (b'{"schema_version": 1}', "JSON", "name the model"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_not_a_model_is_named(name: str) -> None:
    data, what, how = FOREIGN[name]
    with pytest.raises(ct.ModelFormatError) as caught:
        ct.open(data)
    assert caught.value.message.startswith(what)
    assert caught.value.message.endswith(", not a TFLite or Circle model")
    assert how in str(caught.value.hint)


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x08\x02\x12", b"\x08\x21\x12", b"abcdefgh" * 99, b"<svg>", b"PK"])
def test_what_is_not_known_is_not_named(data: bytes) -> None:
    assert foreign_format(memoryview(data)) is None


def test_the_beginnings_are_none_of_models() -> None:
    assert own_models()
    for path in own_models():
        assert foreign_format(memoryview(path.read_bytes()[:4096])) is None


def test_the_directory_of_an_archive_is_read_from_its_end() -> None:
    """The list of members exists; the first is also at the beginning."""
    behind = archive("a.bin", "model.weights.h5", size=1 << 18)
    assert foreign_format(memoryview(behind)) == foreign_format(memoryview(archive("model.weights.h5")))


def test_no_more_than_64_kib_of_an_archive_are_searched() -> None:
    names = [f"{number:0100}" for number in range(500)]
    first = archive(*names[:9], "model.weights.h5", *names[9:])
    assert len(first) - first.rindex(b"model.weights.h5") in range(70_000, 90_000)
    assert foreign_format(memoryview(first)) == foreign_format(memoryview(archive("readme")))


def test_no_more_than_512_bytes_of_the_beginning_are_searched() -> None:
    for size, found in ((508, True), (509, False)):
        assert (foreign_format(memoryview(b"<?xml ".ljust(size) + b"<net" + bytes(9))) is not None) == found
