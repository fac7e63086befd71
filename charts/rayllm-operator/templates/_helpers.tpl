{{- define "rayllm-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of the release, with that of the chart unless it is part of it. */}}
{{- define "rayllm-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Names of ClusterRoles, which releases of the same name in other namespaces have as well. */}}
{{- define "rayllm-operator.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "rayllm-operator.fullname" .) }}
{{- end }}

{{- define "rayllm-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "rayllm-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "rayllm-operator.image" -}}
{{- $repository := required "image.repository is required: `rayllm-ctl image recipe --controller` prints the Dockerfile of the image" .Values.image.repository }}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
{{- printf "%s%s%s" $repository (hasPrefix "sha256:" $tag | ternary "@" ":") $tag }}
{{- end }}

{{- define "rayllm-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rayllm-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rayllm-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "rayllm-operator.selectorLabels" . }}
app.kubernetes.io/component: controller
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "rayllm-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "rayllm-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Scheduling, pull secrets and contexts, which the pods of the controller and of `helm test` have in common. */}}
{{- define "rayllm-operator.podSpec" -}}
serviceAccountName: {{ include "rayllm-operator.serviceAccountName" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
- name: tmp
  emptyDir:
    sizeLimit: 256Mi
{{- end }}

{{- define "rayllm-operator.container" -}}
image: {{ include "rayllm-operator.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
- name: HOME
  value: /tmp
{{- /* glibc keeps freed memory for each of many threads otherwise. */}}
- name: MALLOC_ARENA_MAX
  value: "2"
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
- name: tmp
  mountPath: /tmp
{{- end }}
