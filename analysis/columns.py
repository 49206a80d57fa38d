"""The columns of trials.csv: name, type, unit, meaning, and when a value may be missing.

An empty cell means "not measured"; 0 is a measurement. The order here is the order in the file. Settings that a study
swept and that are no column here follow at the end, named after the setting with dots as underscores.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column: `dtype` is str, Int64, float64 or boolean (pandas' names); `unit` is empty for names and labels."""

    name: str
    dtype: str
    unit: str
    meaning: str
    missing: str


_NEVER = "never"
_NOT_REACHED = "the trial ended before it"
_NOT_OK = "the outcome is not ok"
_UNREADABLE = "the counter cannot be read here, or the trial ended before it"
_POOLED = "a pool lies above malloc, no CPU, or the trial ended before it"
_NO_PLAN = "no compiler's plan was asked for, or this compiler does not say"

#: The columns that other programs may rely on, in this order.
CONTRACT = (
    Column("trial_id", "str", "", "hash of condition, block and study seed", _NEVER),
    Column("block", "Int64", "", "block number; every condition runs once a block", _NEVER),
    Column("order", "Int64", "", "place in the block's shuffled order", _NEVER),
    Column("framework", "str", "", "jax or tf", _NEVER),
    Column("framework_version", "str", "", "version that ran", _NOT_REACHED),
    Column("compile", "str", "", "jit (jax), xla or graph (tf)", _NEVER),
    Column("device", "str", "", "cpu, gpu or tpu", _NEVER),
    Column("chip", "str", "", "chip that was asked for", "no chip was named"),
    Column("allocation", "str", "", "allocation mode that was asked for", _NEVER),
    Column("allocation_effective", "str", "", "mechanism that really served the memory, read back", _NOT_REACHED),
    Column("workload", "str", "", "workload page", _NEVER),
    Column("batch_size", "Int64", "examples", "examples a step", _NEVER),
    Column("dtype", "str", "", "number format of the workload", _NEVER),
    Column("evidence", "str", "", "measured, or compiled (predicted for a chip that is not there)", _NEVER),
    Column("outcome", "str", "", "ok, oom, crash, timeout, unavailable, not_applicable, config or invalid", _NEVER),
    Column("phase", "str", "", "phase in which the trial ended; teardown where it ended ok", _NEVER),
    Column("reason", "str", "", "short reason of an outcome that is not ok", "the outcome is ok"),
    Column("step_seconds", "float64", "s", "the trial's value: median window ÷ steps per window", _NOT_OK),
    Column("examples_per_second", "float64", "1/s", "examples a step ÷ step_seconds", _NOT_OK),
    Column("compile_seconds", "float64", "s", "trace, lower and compile together (see compile_method)", _NOT_REACHED),
    Column("first_step_seconds", "float64", "s", "request to trace until the first step's results exist", _NOT_REACHED),
    Column("host_baseline_bytes", "Int64", "B", "resident memory after import, before the workload", _UNREADABLE),
    Column("host_peak_bytes", "Int64", "B", "highest resident memory of the trial's process", _UNREADABLE),
    Column(
        "device_live_peak_bytes", "Int64", "B", "highest bytes in use by arrays, as the allocator says", _UNREADABLE
    ),
    Column("device_pool_peak_bytes", "Int64", "B", "highest bytes held by the allocator's pool", _UNREADABLE),
    Column("process_peak_bytes", "Int64", "B", "highest bytes by the driver's count (NVML)", "always on a CPU or TPU"),
    Column("planned_argument_bytes", "Int64", "B", "compiler's plan: arguments", _NO_PLAN),
    Column("planned_output_bytes", "Int64", "B", "compiler's plan: results", _NO_PLAN),
    Column("planned_alias_bytes", "Int64", "B", "compiler's plan: results that reuse arguments", _NO_PLAN),
    Column("planned_temp_bytes", "Int64", "B", "compiler's plan: temporaries", _NO_PLAN),
    Column("planned_code_bytes", "Int64", "B", "compiler's plan: code", _NO_PLAN),
    Column("planned_peak_bytes", "Int64", "B", "compiler's plan: highest use", _NO_PLAN),
    Column("planned_flops", "float64", "FLOP", "compiler's count, one step", _NO_PLAN),
    Column("planned_bytes_accessed", "float64", "B", "compiler's count of bytes read and written, one step", _NO_PLAN),
    Column(
        "predicted_step_seconds", "float64", "s", "step time predicted from the plan; never a measurement", _NO_PLAN
    ),
    Column("usable_bytes", "Int64", "B", "device memory that the plan may use", _NO_PLAN),
    Column("fits", "boolean", "", "whether the plan fits into usable_bytes", _NO_PLAN),
    Column("own_flops", "Int64", "FLOP", "the workload's own count, one step", _NOT_REACHED),
    Column("parameters", "Int64", "", "the workload's own count of parameters", _NOT_REACHED),
    Column("traces", "Int64", "", "how often the framework traced the step", _NOT_REACHED),
    Column("loss_first", "float64", "", "loss of the first step", "the trial ended before it, or loss_finite is false"),
    Column("loss_last", "float64", "", "loss of the last step", "the trial ended before it, or it is not a number"),
    Column("warnings", "str", "", "the trial's warnings, joined by '; '", "there was none"),
    Column("seed", "Int64", "", "seed of the workload's inputs and weights, the same within a block", _NEVER),
)

