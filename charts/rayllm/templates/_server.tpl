{{- /* Made from server.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.serverCommand" }}
{{- if not (kindIs "invalid" $.server) }}
command:
- /bin/bash
- -c
- |
  ulimit -n 65536 2> /dev/null
  trap 'wait ${ray:-$!}; exit' USR1
  (trap 'kill -USR1 $$' EXIT; bash -c "$KUBERAY_GEN_RAY_START_CMD") &
  ray=$!
  if command -v vllm > /dev/null
  then vllm serve "$@" &
  else python3 -m vllm.entrypoints.openai.api_server --model "$@" &
  fi
  server=$!
  stop() { trap '' USR1; sleep {{ include "rayllm.yaml" $.server.drain }}; kill -TERM $server; wait $server; exit; }
  trap stop TERM
  wait $server
- vllm-server
args:
- {{ include "rayllm.yaml" $.server.modelSource }}
{{- range $argument := $.server.arguments }}
- {{ include "rayllm.yaml" $argument }}
{{- end }}
{{- end }}
{{- end }}

{{- /* vLLM's own server in a Ray worker: the container ends as soon as Ray or the server ends, and the kubelet starts both
   again. So a replica recovers from the loss of the head, of another of its pods, and of its engine. A signal tells of
   Ray's end: `wait -n` misses a process that ended before it. */}}
