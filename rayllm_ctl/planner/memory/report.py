"""The answer to users: the plan's figures and every formula with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.plan import Band, MemoryPlan
from rayllm_ctl.planner.memory import engine as rules
from rayllm_ctl.planner.memory.budget import Budget, EstimateContext
from rayllm_ctl.planner.memory.kvcache import Layout
from rayllm_ctl.planner.memory.outside import loading_problem, outside_problems
from rayllm_ctl.planner.memory.types import Formula, MemoryEstimate


def answer(context: EstimateContext, tightest: Budget, fullest: Budget, layout: Layout) -> MemoryEstimate:
    """The estimate from the stage with the least KV cache, the one with the most weights, and the blocks."""
    facts, length, per_block = context.facts, context.settings.max_model_len, layout.bytes_per_block
    cache = Band(*(max(0.0, x) for x in (tightest.cache.low, tightest.cache.typical, tightest.cache.high)))
    if context.options.cache_bytes:
        cache = Band(*(float(context.options.cache_bytes),) * 3)
    counts = [int(amount // per_block) if per_block else 1 for amount in (cache.low, cache.typical, cache.high)]
    request = layout.blocks_per_request(length) if per_block else 0
    if request:
        concurrency = Band(*(layout.concurrency(count, length) for count in counts))
        tokens = Band(*(float(layout.tokens(count, length)) for count in counts))
        longest = Band(*(float(layout.longest(count, facts.max_model_len)) for count in counts))
    else:
        most = float(context.settings.max_num_seqs)
        concurrency, tokens = Band(most, most, most), Band(most * length, most * length, most * length)
        longest = Band(*(float(facts.max_model_len),) * 3)
    blocks = Band(*(float(count) for count in counts))
    plan = MemoryPlan(
        total_bytes=context.gpu.memory_bytes,
        requested_bytes=context.requested,
        parameter_bytes=fullest.parameters,
        weights_bytes=fullest.weights,
        activation_bytes=int(tightest.activation.typical),
        non_torch_bytes=int(tightest.non_torch.typical),
        cuda_graph_bytes=int(tightest.graphs.used.typical),
        kv_cache_bytes=cache,
        kv_cache_tokens=tokens,
        max_concurrency=concurrency,
        kv_needed_bytes=request * per_block,
    )
    return MemoryEstimate(
        plan=plan,
        activation=tightest.activation,
        non_torch=tightest.non_torch,
        cuda_graphs=tightest.graphs.used,
        block_size=min((pages.block for pages, _ in layout.groups if pages.kind != "state"), default=0),
        bytes_per_block=per_block,
        blocks=blocks,
        groups=layout.table(length),
        kv_bytes_per_request=request * per_block,
        longest_context=longest,
        formulas=tuple(_formulas(context, tightest, plan, layout, counts[1])),
        problems=tuple(outside_problems(context, tightest)),
        most_sequences=blocks if _requires_state_blocks(context, layout) else None,
        cannot_load=loading_problem(context, fullest),
        leaner_sampler=_leaner_sampler(context, tightest, layout) if request and concurrency.typical < 1 else 0,
    )


def _leaner_sampler(context: EstimateContext, budget: Budget, layout: Layout) -> int:
    """What another sampler takes less, if one request fits with it."""
    less = budget.peak.total - budget.peak.leaner
    blocks = int(max(0.0, budget.cache.typical + less) // layout.bytes_per_block)
    return less if layout.concurrency(blocks, context.settings.max_model_len) >= 1 else 0


def _requires_state_blocks(context: EstimateContext, layout: Layout) -> bool:
    states = any(pages.kind == "state" for pages, _ in layout.groups)
    return states and context.options.full_graphs and rules.requires_state_blocks(context.release)


def _formulas(
    context: EstimateContext, budget: Budget, plan: MemoryPlan, layout: Layout, blocks: int
) -> Iterator[Formula]:
    facts, settings, peak = context.facts, context.settings, budget.peak
    yield Formula(
        "requested",
        f"{gib(plan.total_bytes)} GiB of {context.gpu.name} x utilization {settings.gpu_memory_utilization:g}",
        plan.requested_bytes,
    )
    layers = f"{len(budget.stage.layers)} of {facts.layer_count} layers"
    drafted = " and of the draft model" if context.draft is not None and budget.stage.last else ""
    data = context.shape.data
    shared = f", experts on one of {data * settings.tensor}" if data > 1 else ""
    text = f"tensors of {layers}{drafted} on one of {settings.tensor} ranks{shared}"
    yield Formula("parameters", text, budget.parameters)
    if context.by_files:
        yield Formula("checkpoint", "in its files beyond what its config describes", context.by_files)
    if budget.loading:
        yield Formula("loading", "the weights in 16 bits, before and while they are quantized", budget.loading)
    yield Formula("weights", "parameters, rope tables and load-time buffers in the allocator's blocks", budget.weights)
    if budget.adapters:
        text = f"{context.options.lora_slots} LoRA slots of rank {context.options.lora_rank} on every projection"
        yield Formula("adapters", text, budget.adapters)
    seqs, tokens = settings.max_num_seqs, settings.max_num_batched_tokens
    if peak.sampler:
        yield Formula("sampler", f"logits of {seqs:,} requests x {facts.vocab_size:,} entries, copied", peak.sampler)
    width = f"(3 x {facts.intermediate_size} / {settings.tensor} + 3 x {facts.hidden_size})"
    yield Formula("layer", f"{tokens:,} tokens x {width} x {context.shape.dtype_bytes} bytes", peak.layer)
    if peak.workspace:
        yield Formula("experts", f"workspace of the experts for {data * tokens:,} tokens", peak.workspace)
    if peak.encoder:
        yield Formula("encoder", "the encoder on its largest items", peak.encoder)
        yield Formula("images", "their outputs and pixels, held through the run", peak.held)
    if peak.kept:
        yield Formula("counters", f"output counts of {seqs:,} requests x {facts.vocab_size:,} entries", peak.kept)
    yield Formula("activation", f"the highest of these{_range(budget.activation)}", budget.activation.typical)
    yield Formula(
        "non-torch", f"CUDA and NCCL on {context.gpu.name}{_range(budget.non_torch)}", budget.non_torch.typical
    )
    counted = budget.graphs.counted
    if counted.typical:
        yield Formula("cuda graphs", f"taken off beforehand{_range(counted)}", counted.typical)
    elif budget.graphs.used.typical:
        text = f"not in the budget of vLLM {_version(context)}{_range(budget.graphs.used)}"
        yield Formula("cuda graphs", text, budget.graphs.used.typical)
    for spread in budget.spreads:
        text = f"{spread.reason}: KV cache -{spread.more / GIB:.2f} to +{spread.less / GIB:.2f} GiB"
        yield Formula("spread", text, spread.more)
    if context.options.cache_bytes:
        yield Formula("KV cache", "as kv_cache_memory_bytes says", plan.kv_cache_bytes.typical)
    else:
        text = "requested - weights - activation - non-torch" + (" - cuda graphs" if counted.typical else "")
        yield Formula("KV cache", text, plan.kv_cache_bytes.typical)
    for group in layout.table(settings.max_model_len):
        text = f"{group.layers} {group.kind} layers, {group.block_size} tokens x {group.page_bytes:,} bytes a block"
        yield Formula("block group", f"{text}; a request holds", group.blocks_per_request, "blocks")
    if layout.bytes_per_block:
        yield Formula("block", "one block of the fullest group", layout.bytes_per_block)
        yield Formula("blocks", f"KV cache / {layout.bytes_per_block:,} bytes", blocks, "blocks")
        request = layout.blocks_per_request(settings.max_model_len)
        text = f"{request:,} blocks for {settings.max_model_len:,} tokens"
        yield Formula("one request", text, request * layout.bytes_per_block)
        yield Formula("concurrency", f"{blocks:,} / {request:,} blocks", plan.max_concurrency.typical, "requests")


def _range(band: Band) -> str:
    return f" ({gib(max(0.0, band.low))} to {gib(band.high)} GiB)"


def _version(context: EstimateContext) -> str:
    return ".".join(map(str, context.release))
