"""The new names of commands and options that earlier versions had."""

COMMANDS = {
    "attest": "diff --attest",
    "dump-affinity": "partition",
    "explain": "check --explain CODE",
    "extract-origins": "dump-origins --tables DIR",
    "strip-metadata": "metadata remove",
    "verify": "check --structure-only",
}

OPTIONS = {
    "--copy-overhead": "overhead_us of --costs FILE",
    "--csv": "--format csv",
    "--explain": "partition --by operator",
    "--glue": "--keep-together",
    "--jsonl": "--format json",
    "--launch": "launch_us of --costs FILE",
    "--ops": "--operators",
    "--output-format": "--format",
    "--sarif": "--format sarif",
    "--what-if": "--set SELECTOR=DEVICE",
}

ALIKE = ({"--for", "--on", "--runtime", "--target", "--with"}, {"--out", "--output", "-o"})
"""Options that are often mistaken for one another."""
