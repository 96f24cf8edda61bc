"""Measure which operators copy a tensor bit for bit in the runtimes, and write the table.

    python -m tools.measure.copyops            measure, and write circletools/outputs/copyops.json
    python -m tools.measure.copyops --check    measure, and exit with 1 if the file would change

Each measurement loads and runs a model with one operator, tensor -> operator -> tensor, and compares its output with
its input. A model may crash its runtime, so each runs in a separate process.

The file:

    runtimes        name -> the package that was measured
    source          the origin of the operator versions
    kinds           shape kind -> its meaning; the kinds are the keys of `exact`
    quantizations   the same
    outcomes        the meanings of the words in `otherwise`
    operators       name -> {
      form          the form of the operator in a model
      versions      a list of rules; the first rule that fits a tensor gives the version to write: a rule fits
                    if the type is in `types` and the rank at least `min_rank`, if it has these fields. `since` is
                    the oldest TFLite runtime with this version.
      loads         runtime -> the versions that it accepts for a FLOAT32 matrix, from 1 to 12
      exact         runtime -> type -> quantization -> kind -> the ranks it copies, such as "0-6" or "0,2-4";
                    other ranks are not copied
      otherwise     runtime -> type -> quantization -> kind -> the outcome, as in "prepare 7-8"; one word for
                    a whole type or quantization if its outcomes are all equal
      variants      other ways to write it -> runtime -> kind -> ranks, for FLOAT32
    }

In `exact`, `litert` means a TFLite file, both with and without the default delegate, and `onert` means a file of
either format, if the format has the type.
"""

import argparse
import sys
from pathlib import Path

from tools.measure.copying.cases import FORMS, cases
from tools.measure.copying.probes import measure_all
from tools.measure.copying.table import disagreements, dump, table, version_cases

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "circletools" / "outputs" / "copyops.json"


def main() -> None:
    """Measure, and write the table or compare it with the file."""
    parser = argparse.ArgumentParser(prog="tools.measure.copyops", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the file would change")
    options = parser.parse_args()
    results = measure_all([*cases(), *(case for operator in FORMS for case in version_cases(operator))])
    for line in disagreements(results):
        print(line)
    text = dump(table(results)) + "\n"
    same = TABLE.exists() and TABLE.read_text() == text
    print(f"{TABLE.relative_to(ROOT)}: {'as measured' if same else 'differs' if options.check else 'written'}")
    if options.check:
        sys.exit(not same)
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
