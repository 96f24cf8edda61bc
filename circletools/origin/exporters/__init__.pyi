from circletools.origin.exporters.onnx_file import from_onnx as from_onnx
from circletools.origin.exporters.recording import Conversion as Conversion
from circletools.origin.exporters.recording import Recording as Recording
from circletools.origin.exporters.recording import from_exported_program as from_exported_program
from circletools.origin.exporters.recording import record as record
