{{/* The name of the operator's objects: fixed, as in manifests/: one operator serves a Kubernetes cluster. */}}
{{- define "operator.name" -}}
pulsar-readonly-operator
{{- end }}

{{- define "operator.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "operator.name" .) }}
{{- end }}

{{/* Beginning of the names of admission policies: they have no namespace, and several operators for some namespaces may exist. */}}
{{- define "operator.policy" -}}
{{ include "operator.name" . }}{{ if .Values.namespaces }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* Whether a request is the operator's. An account of the usual name is limited in every namespace, as in manifests/. */}}
{{- define "operator.isAccount" -}}
{{- if .Values.serviceAccount.name -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.serviceAccount.name }}'
{{- else -}}
request.userInfo.username.startsWith('system:serviceaccount:') && request.userInfo.username.endsWith(':{{ include "operator.name" . }}')
{{- end }}
{{- end }}

{{- define "operator.labels" -}}
app.kubernetes.io/name: {{ include "operator.name" . }}
app.kubernetes.io/part-of: pulsar-readonly
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* No default: a short name would be that of a stranger on a public registry. */}}
{{- define "operator.image" -}}
{{- $repository := required "image.repository is missing: name the operator's image in your registry, for example --set image.repository=images.example.org/pulsar-readonly/operator" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
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
