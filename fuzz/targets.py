"""All targets by name."""

from __future__ import annotations

from fuzz import documents, models, pairs, parts, seeds, tables, traces
from fuzz.mutate import mutate_bytes, mutate_model
from fuzz.target import Target

TARGETS = {
    target.name: target
    for target in (
        Target("look", models.look, models.model_seeds, mutate_model),
        Target("dump", models.dump, models.model_seeds, mutate_model),
        Target("embed-origins", models.embed_origins, models.model_seeds, mutate_model),
        Target("annotate-affinity", models.annotate_affinity, models.model_seeds, mutate_model),
        Target("fix-outputs", models.fix, models.model_seeds, mutate_model),
        Target("strip-metadata", models.strip_all, models.model_seeds, mutate_model),
        Target("compact", models.compact, models.model_seeds, mutate_model),
        Target("page", models.page, models.model_seeds, mutate_model),
        Target("diff", pairs.difference, models.model_seeds, mutate_model),
        Target("track-origins", pairs.tracking, models.model_seeds, mutate_model),
        Target("split", parts.split_model, models.model_seeds, mutate_model),
        Target("split-part", parts.replaced_part, parts.part_seeds, mutate_model),
        Target("split-connections", parts.connections, parts.connections_seeds, mutate_bytes),
        Target("tables", tables.tables, tables.table_seeds, mutate_bytes),
        Target("origins-json", documents.origins_json, seeds.origins_json, mutate_bytes),
        Target("origins-csv", documents.origins_csv, seeds.origins_csv, mutate_bytes),
        Target("rules", documents.rules_json, seeds.rules, mutate_bytes),
        Target("part", documents.part, seeds.parts, mutate_bytes),
        Target("capability", documents.capability, seeds.capabilities, mutate_bytes),
        Target("costs", documents.costs, seeds.costs, mutate_bytes),
        Target("run-log", documents.run_log, seeds.logs, mutate_bytes),
        Target("selector", documents.selector, seeds.selectors, mutate_bytes),
        Target("trace-text", traces.marks, seeds.trace_text, mutate_bytes),
        Target("trace-html", traces.marks, seeds.trace_html, mutate_bytes),
        Target("trace-chrome", traces.marks, seeds.trace_chrome, mutate_bytes),
        Target("trace-perfetto", traces.marks, seeds.trace_perfetto, mutate_bytes),
        Target("trace-packed", traces.packed, seeds.trace_text, mutate_bytes),
        Target("operators", traces.operators, seeds.operator_traces, mutate_bytes),
    )
}
