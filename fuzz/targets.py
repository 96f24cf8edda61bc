"""All targets by name, each with the commands that read the same input."""

from __future__ import annotations

from fuzz import documents, models, pairs, parts, seeds, surgery, tables, traces
from fuzz.mutate import mutate_bytes, mutate_model
from fuzz.target import Target

_MARKS = "trace-stats trace-compare trace-export"
_PLANS = "annotate-affinity partition"
_DUMPS = "dump-origins export-affinity"
TARGETS = {
    target.name: target
    for target in (
        Target("look", models.look, models.model_seeds, mutate_model, "inspect check requires cost"),
        Target(
            "dump",
            models.dump,
            models.model_seeds,
            mutate_model,
            _DUMPS,
        ),
        Target("embed-origins", models.embed_origins, models.model_seeds, mutate_model, "embed-origins"),
        Target(
            "annotate-affinity",
            models.annotate_affinity,
            models.model_seeds,
            mutate_model,
            _PLANS,
        ),
        Target("fix-outputs", models.fix, models.model_seeds, mutate_model, "fix-outputs"),
        Target("metadata", models.strip_all, models.model_seeds, mutate_model, "metadata list get set remove rename"),
        Target("description", models.describe_all, models.model_seeds, mutate_model, "metadata describe labels"),
        Target("compact", models.compact, models.model_seeds, mutate_model, "compact"),
        Target("prune", surgery.pruned, models.model_seeds, mutate_model, "compact"),
        Target("extract", surgery.cut, models.model_seeds, mutate_model, "extract"),
        Target("rename", surgery.named, models.model_seeds, mutate_model, "rename"),
        Target("ends", surgery.ended, models.model_seeds, mutate_model, "signature reorder expose"),
        Target("repair", surgery.repaired, models.model_seeds, mutate_model, "repair"),
        Target("bundles", surgery.bundled, surgery.bundle_seeds, mutate_bytes, "replace"),
        Target("shapes", surgery.shaped, models.model_seeds, mutate_model, "set-shape"),
        Target("page", models.page, models.model_seeds, mutate_model, "report"),
        Target("compare", surgery.cut_out, models.model_seeds, mutate_model, "compare reduce"),
        Target("fit", models.fit_all, models.model_seeds, mutate_model, "fit"),
        Target("baseline", documents.baseline, seeds.baselines, mutate_bytes, "fit"),
        Target("diff", pairs.difference, models.model_seeds, mutate_model, "diff"),
        Target("track-origins", pairs.tracking, models.model_seeds, mutate_model, "track-origins"),
        Target("split", parts.split_model, models.model_seeds, mutate_model, "split verify-split"),
        Target("split-part", parts.replaced_part, parts.part_seeds, mutate_model, "verify-split"),
        Target("split-connections", parts.connections, parts.connections_seeds, mutate_bytes, "verify-split measure"),
        Target("tables", tables.tables, tables.table_seeds, mutate_bytes, "dump-origins partition"),
        Target("origins-json", documents.origins_json, seeds.origins_json, mutate_bytes, "embed-origins"),
        Target("origins-csv", documents.origins_csv, seeds.origins_csv, mutate_bytes, "embed-origins"),
        Target("rules", documents.rules_json, seeds.rules, mutate_bytes, _PLANS),
        Target("part", documents.part, seeds.parts, mutate_bytes, _PLANS),
        Target("capability", documents.capability, seeds.capabilities, mutate_bytes, f"{_PLANS} fit"),
        Target("costs", documents.costs, seeds.costs, mutate_bytes, _PLANS),
        Target("selector", documents.selector, seeds.selectors, mutate_bytes, _PLANS),
        Target("trace-text", traces.marks, seeds.trace_text, mutate_bytes, _MARKS),
        Target("trace-html", traces.marks, seeds.trace_html, mutate_bytes, _MARKS),
        Target("trace-chrome", traces.marks, seeds.trace_chrome, mutate_bytes, _MARKS),
        Target(
            "trace-perfetto",
            traces.marks,
            seeds.trace_perfetto,
            mutate_bytes,
            _MARKS,
        ),
        Target("trace-packed", traces.packed, seeds.trace_text, mutate_bytes, _MARKS),
        Target(
            "operators",
            traces.operators,
            seeds.operator_traces,
            mutate_bytes,
            "profile attribute trace-compare report",
        ),
    )
}
