{{/* What the generated templates are made with. This file is written by hand. */}}

{{/* A value as YAML on one line: a scalar, or a flow collection with sorted keys. All text is in double quotes. */}}
{{- define "rayllm.yaml" -}}
{{- if kindIs "string" . -}}
{{- $text := toRawJson . -}}
{{- /* YAML does not allow these characters, takes them for line breaks, or they hide or reorder text. */ -}}
{{- range regexFindAll "[^\\x20-\\x7e\\xa0-\\x{200a}\\x{2010}-\\x{2027}\\x{202f}-\\x{205f}\\x{2070}-\\x{d7ff}\\x{e000}-\\x{fefe}\\x{ff00}-\\x{fffd}\\x{10000}-\\x{10ffff}]" $text -1 | uniq -}}
{{- $text = replace . (printf "%+q" . | trimAll "\"" | replace "\\x" "\\u00") $text -}}
{{- end -}}
{{- $text -}}
{{- else if kindIs "map" . -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}
{{- $parts = append $parts (printf "%s: %s" (include "rayllm.yaml" $key) (include "rayllm.yaml" $value)) -}}
{{- end -}}
{{- printf "{%s}" (join ", " $parts) -}}
{{- else if kindIs "slice" . -}}
{{- $parts := list -}}
{{- range . -}}
{{- $parts = append $parts (include "rayllm.yaml" .) -}}
{{- end -}}
{{- printf "[%s]" (join ", " $parts) -}}
{{- else -}}
{{- /* YAML 1.1 takes a number with an exponent but without a dot for text. */ -}}
{{- regexReplaceAll "^(-?[0-9]+)e" (toRawJson .) "${1}.0e" -}}
{{- end -}}
{{- end }}

{{/* A value as text: a number as JSON writes it, and text as it is. */}}
{{- define "rayllm.string" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end -}}
{{- end }}

{{/* The name of the service: that of the release, unless the values have one. */}}
{{- define "rayllm.name" -}}
{{- $name := .Values.name | default .Release.Name -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,45}[a-z0-9])?$" $name) -}}
{{- fail (printf "the name %q is not a DNS-1035 label of at most 47 characters: set name, or name the release so" $name) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/* The labels of every object, as JSON: those of the values, of this name, and Helm's own. */}}
{{- define "rayllm.labels" -}}
{{- $name := include "rayllm.name" . -}}
{{- $own := dict "app.kubernetes.io/instance" $name "app.kubernetes.io/part-of" $name -}}
{{- $helm := dict "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- merge $own $helm .Values.labels | toJson -}}
{{- end }}

{{/* The Serve configuration as text. */}}
{{- define "rayllm.serveConfig" -}}
{{- printf "%s\n" (include "rayllm.serveConfigText" . | trimPrefix "\n") -}}
{{- end }}

{{/* An object with what the values' patches make of it. root: the chart's root; object: its name among the patches. */}}
{{- define "rayllm.patched" -}}
{{- $text := include (printf "rayllm.object.%s" .object) .root -}}
{{- $changes := get .root.Values.patches .object -}}
{{- if and $changes (trim $text) -}}
{{- $document := fromYaml $text -}}
{{- range $change := $changes -}}
{{- $at := $document -}}
{{- range $step := initial $change.path -}}
{{- $at = index $at (ternary (int $step) $step (kindIs "slice" $at)) -}}
{{- end -}}
{{- $last := last $change.path -}}
{{- if eq $change.op "remove" -}}
{{- $_ := unset $at $last -}}
{{- else if eq $change.op "append" -}}
{{- $_ := set $at $last (concat (get $at $last) $change.value) -}}
{{- else -}}
{{- $_ := set $at $last $change.value -}}
{{- end -}}
{{- end -}}
{{- toYaml $document -}}
{{- else -}}
{{- $text -}}
{{- end -}}
{{- end }}
