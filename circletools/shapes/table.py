"""The rule for each operator: the shapes of its outputs as LiteRT computes them in `Prepare`."""

from __future__ import annotations

from circletools.flatbuf.schema import schema_document
from circletools.shapes import layout, windows
from circletools.shapes.call import Rule, broadcast, without

_CODES = {kind: codes.split() for kind, codes in schema_document("litert")["shapes"].items()}

RULES: dict[str, Rule] = {
    **dict.fromkeys(_CODES["same"], lambda call: [call.shape()]),
    **dict.fromkeys(_CODES["broadcast"], lambda call: [broadcast(*call.all_shapes())]),
    **dict.fromkeys(_CODES["reduce"], layout.reduce),
    **dict.fromkeys(_CODES["segments"], lambda call: [(call.number(2), *call.shape()[len(call.shape(1)) :])]),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), windows.pool_2d),
    **dict.fromkeys(
        ("ARG_MAX", "ARG_MIN"), lambda call: [without(call.shape(), call.axis(call.number(1), len(call.shape())))]
    ),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), windows.resize),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), layout.pad),
    **dict.fromkeys(("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), layout.by_value(0)),
    **dict.fromkeys(
        ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"),
        lambda call: [*[(call.number(2),)] * (call.results - 1), ()],
    ),
    **dict.fromkeys(("WHERE", "UNIQUE", "READ_VARIABLE"), layout.unknown),
    "ADD_N": lambda call: [call.one_shape()],
    "ATAN2": lambda call: [broadcast(call.shape(), call.shape(1, len(call.shape())))],
    "BATCH_MATMUL": windows.batch_matmul,
    "BATCH_TO_SPACE_ND": layout.batch_to_space,
    "BIDIRECTIONAL_SEQUENCE_LSTM": windows.recurrent(3, (2, 8, 35, 36), (19, 25, 37, 38)),
    "BROADCAST_ARGS": lambda call: [(max(call.shape(0, 1)[0], call.shape(1, 1)[0]),)],
    "BROADCAST_TO": layout.broadcast_to,
    "CONCATENATION": layout.concatenation,
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), windows.conv_2d),
    "CONV_3D": windows.conv_3d,
    "EMBEDDING_LOOKUP": lambda call: [call.shape(0, 1) + call.shape(1)[1:]],
    "EXPAND_DIMS": lambda call: layout.inserted(call, call.shape(), call.number(1), 1),
    "FULLY_CONNECTED": windows.fully_connected,
    "GATHER": layout.gather,
    "GATHER_ND": layout.gather_nd,
    "HASHTABLE_FIND": lambda call: [call.shape(1)],
    "LSTM": windows.lstm,
    "MATRIX_DIAG": lambda call: [(*call.shape(), *call.shape()[-1:])],
    "MULTINOMIAL": lambda call: [(call.shape(0, 2)[0], call.number(1))],
    "ONE_HOT": lambda call: layout.inserted(call, call.shape(), call.option("axis", -1), call.number(1)),
    "PACK": layout.pack,
    "PRELU": layout.prelu,
    "RANGE": layout.range_,
    "RANK": lambda call: [()],
    "RESHAPE": layout.reshape,
    "RFFT2D": lambda call: [(*call.shape()[:-2], call.numbers(1)[0], call.numbers(1)[-1] // 2 + 1)],
    "RNN": windows.recurrent(2, (1, 4)),
    "SCATTER_ND": layout.scatter_nd,
    "SEGMENT_SUM": layout.segment_sum,
    "SELECT": layout.select,
    "SHAPE": layout.shape_of,
    "SLICE": layout.slice_,
    "SPACE_TO_BATCH_ND": layout.space_to_batch,
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), layout.blocks_of_channels),
    "SPARSE_TO_DENSE": layout.by_value(1),
    "SPLIT": layout.split,
    "SPLIT_V": layout.split_v,
    "SQUEEZE": layout.squeeze,
    "STRIDED_SLICE": layout.strided_slice,
    "SVDF": windows.svdf,
    "TILE": layout.tile,
    "TOPK_V2": layout.top_k,
    "TRANSPOSE": layout.transpose,
    "TRANSPOSE_CONV": windows.transpose_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": windows.full_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": windows.recurrent(3, (1, 4)),
    "UNPACK": layout.unpack,
}
