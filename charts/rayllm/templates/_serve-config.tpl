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

{{- define "rayllm.accelerator" }}
{{- if not (kindIs "invalid" $.serve.acceleratorType) }}
accelerator_type: {{ include "rayllm.yaml" $.serve.acceleratorType }}
{{- else }}
accelerator_config:
  kind: {{ include "rayllm.yaml" $.serve.acceleratorKind }}
{{- end }}
{{- end }}

{{- define "rayllm.health" }}
health_check_period_s: {{ include "rayllm.yaml" $.serve.healthCheckPeriod }}
health_check_timeout_s: {{ include "rayllm.yaml" $.serve.healthCheckTimeout }}
graceful_shutdown_timeout_s: {{ include "rayllm.yaml" $.serve.gracefulShutdownTimeout }}
{{- end }}

{{- define "rayllm.transformersConfig" }}
{{- /* What rayllm_ctl.serving is told of a model on the Transformers engine, whose replica is one process. */}}
{{- include "rayllm.accelerator" (dict "serve" $.serve) }}
deployment_config:
{{- if $.serve.rayResources }}
  ray_actor_options:
    resources:
{{- range $resource, $amount := $.serve.rayResources }}
      {{ include "rayllm.yaml" $resource }}: {{ include "rayllm.yaml" $amount }}
{{- end }}
{{- end }}
  {{- include "rayllm.health" (dict "serve" $.serve) | replace "\n" "\n  " }}
transformers:
  dtype: {{ include "rayllm.yaml" $.transformers.dtype }}
  max_model_len: {{ include "rayllm.yaml" $.transformers.maxModelLen }}
  max_batch_size: {{ include "rayllm.yaml" $.transformers.maxNumSeqs }}
  gpus: {{ include "rayllm.yaml" $.transformers.gpus }}
  cpus: {{ include "rayllm.yaml" $.transformers.cpus }}
{{- if $.transformers.maxMemory }}
  max_memory: {{ include "rayllm.yaml" $.transformers.maxMemory }}
{{- end }}
{{- if not (kindIs "invalid" $.transformers.quantization) }}
  quantization: {{ include "rayllm.yaml" $.transformers.quantization }}
{{- end }}
  trust_remote_code: {{ include "rayllm.yaml" $.transformers.trustRemoteCode }}
{{- if not (kindIs "invalid" $.serve.revision) }}
  revision: {{ include "rayllm.yaml" $.serve.revision }}
{{- end }}
{{- end }}

{{- define "rayllm.engineConfig" }}
{{- /* What Ray Serve LLM is told of a model beside its name. */}}
{{- include "rayllm.accelerator" (dict "serve" $.serve) }}
placement_group_config:
  strategy: {{ include "rayllm.yaml" $.serve.placementStrategy }}
  bundle_per_worker:
    {{ include "rayllm.yaml" $.serve.bundleResource }}: 1
{{- range $resource, $amount := $.serve.rayResources }}
    {{ include "rayllm.yaml" $resource }}: {{ include "rayllm.yaml" $amount }}
{{- end }}
deployment_config:
  ray_actor_options:
    num_cpus: {{ include "rayllm.yaml" $.serve.engineCpus }}
  {{- include "rayllm.health" (dict "serve" $.serve) | replace "\n" "\n  " }}
