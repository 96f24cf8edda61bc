"""Measure which operator copies a tensor bit for bit in the runtimes, and keep the table of it.

    python -m tools.measure.copyops            measure, and write circletools/outputs/copyops.json
    python -m tools.measure.copyops --check    measure, and exit with 1 when the file would change

Each measurement is a model with one operator, tensor -> operator -> tensor, that is loaded, run and compared with
what it was fed. A runtime may die of one, so that they run in processes of their own.

The file:

    runtimes        name -> the package that was measured
    source          where the versions of the operators come from
    kinds           shape kind -> what it means; the kinds are the keys of `exact`
    quantizations   as above
    outcomes        what the words in `otherwise` mean
    operators       name -> {
      form          how the operator is written
      versions      a list of rules, of which the first that fits a tensor has the version to write: a rule fits
                    when the type is in `types` and the rank at least `min_rank`, as far as it has them. `since` is
                    the oldest TFLite runtime that has this version.
      loads         runtime -> the versions that it takes, of a FLOAT32 matrix, from 1 to 12
      exact         runtime -> type -> quantization -> kind -> the ranks it copies, such as "0-6" or "0,2-4";
                    what is missing is not copied
      otherwise     runtime -> type -> quantization -> kind -> what happened instead, "prepare 7-8"; one word for
                    a whole type or quantization where all of it ended alike
      variants      other ways to write it -> runtime -> kind -> ranks, for FLOAT32
    }

In `exact`, `litert` means a TFLite file with the default delegate and also without it, `onert` means a file of
either format, as far as the format has the type.
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
    """Measure; write the table, or compare it with the file."""
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
