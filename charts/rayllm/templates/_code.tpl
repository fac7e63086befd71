{{- /* Made from code.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.codeText" }}
{{- /* The user's Python files. Its name changes with them: pods that run keep what they were started with. */}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "rayllm.objectMetadata" (dict "root" $ "name" $.Values.code.configMap) | replace "\n" "\n  " }}
immutable: true
data:
{{- range $key, $content := $.Values.code.data }}
  {{ include "rayllm.yaml" $key }}: {{ include "rayllm.yaml" $content }}
{{- end }}
{{- end }}
