{{- /* Made from cluster.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.clusterSpec" }}
rayVersion: {{ include "rayllm.yaml" $.Values.runtime.rayVersion }}
{{- if not (kindIs "invalid" $.Values.autoscaler) }}
{{- /* For a fixed number of replicas too: switching it on later would start a second cluster beside this one, with as
   many GPUs again, where changed bounds reach the running one. */}}
enableInTreeAutoscaling: true
autoscalerOptions:
  version: v2
  idleTimeoutSeconds: {{ include "rayllm.yaml" $.Values.autoscaler.idleTimeout }}
  imagePullPolicy: IfNotPresent
  resources:
    requests:
      cpu: {{ include "rayllm.yaml" $.Values.autoscaler.cpu }}
      memory: {{ include "rayllm.yaml" $.Values.autoscaler.memory }}
    limits:
      memory: {{ include "rayllm.yaml" $.Values.autoscaler.memoryLimit }}
  {{- include "rayllm.securityContext" (dict "context" $.Values.head.containerSecurityContext) | replace "\n" "\n  " }}
  volumeMounts:
  - name: autoscaler-token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
{{- end }}
{{- if eq $.Values.ray.authentication.mode "token" }}
authOptions:
  mode: token
{{- if not (kindIs "invalid" $.Values.ray.authentication.secretName) }}
  secretName: {{ include "rayllm.yaml" $.Values.ray.authentication.secretName }}
{{- end }}
{{- end }}
{{- if not (kindIs "invalid" $.Values.ray.faultTolerance) }}
{{- /* The keys in the Redis are named after the RayCluster (its uid): two clusters of an upgrade never share them. */}}
gcsFaultToleranceOptions:
  redisAddress: {{ include "rayllm.yaml" $.Values.ray.faultTolerance.redisAddress }}
{{- if not (kindIs "invalid" $.Values.ray.faultTolerance.passwordSecret) }}
  redisPassword:
    valueFrom:
      secretKeyRef:
        name: {{ include "rayllm.yaml" $.Values.ray.faultTolerance.passwordSecret.name }}
        key: {{ include "rayllm.yaml" $.Values.ray.faultTolerance.passwordSecret.key }}
{{- end }}
{{- end }}
headGroupSpec:
  rayStartParams:
{{- /* No replica on the head: it would compete with the GCS, and a GPU there breaks pipeline parallelism. */}}
    num-cpus: "0"
    num-gpus: "0"
  template:
    {{- include "rayllm.metadata" (dict "root" $ "pod" $.Values.head) | replace "\n" "\n    " }}
    spec:
      containers:
      - name: ray-head
        image: {{ include "rayllm.yaml" $.Values.runtime.image }}
        imagePullPolicy: IfNotPresent
        {{- include "rayllm.environment" (dict "pod" $.Values.head) | replace "\n" "\n        " }}
        ports:
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        - {name: client, containerPort: 10001}
{{- if eq $.Values.mode "rayservice" }}
        {{- include "rayllm.servePorts" (dict "proxies" $.Values.proxies) | replace "\n" "\n        " }}
{{- end }}
{{- /* Of the autoscaler and of the dashboard; KubeRay adds that of Ray itself. */}}
{{- if not (kindIs "invalid" $.Values.autoscaler) }}
        - {name: as-metrics, containerPort: 44217}
{{- end }}
        - {name: dash-metrics, containerPort: 44227}
        {{- include "rayllm.resources" (dict "cpu" $.Values.pods.headCpu "memory" $.Values.pods.headMemory "extended" (dict)) | replace "\n" "\n        " }}
        {{- include "rayllm.securityContext" (dict "context" $.Values.head.containerSecurityContext) | replace "\n" "\n        " }}
        {{- include "rayllm.volumeMounts" (dict "volumes" $.Values.storage "code" $.Values.code "serving" $.Values.serving "ingressCode" $.Values.ingressCode "keysSecret" nil) | replace "\n" "\n        " }}
      {{- include "rayllm.podFields" (dict "root" $ "pod" $.Values.head) | replace "\n" "\n      " }}
{{- if or (or (or $.Values.storage (not (kindIs "invalid" $.Values.code))) (not (kindIs "invalid" $.Values.serving))) (not (kindIs "invalid" $.Values.autoscaler)) }}
      volumes:
{{- end }}
{{- if not (kindIs "invalid" $.Values.autoscaler) }}
{{- /* What Kubernetes would mount into every container of the pod, for the autoscaler alone: with it one may change
         RayClusters and delete pods. */}}
      - name: autoscaler-token
        projected:
          sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3607}
          - configMap:
              name: kube-root-ca.crt
              items:
              - {key: ca.crt, path: ca.crt}
          - downwardAPI:
              items:
              - path: namespace
                fieldRef: {fieldPath: metadata.namespace}
{{- end }}
      {{- include "rayllm.volumes" (dict "volumes" $.Values.storage) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "code" "code" $.Values.code) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "serving" "code" $.Values.serving) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "ingress-code" "code" $.Values.ingressCode) | replace "\n" "\n      " }}
