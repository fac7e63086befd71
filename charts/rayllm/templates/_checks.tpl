{{/* Replica bounds that no autoscaler accepts. path: of the values; bounds: the values. */}}
{{- define "rayllm.checkBounds" -}}
{{- if gt (int .bounds.minReplicas) (int .bounds.maxReplicas) -}}
{{- fail (printf "%s: minReplicas (%v) is greater than maxReplicas (%v)" .path .bounds.minReplicas .bounds.maxReplicas) -}}
{{- end -}}
{{- end }}

{{/* Replicas for which the worker groups have no place even at their maximum: they would never start. A replica needs a
GPU per process, or on CPUs that many and its own on one worker. */}}
{{- define "rayllm.checkCapacity" -}}
{{- $serve := .Values.serve -}}
{{- $processes := mul .Values.parallelism.tensor .Values.parallelism.pipeline -}}
{{- $most := 0 -}}
{{- range $group := .Values.workerGroups -}}
{{- $workers := int $group.maxWorkers -}}
{{- if eq $serve.bundleResource "GPU" -}}
{{- $gpus := 0 -}}
{{- range $count := $group.extendedResources -}}
{{- $gpus = add $gpus (int $count) -}}
{{- end -}}
{{- if ge $gpus $processes -}}
{{- $most = add $most (mul $workers (div $gpus $processes)) -}}
{{- else -}}
{{- $most = add $most (div (mul $workers $gpus) $processes) -}}
{{- end -}}
{{- else -}}
{{- $most = add $most (mul $workers (int (floor (divf $group.cpus (addf $processes $serve.engineCpus))))) -}}
{{- end -}}
{{- end -}}
{{- if gt (int $serve.autoscaling.maxReplicas) (int $most) -}}
{{- $message := "serve.autoscaling.maxReplicas is %v, but at their maximum the worker groups can hold only %d: raise workerGroups[].maxWorkers as well, or plan again with `rayllm-ctl render --max-replicas %v --format helm-values`" -}}
{{- fail (printf $message $serve.autoscaling.maxReplicas $most $serve.autoscaling.maxReplicas) -}}
{{- end -}}
{{- end }}
