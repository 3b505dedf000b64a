{{/* Beginning of all names: each release has objects of its own; those of the release pulsar-readonly are named as in manifests/. */}}
{{- define "operator.fullname" -}}
{{- $release := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{ .Values.fullnameOverride | default $release | trunc 54 | trimSuffix "-" }}
{{- end }}

{{/* The name of the operator's objects. */}}
{{- define "operator.name" -}}
{{ include "operator.fullname" . }}-operator
{{- end }}

{{/* What selects the operator's pods, the same for every release: network policies of pools admit pods with this label. */}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: pulsar-readonly-operator
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
{{ include "operator.selector" . }}
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
