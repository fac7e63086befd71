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

{{- define "rayllm.probe" }}
{{ include "rayllm.yaml" $.kind }}:
  httpGet:
    path: {{ include "rayllm.yaml" $.check.path }}
    port: {{ include "rayllm.yaml" $.check.port }}
{{- if $.check.https }}
    scheme: HTTPS
{{- end }}
{{- if $.check.initialDelay }}
  initialDelaySeconds: {{ include "rayllm.yaml" $.check.initialDelay }}
{{- end }}
  periodSeconds: {{ include "rayllm.yaml" $.check.period }}
  timeoutSeconds: {{ include "rayllm.yaml" $.check.timeout }}
  failureThreshold: {{ include "rayllm.yaml" $.check.failureThreshold }}
{{- end }}

{{- define "rayllm.servePorts" }}
{{- /* KubeRay's Service has the head's ports that are named serve or serve-... */}}
- {name: serve, containerPort: {{ include "rayllm.yaml" $.proxies.httpPort }}}
{{- if not (kindIs "invalid" $.proxies.grpcPort) }}
- {name: serve-grpc, containerPort: {{ include "rayllm.yaml" $.proxies.grpcPort }}}
{{- end }}
{{- end }}

{{- define "rayllm.environment" }}
{{- if $.pod.env }}
env:
{{- range $variable := $.pod.env }}
- name: {{ include "rayllm.yaml" $variable.name }}
{{- if not (kindIs "invalid" $variable.secret) }}
  valueFrom:
    secretKeyRef:
      {{- include "rayllm.keyOf" (dict "reference" $variable.secret) | replace "\n" "\n      " }}
{{- else if not (kindIs "invalid" $variable.configMap) }}
  valueFrom:
    configMapKeyRef:
      {{- include "rayllm.keyOf" (dict "reference" $variable.configMap) | replace "\n" "\n      " }}
{{- else if not (kindIs "invalid" $variable.fieldPath) }}
  valueFrom:
    fieldRef:
      fieldPath: {{ include "rayllm.yaml" $variable.fieldPath }}
{{- else if $variable.value }}
  value: {{ include "rayllm.yaml" $variable.value }}
{{- end }}
{{- end }}
{{- end }}
{{- if $.pod.envFrom }}
envFrom:
{{- range $source := $.pod.envFrom }}
{{- if not (kindIs "invalid" $source.secretRef) }}
- secretRef:
    {{- include "rayllm.allOf" (dict "reference" $source.secretRef) | replace "\n" "\n    " }}
{{- else }}
- configMapRef:
    {{- include "rayllm.allOf" (dict "reference" $source.configMapRef) | replace "\n" "\n    " }}
{{- end }}
{{- if $source.prefix }}
  prefix: {{ include "rayllm.yaml" $source.prefix }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.keyOf" }}
{{- include "rayllm.allOf" (dict "reference" $.reference) }}
key: {{ include "rayllm.yaml" $.reference.key }}
{{- end }}

{{- define "rayllm.allOf" }}
name: {{ include "rayllm.yaml" $.reference.name }}
{{- if $.reference.optional }}
optional: true
{{- end }}
{{- end }}

{{- define "rayllm.volumeMounts" }}
{{- if or (or (or $.volumes (not (kindIs "invalid" $.code))) (not (kindIs "invalid" $.serving))) (not (kindIs "invalid" $.keysSecret)) }}
volumeMounts:
{{- if not (kindIs "invalid" $.code) }}
- name: code
  mountPath: {{ include "rayllm.yaml" $.code.mountPath }}
  readOnly: true
{{- end }}
{{- if not (kindIs "invalid" $.serving) }}
{{- /* As single files, which the kubelet never updates. In a mounted folder it would replace an archive below processes that
   keep the places of its modules: equal code may have other comments, or be compressed by another zlib. */}}
{{- range $key, $content := $.serving.archives }}
- name: serving
  mountPath: {{ include "rayllm.yaml" (printf "%v%v%v" $.serving.mountPath "/" $key) }}
  subPath: {{ include "rayllm.yaml" $key }}
  readOnly: true
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $.ingressCode) }}
- name: ingress-code
  mountPath: {{ include "rayllm.yaml" $.ingressCode.mountPath }}
  readOnly: true
{{- end }}
{{- if not (kindIs "invalid" $.keysSecret) }}
- name: api-keys
  mountPath: /etc/rayllm/keys
  readOnly: true
{{- end }}
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

