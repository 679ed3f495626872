{{- define "exporter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "exporter.labels" -}}
{{ include "exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "exporter.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "exporter.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Where everything lies in the container. */}}
{{- define "exporter.etc" -}}/etc/azure-scheduled-events-exporter{{- end -}}
{{- define "exporter.state" -}}/var/lib/azure-scheduled-events-exporter{{- end -}}

{{/* The exporter's configuration file. */}}
{{- define "exporter.config" -}}
{{- if and .Values.approvalPolicy (hasKey .Values.config "approval.policy") -}}
{{- fail "approvalPolicy and config's approval.policy are both set: keep one" -}}
{{- end -}}
web.listen-address: {{ printf ":%d" (int .Values.port) | quote }}
{{- if .Values.web.secretName }}
web.config.file: {{ printf "%s/web/web-config.yml" (include "exporter.etc" .) | quote }}
{{- end }}
{{- if .Values.approvalPolicy }}
approval.policy: {{ printf "%s/config/policy.yaml" (include "exporter.etc" .) | quote }}
{{- end }}
{{- if .Values.alertmanager.secretName }}
alertmanager.http-config.file: {{ printf "%s/alertmanager/http-config.yml" (include "exporter.etc" .) | quote }}
{{- end }}
{{- if .Values.alertsValues }}
alerts.values: {{ printf "%s/config/alerts-values.yaml" (include "exporter.etc" .) | quote }}
{{- end }}
{{- range $flag, $value := .Values.config }}
{{ $flag }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* A probe of one of the exporter's own paths. */}}
{{- define "exporter.probe" -}}
{{- if eq .root.Values.web.probes "tcp" -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ .path }}
  port: metrics
  scheme: {{ ternary "HTTPS" "HTTP" .root.Values.web.tls }}
{{- end -}}
{{- end -}}

{{/* The ports to send to, as a JSON object: of the collector, of every Alertmanager, and of IMDS if it is elsewhere. */}}
{{- define "exporter.egressPorts" -}}
{{- $ports := dict -}}
{{- range $url := concat (list (get .Values.config "otlp.endpoint") (get .Values.config "imds.endpoint")) (splitList "," (get .Values.config "alertmanager.url")) -}}
{{- with trim $url }}{{ $_ := set $ports (include "exporter.portOf" .) "" }}{{ end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* The port of a URL, else its scheme's. */}}
{{- define "exporter.portOf" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}
