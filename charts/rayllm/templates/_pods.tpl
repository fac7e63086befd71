{{- /* Made from pods.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.resources" }}
{{- /* No CPU limit: the kernel would stop the engine's threads in the middle of a step while cores are idle. */}}
resources:
  requests:
    cpu: {{ include "rayllm.yaml" $.cpu }}
    memory: {{ include "rayllm.yaml" $.memory }}
{{- range $name, $amount := $.extended }}
    {{ include "rayllm.yaml" $name }}: {{ include "rayllm.yaml" (include "rayllm.string" $amount) }}
{{- end }}
  limits:
    memory: {{ include "rayllm.yaml" $.memory }}
{{- range $name, $amount := $.extended }}
    {{ include "rayllm.yaml" $name }}: {{ include "rayllm.yaml" (include "rayllm.string" $amount) }}
{{- end }}
{{- end }}

{{- define "rayllm.environment" }}
{{- if $.variables }}
env:
{{- range $variable := $.variables }}
- name: {{ include "rayllm.yaml" $variable.name }}
{{- if not (kindIs "invalid" $variable.secret) }}
  valueFrom:
    secretKeyRef:
      name: {{ include "rayllm.yaml" $variable.secret.name }}
      key: {{ include "rayllm.yaml" $variable.secret.key }}
{{- else if $variable.value }}
  value: {{ include "rayllm.yaml" $variable.value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.volumeMounts" }}
{{- if $.volumes }}
volumeMounts:
{{- range $volume := $.volumes }}
- name: {{ include "rayllm.yaml" $volume.name }}
  mountPath: {{ include "rayllm.yaml" $volume.mountPath }}
{{- if $volume.readOnly }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.volumes" }}
{{- if $.volumes }}
volumes:
{{- range $volume := $.volumes }}
- name: {{ include "rayllm.yaml" $volume.name }}
{{- if not (kindIs "invalid" $volume.persistentVolumeClaim) }}
  persistentVolumeClaim:
    claimName: {{ include "rayllm.yaml" $volume.persistentVolumeClaim }}
{{- if $volume.readOnly }}
    readOnly: true
{{- end }}
{{- else if not (kindIs "invalid" $volume.hostPath) }}
  hostPath:
    path: {{ include "rayllm.yaml" $volume.hostPath }}
{{- /* Without a type a missing folder is mounted as an empty one, and fails much later and less clearly. */}}
    type: Directory
{{- else if not (kindIs "invalid" $volume.configMap) }}
  configMap:
    name: {{ include "rayllm.yaml" $volume.configMap }}
{{- else }}
  secret:
    secretName: {{ include "rayllm.yaml" $volume.secret }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.placement" }}
{{- if $.place.nodeLabels }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
{{- /* Terms are alternatives: clouds and device plugins label the same GPU differently. */}}
      nodeSelectorTerms:
{{- range $label, $values := $.place.nodeLabels }}
      - matchExpressions:
        - key: {{ include "rayllm.yaml" $label }}
          operator: In
          values:
{{- range $value := $values }}
          - {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- if $.place.nodeSelector }}
nodeSelector:
{{- range $label, $value := $.place.nodeSelector }}
  {{ include "rayllm.yaml" $label }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- if $.place.tolerations }}
tolerations:
{{- range $toleration := $.place.tolerations }}
- key: {{ include "rayllm.yaml" $toleration.key }}
{{- if kindIs "invalid" $toleration.value }}
  operator: Exists
{{- else }}
  operator: Equal
{{- if $toleration.value }}
  value: {{ include "rayllm.yaml" $toleration.value }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $toleration.effect) }}
  effect: {{ include "rayllm.yaml" $toleration.effect }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What pod templates of head and workers have in common. */}}