{{- define "rayllm.keysVolume" }}
{{- if not (kindIs "invalid" $.secret) }}
- name: api-keys
  secret:
    secretName: {{ include "rayllm.yaml" $.secret }}
{{- /* Pods start without it. Where keys are required and there is no Secret, no key is valid. */}}
    optional: true
{{- end }}
{{- end }}

{{- define "rayllm.codeVolume" }}
{{- if not (kindIs "invalid" $.code) }}
- name: {{ include "rayllm.yaml" $.name }}
  configMap:
    name: {{ include "rayllm.yaml" $.code.configMap }}
{{- if $.code.paths }}
    items:
{{- range $key, $path := $.code.paths }}
    - key: {{ include "rayllm.yaml" $key }}
      path: {{ include "rayllm.yaml" $path }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rayllm.metadata" }}
{{- if or $.pod.labels $.pod.annotations }}
metadata:
{{- if $.pod.labels }}
  labels:
{{- range $label, $value := $.pod.labels }}
{{- /* What selects these pods is named after the service, whatever name the chart is given. */}}
{{- if eq $label "rayllm.io/service" }}
    rayllm.io/service: {{ include "rayllm.yaml" (include "rayllm.name" $.root) }}
{{- else }}
    {{ include "rayllm.yaml" $label }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- if $.pod.annotations }}
  annotations:
{{- range $annotation, $value := $.pod.annotations }}
    {{ include "rayllm.yaml" $annotation }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
{{- else }}
metadata: {}
{{- end }}
{{- end }}

{{- define "rayllm.securityContext" }}
{{- if $.context }}
securityContext: {{ include "rayllm.yaml" $.context }}
{{- end }}
{{- end }}

{{- define "rayllm.podFields" }}
{{- if not (kindIs "invalid" $.pod.serviceAccountName) }}
serviceAccountName: {{ include "rayllm.yaml" $.pod.serviceAccountName }}
{{- end }}
{{- /* Models do not ask the API server anything. The one container that does has a token of its own. */}}
automountServiceAccountToken: false
{{- if $.pod.imagePullSecrets }}
imagePullSecrets:
{{- range $secret := $.pod.imagePullSecrets }}
- name: {{ include "rayllm.yaml" $secret.name }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $.pod.priorityClassName) }}
priorityClassName: {{ include "rayllm.yaml" $.pod.priorityClassName }}
{{- end }}
{{- if not (kindIs "invalid" $.pod.runtimeClassName) }}
runtimeClassName: {{ include "rayllm.yaml" $.pod.runtimeClassName }}
{{- end }}
{{- include "rayllm.securityContext" (dict "context" $.pod.securityContext) }}
{{- if $.pod.topologySpreadConstraints }}
topologySpreadConstraints: {{ include "rayllm.yaml" $.pod.topologySpreadConstraints }}
{{- else if $.pod.spreadOverNodes }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      rayllm.io/service: {{ include "rayllm.yaml" (include "rayllm.name" $.root) }}
  matchLabelKeys: [ray.io/cluster, ray.io/group]
{{- end }}
{{- include "rayllm.placement" (dict "place" $.pod.placement) }}
{{- end }}

{{- define "rayllm.placement" }}
{{- if $.place.affinity }}
affinity: {{ include "rayllm.yaml" $.place.affinity }}
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