#: What the analysis adds.
ADDED = (
    Column("condition_id", "str", "", "hash of the condition; replicates that a sweep named share the first's", _NEVER),
    Column("session_id", "str", "", "the process that wrote the record", _NEVER),
    Column("provenance_hash", "str", "", "hash of machine and versions; only equal ones are compared", _NEVER),
    Column("study", "str", "", "name of the study", _NEVER),
    Column("device_allocator", "str", "", "the framework's own allocator, read back", _NOT_REACHED),
    Column("host_allocator", "str", "", "the malloc below it, read back", _NOT_REACHED),
    Column("minor_faults_per_step", "float64", "1/step", "minor page faults a measured step", _UNREADABLE),
    Column("system_seconds_per_step", "float64", "s", "CPU time in the kernel a measured step", _UNREADABLE),
    Column("steps_per_window", "Int64", "", "steps that one window times together", _NOT_REACHED),
    Column("windows", "Int64", "", "measured windows", _NOT_REACHED),
    Column("start", "str", "", "how the process was started: spawn, zygote, or not launched", _NEVER),
    Column("elapsed_seconds", "float64", "s", "whole life of the trial", "it was never launched"),
    Column("host_peak_above_baseline_bytes", "Int64", "B", "host_peak_bytes − host_baseline_bytes", _UNREADABLE),
    Column("compile_method", "str", "", "ahead_of_time or first_minus_second_call", _NOT_REACHED),
    Column("outcome_text", "str", "", "the outcome in a sentence", "the outcome is ok"),
    Column("trace_seconds", "float64", "s", "tracing, part of compile_seconds", _NOT_REACHED),
    Column(
        "lower_seconds", "float64", "s", "lowering, part of compile_seconds", "this framework does not tell it apart"
    ),
    Column(
        "retrace_seconds",
        "float64",
        "s",
        "tracing and compiling again for batches of another shape, all together",
        "the batches have one shape, or the trial ended before it",
    ),
    Column(
        "retrace_caches_bytes",
        "Int64",
        "B",
        "growth of resident memory by the program and its caches, every shape compiled",
        "the batches have one shape, or the trial ended before it",
    ),
    Column("import_seconds", "float64", "s", "importing the framework", _NOT_REACHED),
    Column("window_seconds_median", "float64", "s", "median window", _NOT_REACHED),
    Column("window_lag1_correlation", "float64", "", "correlation of neighbouring windows", "fewer than 10 windows"),
    Column("mild_outlier_windows", "Int64", "", "windows 1.5 to 3 quartile ranges outside the quartiles", _NOT_REACHED),
    Column("severe_outlier_windows", "Int64", "", "windows beyond 3 quartile ranges; kept all the same", _NOT_REACHED),
    Column("steady", "boolean", "", "whether warm-up reached a steady state", "too few steps to tell"),
    Column(
        "host_steady_baseline_bytes",
        "Int64",
        "B",
        "resident memory with the program compiled and no state",
        _POOLED,
    ),
    Column("host_steady_peak_bytes", "Int64", "B", "highest resident memory of one step after that", _POOLED),
    Column(
        "device_memory_bytes",
        "Int64",
        "B",
        "memory that the device has: the GPU's (NVML), the TPU's (its allocator), on a CPU the machine's",
        _UNREADABLE,
    ),
    Column(
        "device_total_used_bytes",
        "Int64",
        "B",
        "memory in use by all processes at the end: on the GPU (NVML), on a CPU on the machine",
        "always on a TPU; the counter cannot be read here, or the trial ended before it",
    ),
    Column(
        "device_largest_free_block_bytes",
        "Int64",
        "B",
        "largest free block of the allocator's pool, at the end or at the failure",
        "this allocator does not tell it, or has no pool",
    ),
    Column(
        "device_fragmented_free_bytes",
        "Int64",
        "B",
        "free memory of the pool outside that block",
        "this allocator does not tell it, or has no pool",
    ),
    Column("own_matrix_flops", "Int64", "FLOP", "own_flops: products and convolutions only", _NOT_REACHED),
    Column(
        "traced_matrix_flops",
        "Int64",
        "FLOP",
        "products and convolutions that the framework's trace of the step holds",
        "the trial ended before it, or the trace cannot be counted",
    ),
    Column("planned_matrix_flops", "Int64", "FLOP", "products and convolutions of the lowered module", _NO_PLAN),
    Column("planned_lowered_flops", "float64", "FLOP", "XLA's count for the lowered module", _NO_PLAN),
    Column("planned_margin_bytes", "Int64", "B", "usable_bytes − planned_peak_bytes", _NO_PLAN),
    Column("flops_source", "str", "", "the module that planned_flops were counted on", _NO_PLAN),
    Column("predicted_bound", "str", "", "what binds predicted_step_seconds: arithmetic or bandwidth", _NO_PLAN),
    Column("bridge", "str", "", "what lowered the step to StableHLO", _NO_PLAN),
    Column("target", "str", "", "what the step was compiled for", _NO_PLAN),
    Column("compiler", "str", "", "the compiler's distributions and versions", _NO_PLAN),
    Column("module_hash", "str", "", "hash of the lowered module: equal ones are one program", _NO_PLAN),
    Column("plan_cached", "boolean", "", "whether the plan had been compiled before", _NO_PLAN),
    Column("plan_compile_seconds", "float64", "s", "the compiler alone, when it made the plan", _NO_PLAN),
    Column("bytes_asked", "Int64", "B", "bytes that an oom asked for", "no oom, or its text does not say"),
    Column("bytes_available", "Int64", "B", "bytes that there were", "no oom, or its text does not say"),
    Column("search", "str", "", "the setting that this trial probes for its largest value", "an ordinary trial"),
    Column("loss_finite", "boolean", "", "whether all recorded losses are finite", "no loss was recorded"),
    Column("colocation", "str", "", "solo, or the frameworks that shared the device at the same time", _NEVER),
    Column("colocation_tenant", "Int64", "", "number of this one among them, from 1", "the trial is solo"),
    Column(
        "overlapped_windows",
        "Int64",
        "",
        "measured windows during which all the others were stepping too",
        "the trial is solo, or ended before them",
    ),
)