engine_kwargs:
  tensor_parallel_size: {{ include "rayllm.yaml" $.parallelism.tensor }}
  pipeline_parallel_size: {{ include "rayllm.yaml" $.parallelism.pipeline }}
  max_model_len: {{ include "rayllm.yaml" $.engine.maxModelLen }}
  max_num_seqs: {{ include "rayllm.yaml" $.engine.maxNumSeqs }}
  max_num_batched_tokens: {{ include "rayllm.yaml" $.engine.maxNumBatchedTokens }}
  dtype: {{ include "rayllm.yaml" $.engine.dtype }}
{{- if not (kindIs "invalid" $.engine.gpuMemoryUtilization) }}
  gpu_memory_utilization: {{ include "rayllm.yaml" $.engine.gpuMemoryUtilization }}
{{- end }}
{{- if not (kindIs "invalid" $.engine.quantization) }}
  quantization: {{ include "rayllm.yaml" $.engine.quantization }}
{{- end }}
{{- if not (kindIs "invalid" $.engine.kvCacheDtype) }}
  kv_cache_dtype: {{ include "rayllm.yaml" $.engine.kvCacheDtype }}
{{- end }}
{{- if not (kindIs "invalid" $.serve.revision) }}
  revision: {{ include "rayllm.yaml" $.serve.revision }}
{{- end }}
{{- range $argument, $value := $.engine.args }}
  {{ include "rayllm.yaml" $argument }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- if not (kindIs "invalid" $.serve.adapters) }}
{{- /* An argument of vLLM's front end, which loads them when it starts. */}}
  lora_modules:
{{- range $adapter := $.serve.adapters }}
  - name: {{ include "rayllm.yaml" $adapter.id }}
    path: {{ include "rayllm.yaml" $adapter.path }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.modelDeployment" }}
- name: {{ include "rayllm.yaml" $.serve.deployment }}
  max_ongoing_requests: {{ include "rayllm.yaml" $.serve.maxOngoingRequests }}
  {{- include "rayllm.autoscaling" (dict "scaling" $.serve.autoscaling) | replace "\n" "\n  " }}
{{- end }}

{{- define "rayllm.serveConfigText" }}
{{- if or (not (kindIs "invalid" $.Values.serve)) (not (kindIs "invalid" $.Values.ingress)) }}
applications:
{{- if not (kindIs "invalid" $.Values.ingress) }}
{{- /* No args: what models and gateway change stands in user_config, which replicas of the ingress take up. */}}
- name: {{ include "rayllm.yaml" (include "rayllm.name" $) }}
  route_prefix: /
  import_path: rayllm_ctl.serving.ingress:build
{{- if not (kindIs "invalid" $.Values.ingressCode) }}
{{- /* For other code Serve replaces the replicas of the ingress, which import it by this digest. */}}
  runtime_env:
    env_vars:
      RAYLLM_INGRESS_CODE: {{ include "rayllm.yaml" $.Values.ingressCode.digest }}
{{- end }}
  deployments:
  - name: OpenAiIngress
    graceful_shutdown_timeout_s: {{ include "rayllm.yaml" $.Values.ingress.gracefulShutdownTimeout }}
    ray_actor_options:
      num_cpus: {{ include "rayllm.yaml" $.Values.ingress.cpus }}
      resources:
        {{ include "rayllm.yaml" $.Values.ingress.resource }}: 1
    {{- include "rayllm.autoscaling" (dict "scaling" $.Values.ingress.autoscaling) | replace "\n" "\n    " }}
    user_config:
      models:
{{- range $model := $.Values.models }}
      - id: {{ include "rayllm.yaml" $model.serve.modelId }}
        application: {{ include "rayllm.yaml" (printf "%v%v%v" (include "rayllm.name" $) "-" $model.name) }}
        deployment: {{ include "rayllm.yaml" $model.serve.deployment }}
{{- if not (kindIs "invalid" $model.engine) }}
        maxModelLen: {{ include "rayllm.yaml" $model.engine.maxModelLen }}
{{- else }}
        engine: transformers
        maxModelLen: {{ include "rayllm.yaml" $model.transformers.maxModelLen }}
{{- end }}
        tokenizer: {{ include "rayllm.yaml" $model.serve.modelSource }}
{{- if kindIs "invalid" $model.serve.adapters }}
        adapters: []
{{- else }}
        adapters:
{{- range $adapter := $model.serve.adapters }}
        - id: {{ include "rayllm.yaml" $adapter.id }}
          path: {{ include "rayllm.yaml" $adapter.path }}
{{- end }}
{{- end }}
{{- end }}
      gateway: {{ include "rayllm.yaml" $.Values.gateway }}
{{- range $model := $.Values.models }}
- name: {{ include "rayllm.yaml" (printf "%v%v%v" (include "rayllm.name" $) "-" $model.name) }}
  route_prefix: null
  import_path: rayllm_ctl.serving.model:build
  args:
    model_loading_config:
      model_id: {{ include "rayllm.yaml" $model.serve.modelId }}
      model_source: {{ include "rayllm.yaml" $model.serve.modelSource }}
{{- if not (kindIs "invalid" $model.engine) }}
    {{- include "rayllm.engineConfig" (dict "serve" $model.serve "parallelism" $model.parallelism "engine" $model.engine) | replace "\n" "\n    " }}
{{- else }}
    {{- include "rayllm.transformersConfig" (dict "serve" $model.serve "transformers" $model.transformers) | replace "\n" "\n    " }}
{{- end }}
  deployments:
  {{- include "rayllm.modelDeployment" (dict "serve" $model.serve) | replace "\n" "\n  " }}
{{- end }}
{{- else }}
- name: {{ include "rayllm.yaml" (include "rayllm.name" $) }}
  route_prefix: /
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config:
        model_id: {{ include "rayllm.yaml" $.Values.serve.modelId }}
        model_source: {{ include "rayllm.yaml" $.Values.serve.modelSource }}
      {{- include "rayllm.engineConfig" (dict "serve" $.Values.serve "parallelism" $.Values.parallelism "engine" $.Values.engine) | replace "\n" "\n      " }}
    ingress_deployment_config:
      ray_actor_options:
        num_cpus: {{ include "rayllm.yaml" $.Values.serve.ingressCpus }}
  deployments:
{{- /* What stands here changes without restarting a replica; a change of args restarts them all. */}}
  {{- include "rayllm.modelDeployment" (dict "serve" $.Values.serve) | replace "\n" "\n  " }}
  - name: OpenAiIngress
{{- /* The answers of the model pass through it. */}}
    graceful_shutdown_timeout_s: {{ include "rayllm.yaml" $.Values.serve.gracefulShutdownTimeout }}
{{- /* Otherwise Serve replaces a lost ingress on a worker that has one already, whose loss then ends the service. */}}
    max_replicas_per_node: 1
    {{- include "rayllm.autoscaling" (dict "scaling" $.Values.serve.ingressAutoscaling) | replace "\n" "\n    " }}
{{- end }}
{{- range $application := $.Values.applications }}
- name: {{ include "rayllm.yaml" $application.name }}
  route_prefix: {{ include "rayllm.yaml" $application.routePrefix }}
  import_path: {{ include "rayllm.yaml" $application.importPath }}
{{- if $application.runtimeEnv }}
  runtime_env: {{ include "rayllm.yaml" $application.runtimeEnv }}
{{- end }}
{{- if $application.args }}
  args: {{ include "rayllm.yaml" $application.args }}
{{- end }}
{{- if $application.deployments }}
  deployments: {{ include "rayllm.yaml" $application.deployments }}
{{- end }}
{{- end }}
{{- range $option, $value := $.Values.serveOptions }}
{{ include "rayllm.yaml" $option }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- end }}