workerGroupSpecs:
{{- range $group := $.Values.workerGroups }}
- groupName: {{ include "rayllm.yaml" $group.name }}
  minReplicas: {{ include "rayllm.yaml" $group.minWorkers }}
  maxReplicas: {{ include "rayllm.yaml" $group.maxWorkers }}
  numOfHosts: 1
{{- if not (kindIs "invalid" $group.idleTimeout) }}
  idleTimeoutSeconds: {{ include "rayllm.yaml" $group.idleTimeout }}
{{- end }}
  scaleStrategy: {}
  rayStartParams:
    num-cpus: {{ include "rayllm.yaml" (include "rayllm.string" $group.cpus) }}
{{- if not (kindIs "invalid" $group.rayResources) }}
{{- /* Ray reads it from a shell's command line. */}}
    resources: {{ include "rayllm.yaml" (printf "%v%v%v" "'" $group.rayResources "'") }}
{{- end }}
{{- if $group.rayLabels }}
  labels:
{{- range $label, $value := $group.rayLabels }}
    {{ include "rayllm.yaml" $label }}: {{ include "rayllm.yaml" $value }}
{{- end }}
{{- end }}
  template:
    {{- include "rayllm.metadata" (dict "root" $ "pod" $group.pod) | replace "\n" "\n    " }}
    spec:
      containers:
      - name: ray-worker
        image: {{ include "rayllm.yaml" $.Values.runtime.image }}
        imagePullPolicy: IfNotPresent
        {{- include "rayllm.serverCommand" (dict "server" $group.server) | replace "\n" "\n        " }}
        {{- include "rayllm.environment" (dict "pod" $group.pod) | replace "\n" "\n        " }}
{{- if not (kindIs "invalid" $group.server) }}
        ports:
        - {name: serve, containerPort: 8000}
{{- else if and (eq $.Values.mode "rayservice") $.Values.proxies.onWorkers }}
        ports:
        {{- include "rayllm.servePorts" (dict "proxies" $.Values.proxies) | replace "\n" "\n        " }}
{{- end }}
{{- if not (kindIs "invalid" $group.server) }}
        {{- include "rayllm.probe" (dict "kind" "startupProbe" "check" $group.server.startup) | replace "\n" "\n        " }}
        {{- include "rayllm.probe" (dict "kind" "livenessProbe" "check" $group.server.liveness) | replace "\n" "\n        " }}
{{- end }}
{{- if not (kindIs "invalid" $group.readiness) }}
        {{- include "rayllm.probe" (dict "kind" "readinessProbe" "check" $group.readiness) | replace "\n" "\n        " }}
{{- end }}
        {{- include "rayllm.resources" (dict "cpu" $group.podCpu "memory" $group.podMemory "extended" $group.extendedResources) | replace "\n" "\n        " }}
        {{- include "rayllm.securityContext" (dict "context" $group.pod.containerSecurityContext) | replace "\n" "\n        " }}
        {{- include "rayllm.volumeMounts" (dict "volumes" $.Values.storage "code" $.Values.code "serving" $.Values.serving "ingressCode" $.Values.ingressCode "keysSecret" $group.pod.keysSecret) | replace "\n" "\n        " }}
{{- if not (kindIs "invalid" $group.pod.gracePeriod) }}
      terminationGracePeriodSeconds: {{ include "rayllm.yaml" $group.pod.gracePeriod }}
{{- end }}
      {{- include "rayllm.podFields" (dict "root" $ "pod" $group.pod) | replace "\n" "\n      " }}
{{- if or (or (or $.Values.storage (not (kindIs "invalid" $.Values.code))) (not (kindIs "invalid" $.Values.serving))) (not (kindIs "invalid" $group.pod.keysSecret)) }}
      volumes:
      {{- include "rayllm.volumes" (dict "volumes" $.Values.storage) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "code" "code" $.Values.code) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "serving" "code" $.Values.serving) | replace "\n" "\n      " }}
      {{- include "rayllm.codeVolume" (dict "name" "ingress-code" "code" $.Values.ingressCode) | replace "\n" "\n      " }}
      {{- include "rayllm.keysVolume" (dict "secret" $group.pod.keysSecret) | replace "\n" "\n      " }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The spec of a RayCluster, for RayService, RayCluster and RayJob: a head without replicas, and workers. Imported with
   its context. */}}
{{- /* To add its finalizer, KubeRay writes the whole object back as its Go types spell it. What it changes by that it owns
   from then on, and every later server-side apply of this manifest would be a conflict. So the spec is spelled as Go
   does: canonical quantities, no empty optional fields, and structs that are always there (template.metadata,
   scaleStrategy) although they are empty. Seen with KubeRay 1.6.2. */}}
