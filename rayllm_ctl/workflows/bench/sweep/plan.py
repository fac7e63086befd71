"""The plan of a sweep, made before anything is deployed: its variants, their load and their manifests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.loadtest.settings import Objective, Settings, Target
from rayllm_ctl.model.bench.sweep import Axis, Variant, VariantRecord, in_words
from rayllm_ctl.model.kube.kuberay_versions import VERSIONS
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.specfile.vary import variants
from rayllm_ctl.specfile.write import to_document
from rayllm_ctl.workflows.bench.flags import INPUT, Flags, check_flags, loads, prompts_of, shortest, tokenizer_of
from rayllm_ctl.workflows.bench.sweep.folder import Folder, open_folder
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.plan.verdict import require_runnable
from rayllm_ctl.workflows.render.controlled import require_deployable
from rayllm_ctl.workflows.render.service import rendering_of
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions


@dataclass(frozen=True)
class PlannedVariant:
    """A variant. record: its state so far. rendering: None if it is not to be deployed."""

    variant: Variant
    record: VariantRecord
    rendering: Rendering | None


@dataclass(frozen=True)
class Prepared:
    """A sweep that can start. Nothing is deployed if no variant has a rendering.

    left: the service that an interrupted sweep may have left in the cluster.
    """

    service: str
    namespace: str | None
    vary: tuple[str, ...]
    variants: tuple[PlannedVariant, ...]
    folder: Folder
    left: Rendering | None = None


def prepare_sweep(
    base: LLMService, axes: Sequence[Axis], load: Flags, options: RenderOptions, output_dir: Path | None
) -> Prepared:
    """Plan and render every variant that was not measured yet. Nothing is written.

    load: with the name of the service, whose variants are measured. output_dir None: NAME-sweep.

    Raises UsageError for flags, fields and values that cannot be used, and for the folder of another sweep; UserError
    if no variant can be deployed. A variant that the planner rejects is not an error but a record.
    """
    if not axes:
        raise UsageError(
            "no field to vary was given",
            hint=("--tp 1,2,4", "--vary engine.maxNumSeqs=64,256    # any field of the spec"),
        )
    require_deployable(base)
    check_flags(load)
    load_data = _load_data(load)
    all_variants = variants(base, axes)
    vary = tuple(axis.name for axis in axes)
    folder_path = output_dir or Path(f"{base.name}-sweep")
    # The newest version of KubeRay rejects least; deploy checks for the cluster's version.
    how = replace(options, kuberay=VERSIONS[-1])
    waiting = [
        VariantRecord(variant.name, variant.values, "waiting", to_document(variant.service), load_data)
        for variant in all_variants
    ]
    planned = [_plan(variant, record, how, load) for variant, record in zip(all_variants, waiting, strict=True)]
    if not any(variant.rendering for variant in planned):
        lines = [f"{in_words(variant.record.values)}: {variant.record.message}" for variant in planned]
        raise UserError("\n".join(["no variant can be deployed:", *lines]), hint="rayllm-ctl plan --help")
    known_by = {
        "spec": to_document(base),
        "load": load_data,
        "vary": vary,
        "templates": _templates(options.template_dir),
    }
    folder = open_folder(folder_path, base.name, known_by)
    left = folder.left()
    renderings = {planned_variant.variant.name: planned_variant.rendering for planned_variant in planned}
    return Prepared(
        base.name, base.namespace, vary, tuple(_known(variant, folder) for variant in planned), folder,
        None if left is None else renderings.get(left.variant) or Rendering(left.variant, base.namespace, (), (), None),
    )  # fmt: skip


def _known(planned: PlannedVariant, folder: Folder) -> PlannedVariant:
    """The variant with its result from the folder."""
    measured = folder.measured(planned.variant, planned.record)
    return planned if measured is None else PlannedVariant(planned.variant, measured, None)


def _plan(variant: Variant, record: VariantRecord, options: RenderOptions, load: Flags) -> PlannedVariant:
    try:
        plan = make_plan(variant.service, options.facts)
        record = replace(record, gpus=_gpus(plan))
        try:
            require_runnable(plan, accept_risk=options.accept_risk)
        except UserError:
            return PlannedVariant(variant, _rejected(record, plan), None)
        too_long = _too_long(plan, load)
        if too_long:
            return PlannedVariant(
                variant, replace(record, state="rejected", code="load-above-context", message=too_long), None
            )
        rendered = rendering_of(variant.service, plan, options)
    except UserError as error:
        error.message = f"{in_words(variant.values)}: {error.message}"
        raise
    _require_key(variant.service, load)
    return PlannedVariant(variant, record, rendered)


def _too_long(plan: Plan, load: Flags) -> str | None:
    """Why no model can answer even the shortest request of generated prompts; None if one may."""
    contexts = [model.engine.max_model_len for model in plan.each.values() if model.engine is not None]
    if load.prompts or not contexts:
        return None
    prompt, answer = shortest(load.input_tokens or INPUT), shortest(load.output_tokens)
    if prompt + answer <= max(contexts):
        return None
    return (
        f"requests of {prompt:,} input and {answer:,} output tokens exceed the context of {max(contexts):,} "
        "(use --input-tokens or --max-model-len to change it)"
    )


def _rejected(record: VariantRecord, plan: Plan) -> VariantRecord:
    code = plan.reasons[0].code if plan.reasons else plan.verdict
    message = "; ".join(reason.message for reason in plan.reasons) or f"the plan is {plan.verdict}"
    if plan.verdict == "risky":
        message += " (use --accept-risk to measure it anyway)"
    return replace(record, state="rejected", code=code, message=message)


def _gpus(plan: Plan) -> tuple[int, int] | None:
    """GPUs of all models at the minimum and maximum number of replicas; None if the plan has no layout."""
    layouts = [(model.parallelism, model.gpu) for model in plan.each.values()]
    if any(layout is None for layout, _ in layouts):
        return None
    held = [layout for layout, gpu in layouts if layout is not None and gpu is not None]
    return (
        sum(layout.gpus_per_replica * layout.replicas for layout in held),
        sum(layout.gpus_per_replica * layout.max_replicas for layout in held),
    )


def _require_key(service: LLMService, load: Flags) -> None:
    """Raise UsageError if variants require an API key and none was given, instead of failing once they run."""
    keys = service.gateway.keys if service.gateway else None
    if keys is None:
        return
    if not (load.keys if load.local else load.api_key_secret):
        raise UsageError(
            f"service {service.name} will require an API key (spec.gateway.keys)",
            hint=("--api-key-secret NAME/KEY", "--local --api-key-file FILE    # or RAYLLM_API_KEY"),
        )
    if keys.secret is None:
        raise UsageError(
            "spec.gateway.keys.secret is required in a sweep: without it each variant would use a Secret of its own",
            hint="gateway: {keys: {secret: NAME}} in the spec file",
        )


def _templates(folder: Path | None) -> str | None:
    """Digest of the user's own templates."""
    if folder is None:
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(
        b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)
    ).hexdigest()


def _load_data(load: Flags) -> Mapping[str, Any]:
    """The parameters of a load. Prompts from a file are a digest."""
    prompts = prompts_of(load, tokenizer_of(load.tokenizer))
    target = Target("", (), api=load.api)
    settings = Settings(target, loads(load), prompts, load.slo or Objective(), dict(load.fields), load.stream).to_json()
    del settings["target"]
    rows = json.dumps(settings["prompts"].pop("rows"), sort_keys=True)
    return {
        **settings,
        "prompts": {**settings["prompts"], "file": hashlib.sha256(rows.encode()).hexdigest() if load.prompts else None},
        "api": load.api,
        "tokenizer": load.tokenizer,
        "findMax": load.find_max,
        "local": load.local,
    }
