{{- /* Made from serve-config.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.autoscaling" }}
autoscaling_config:
  min_replicas: {{ include "rayllm.yaml" $.scaling.minReplicas }}
  max_replicas: {{ include "rayllm.yaml" $.scaling.maxReplicas }}
  target_ongoing_requests: {{ include "rayllm.yaml" $.scaling.targetOngoingRequests }}
  look_back_period_s: {{ include "rayllm.yaml" $.scaling.lookBackPeriod }}
  upscale_delay_s: {{ include "rayllm.yaml" $.scaling.upscaleDelay }}
  downscale_delay_s: {{ include "rayllm.yaml" $.scaling.downscaleDelay }}
{{- if not (kindIs "invalid" $.scaling.initialReplicas) }}
  initial_replicas: {{ include "rayllm.yaml" $.scaling.initialReplicas }}
{{- end }}
{{- if not (kindIs "invalid" $.scaling.downscaleToZeroDelay) }}
  downscale_to_zero_delay_s: {{ include "rayllm.yaml" $.scaling.downscaleToZeroDelay }}
{{- end }}
{{- if not (kindIs "invalid" $.scaling.metricsInterval) }}
  metrics_interval_s: {{ include "rayllm.yaml" $.scaling.metricsInterval }}
{{- end }}
{{- if not (kindIs "invalid" $.scaling.upscalingFactor) }}
  upscaling_factor: {{ include "rayllm.yaml" $.scaling.upscalingFactor }}
{{- end }}
{{- if not (kindIs "invalid" $.scaling.downscalingFactor) }}
  downscaling_factor: {{ include "rayllm.yaml" $.scaling.downscalingFactor }}
{{- end }}
{{- if not (kindIs "invalid" $.scaling.aggregationFunction) }}
  aggregation_function: {{ include "rayllm.yaml" $.scaling.aggregationFunction }}
{{- end }}
{{- end }}

{{- define "rayllm.serveConfigText" }}
{{- if not (kindIs "invalid" $.Values.serve) }}
applications:
- name: {{ include "rayllm.yaml" (include "rayllm.name" $) }}
  route_prefix: /
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config:
        model_id: {{ include "rayllm.yaml" $.Values.serve.modelId }}
        model_source: {{ include "rayllm.yaml" $.Values.serve.modelSource }}
{{- if not (kindIs "invalid" $.Values.serve.acceleratorType) }}
      accelerator_type: {{ include "rayllm.yaml" $.Values.serve.acceleratorType }}
{{- else }}
      accelerator_config:
        kind: {{ include "rayllm.yaml" $.Values.serve.acceleratorKind }}
{{- end }}
      placement_group_config:
        strategy: {{ include "rayllm.yaml" $.Values.serve.placementStrategy }}
        bundle_per_worker:
          {{ include "rayllm.yaml" $.Values.serve.bundleResource }}: 1
{{- range $resource, $amount := $.Values.serve.rayResources }}
          {{ include "rayllm.yaml" $resource }}: {{ include "rayllm.yaml" $amount }}
{{- end }}
      deployment_config:
        ray_actor_options:
          num_cpus: {{ include "rayllm.yaml" $.Values.serve.engineCpus }}
        health_check_period_s: {{ include "rayllm.yaml" $.Values.serve.healthCheckPeriod }}
        health_check_timeout_s: {{ include "rayllm.yaml" $.Values.serve.healthCheckTimeout }}
        graceful_shutdown_timeout_s: {{ include "rayllm.yaml" $.Values.serve.gracefulShutdownTimeout }}
      engine_kwargs:
        tensor_parallel_size: {{ include "rayllm.yaml" $.Values.parallelism.tensor }}
        pipeline_parallel_size: {{ include "rayllm.yaml" $.Values.parallelism.pipeline }}
        max_model_len: {{ include "rayllm.yaml" $.Values.engine.maxModelLen }}
        max_num_seqs: {{ include "rayllm.yaml" $.Values.engine.maxNumSeqs }}
        max_num_batched_tokens: {{ include "rayllm.yaml" $.Values.engine.maxNumBatchedTokens }}
        dtype: {{ include "rayllm.yaml" $.Values.engine.dtype }}
{{- if not (kindIs "invalid" $.Values.engine.gpuMemoryUtilization) }}
        gpu_memory_utilization: {{ include "rayllm.yaml" $.Values.engine.gpuMemoryUtilization }}
{{- end }}
{{- if not (kindIs "invalid" $.Values.engine.quantization) }}
        quantization: {{ include "rayllm.yaml" $.Values.engine.quantization }}
{{- end }}
{{- if not (kindIs "invalid" $.Values.engine.kvCacheDtype) }}
        kv_cache_dtype: {{ include "rayllm.yaml" $.Values.engine.kvCacheDtype }}
{{- end }}
{{- if not (kindIs "invalid" $.Values.serve.revision) }}
        revision: {{ include "rayllm.yaml" $.Values.serve.revision }}
{{- end }}
{{- range $argument, $value := $.Values.engine.args }}
        {{ include "rayllm.yaml" $argument }}: {{ include "rayllm.yaml" $value }}
{{- end }}
    ingress_deployment_config:
      ray_actor_options:
        num_cpus: {{ include "rayllm.yaml" $.Values.serve.ingressCpus }}
  deployments:
{{- /* What stands here changes without restarting a replica; a change of args restarts them all. */}}
  - name: {{ include "rayllm.yaml" $.Values.serve.deployment }}
    max_ongoing_requests: {{ include "rayllm.yaml" $.Values.serve.maxOngoingRequests }}
    {{- include "rayllm.autoscaling" (dict "scaling" $.Values.serve.autoscaling) | replace "\n" "\n    " }}
  - name: OpenAiIngress
    {{- include "rayllm.autoscaling" (dict "scaling" $.Values.serve.ingressAutoscaling) | replace "\n" "\n    " }}
{{- range $option, $value := $.Values.serveOptions }}
{{ include "rayllm.yaml" $option }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- end }}
