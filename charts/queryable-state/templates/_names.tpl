{{/* Names, labels and images. */}}
{{- define "qss.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 45 characters: what is made from it has longer names. */}}
{{- define "qss.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "qss.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name is not the release's: the NetworkPolicies of stores let pods of just this one in. */}}
{{- define "qss.selectorLabels" -}}
app.kubernetes.io/name: queryable-state-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "qss.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: queryable-state
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "qss.labels" -}}
{{ include "qss.selectorLabels" . }}
{{ include "qss.commonLabels" . }}
{{- end -}}

{{- define "qss.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "qss.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* With a digest, only that decides what runs: a tag beside it is for readers. */}}
{{- define "qss.image" -}}
{{- if .image.digest -}}
{{- printf "%s%s@%s" .image.repository (ternary (printf ":%s" .image.tag) "" (ne .image.tag "")) .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* A namespaced release of one name may be in two namespaces: what has no namespace itself is named by both. */}}
{{- define "qss.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "qss.fullname" .) -}}
{{- end -}}
