{{- /* The objects of a kind. root: the chart; kind; specs: by name. */}}
{{- define "rayllm.objects" }}
{{- range $name, $spec := .specs }}
{{- if $spec }}
---
apiVersion: rayllm.io/v1alpha1
kind: {{ $.kind }}
metadata:
  name: {{ $name }}
  namespace: {{ $.root.Release.Namespace }}
  labels:
    helm.sh/chart: {{ printf "%s-%s" $.root.Chart.Name $.root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
    app.kubernetes.io/managed-by: {{ $.root.Release.Service }}
    {{- with $.root.Values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- toYaml $spec | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
