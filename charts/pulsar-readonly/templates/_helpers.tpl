{{/* The name of the operator's objects: fixed, as in manifests/: one operator serves a Kubernetes cluster. */}}
{{- define "operator.name" -}}
pulsar-readonly-operator
{{- end }}

{{- define "operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "operator.name" .) }}
{{- end }}

{{- define "operator.labels" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/part-of: pulsar-readonly
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Settings that are not the operator's defaults, as environment variables: resyncSeconds is PULSAR_READONLY_RESYNC_SECONDS. */}}
{{- define "operator.environment" -}}
{{- range $name, $value := .Values.settings }}
{{- if $value }}
- name: PULSAR_READONLY_{{ $name | snakecase | upper }}
  value: {{ kindIs "string" $value | ternary $value (int $value) | quote }}
{{- end }}
{{- end }}
{{- end }}
