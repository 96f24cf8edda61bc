"""Where commands and options went that earlier versions had."""

COMMANDS = {
    "attest": "diff --attest",
    "dump-affinity": "partition",
    "explain": "check --explain CODE",
    "extract-origins": "dump-origins --tables DIR",
    "strip-metadata": "metadata remove",
    "verify": "check --structure-only",
}

OPTIONS = {
    "--csv": "--format csv",
    "--glue": "--keep-together",
    "--jsonl": "--format json",
    "--ops": "--operators",
    "--output-format": "--format",
    "--sarif": "--format sarif",
}