COLUMNS = CONTRACT + ADDED

#: Columns for our own use: they do not go into trials.csv.
HIDDEN = (
    Column("_folder", "Int64", "", "number of the folder", ""),
    Column("_started", "str", "", "started_utc", ""),
    Column("_replicate", "Int64", "", "which of the equal conditions that a sweep named", ""),
    Column("_tenancy", "str", "", "what the tenants of one block share", ""),
    Column("_tenants", "Int64", "", "how many they are", ""),
)

NAMES = tuple(column.name for column in COLUMNS)

#: Settings whose value a column already holds, under that column's name.
SETTING_COLUMNS = {
    "framework": "framework",
    "compile": "compile",
    "device": "device",
    "chip": "chip",
    "allocation": "allocation",
    "workload": "workload",
    "workload.batch_size": "batch_size",
    "workload.dtype": "dtype",
    "evidence": "evidence",
    "colocation": "colocation",
    "colocation.tenant": "colocation_tenant",
}


def column_of(setting: str) -> str:
    """The column that holds a setting: `workload.shape.width` → `workload_shape_width`."""
    name = SETTING_COLUMNS.get(setting, setting.replace(".", "_"))
    return f"setting_{name}" if name in NAMES and setting not in SETTING_COLUMNS else name


def as_markdown() -> str:
    """The table for the README."""
    head = ["| column | type | unit | meaning | missing when |", "|---|---|---|---|---|"]
    rows = [f"| `{c.name}` | {c.dtype} | {c.unit} | {c.meaning} | {c.missing} |" for c in COLUMNS]
    last = "| every other swept setting | | | its level; dots in the name become underscores | the level is null |"
    return "\n".join([*head, *rows, last]) + "\n"
