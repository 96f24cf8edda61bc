"""The nearest peer of `inspect`: print every operator with its output names, using the generated accessors.

python benchmarks/peer.py MODEL.tflite
"""

import mmap
import sys
from pathlib import Path

import tflite


def main() -> None:
    """Print the operators of the model."""
    with Path(sys.argv[1]).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        model = tflite.Model.GetRootAsModel(data, 0)
        codes = [model.OperatorCodes(index).BuiltinCode() for index in range(model.OperatorCodesLength())]
        for at in range(model.SubgraphsLength()):
            graph = model.Subgraphs(at)
            names = [graph.Tensors(index).Name() for index in range(graph.TensorsLength())]
            for index in range(graph.OperatorsLength()):
                operator = graph.Operators(index)
                outputs = operator.OutputsAsNumpy().tolist() if operator.OutputsLength() else []
                print(index, codes[operator.OpcodeIndex()], *(names[output] for output in outputs))


if __name__ == "__main__":
    main()
