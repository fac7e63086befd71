{{- /* Made from server.yaml.j2 by `make chart`. Do not edit. */}}
{{- define "rayllm.serverCommand" }}
{{- if not (kindIs "invalid" $.server) }}
command:
- /bin/bash
- -c
- |
  ulimit -n 65536 2> /dev/null
  bash -c "$KUBERAY_GEN_RAY_START_CMD" &
  ray=$!
  if command -v vllm > /dev/null
  then vllm serve "$@" &
  else python3 -m vllm.entrypoints.openai.api_server --model "$@" &
  fi
  server=$!
  stop() { sleep {{ include "rayllm.yaml" $.server.drain }}; kill -TERM $server; wait $server; exit; }
  trap stop TERM
  while kill -0 $ray && kill -0 $server; do sleep 1 & wait $!; done 2> /dev/null
  if kill -0 $server 2> /dev/null; then wait $ray; else wait $server; fi
- vllm-server
args:
- {{ include "rayllm.yaml" $.server.modelSource }}
{{- range $argument := $.server.arguments }}
- {{ include "rayllm.yaml" $argument }}
{{- end }}
{{- end }}
{{- end }}

{{- /* vLLM's own server in a Ray worker: the container ends as soon as Ray or the server ends, and the kubelet starts both
   again. So a replica recovers from the loss of the head, of another of its pods, and of its engine. The shell
   checks both every second, since `wait -n` misses a process that ended before it. */}}
