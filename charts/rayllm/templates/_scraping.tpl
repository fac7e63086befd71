{{- /* Made from scraping.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.monitorLabels" }}
{{- range $label, $value := $.monitor.labels }}
{{ include "rayllm.yaml" $label }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}

{{- define "rayllm.endpoints" }}
{{- /* Ray's own and vLLM's metrics of each pod; on the head also those of Ray's autoscaler and dashboard. */}}
- port: metrics
  {{- include "rayllm.interval" (dict "monitor" $.monitor) | replace "\n" "\n  " }}
- port: as-metrics
  {{- include "rayllm.interval" (dict "monitor" $.monitor) | replace "\n" "\n  " }}
- port: dash-metrics
  {{- include "rayllm.interval" (dict "monitor" $.monitor) | replace "\n" "\n  " }}
{{- if eq $.root.Values.mode "raycluster" }}
{{- /* vLLM's own server has its metrics at the port of its API. */}}
- port: serve
  {{- include "rayllm.interval" (dict "monitor" $.monitor) | replace "\n" "\n  " }}
{{- end }}
{{- end }}

{{- define "rayllm.interval" }}
{{- if not (kindIs "invalid" $.monitor.interval) }}
interval: {{ include "rayllm.yaml" $.monitor.interval }}
{{- end }}
{{- end }}

{{- /* What a PodMonitor and a ServiceMonitor have in common. */}}
