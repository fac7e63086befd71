{{- /* Made from metadata.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.objectMetadata" }}
name: {{ include "rayllm.yaml" $.name }}
{{- if not (kindIs "invalid" $.root.Values.namespace) }}
namespace: {{ include "rayllm.yaml" $.root.Values.namespace }}
{{- end }}
labels:
{{- range $label, $value := include "rayllm.labels" $.root | fromJson }}
  {{ include "rayllm.yaml" $label }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}

{{- define "rayllm.entrances" }}
{{- if not (kindIs "invalid" $.Values.exposure.ingress) }}
rayllm.io/ingress: {{ include "rayllm.yaml" (include "rayllm.name" $) }}
{{- end }}
{{- if not (kindIs "invalid" $.Values.exposure.gateway) }}
rayllm.io/httproute: {{ include "rayllm.yaml" (include "rayllm.name" $) }}
{{- end }}
{{- end }}

{{- define "rayllm.annotations" }}
{{- if $.entries }}
annotations:
{{- range $key, $value := $.entries }}
  {{ include "rayllm.yaml" $key }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The metadata that all objects of a service have in common. Imported with its context. */}}
{{- /* The names of what is in front of the service, by which status and endpoint find it. */}}
