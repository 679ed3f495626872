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
{{- if include "exporter.alertsValues" . }}
alerts.values: {{ printf "%s/config/alerts-values.yaml" (include "exporter.etc" .) | quote }}
{{- end }}
{{- range $flag, $value := .Values.config }}
{{ $flag }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/*
The settings for which the alerts were rendered, as YAML; nothing for the defaults. With the chart's own rules these are the
settings of the chart's rules, so that pushed alerts are the same.
*/}}
{{- define "exporter.alertsValues" -}}
{{- $own := .Files.Get "files/alerts-values.yaml" -}}
{{- if and .Values.prometheusRule.enabled $own -}}
{{- $rendered := fromYaml $own -}}
{{- range $name, $value := .Values.alertsValues -}}
{{- if not (hasKey $rendered $name) -}}
{{- fail (printf "alertsValues has %s, which is no setting of pushed alerts: see files/alerts-values.yaml of this chart" $name) -}}
{{- end -}}
{{- $ours := get $rendered $name -}}
{{- $ours = ternary (join "," (default list $ours)) (toString $ours) (kindIs "slice" $ours) -}}
{{- if ne (toString $value | replace " " "") (replace " " "" $ours) -}}
{{- fail (printf "alertsValues has %s %v, but prometheusRule.enabled installs rules for %s: export the chart with azure-scheduled-events-exporter assets export DIR --set %s=%v, or set prometheusRule.enabled to false" $name $value $ours $name $value) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (gt (int (include "exporter.seconds" .Values.podMonitor.interval)) (int (include "exporter.seconds" (get $rendered "scrape.interval")))) -}}
{{- fail (printf "podMonitor.interval is %s, but the rules of prometheusRule are for scrapes every %s and would lose events between them: keep %s, or export the chart with azure-scheduled-events-exporter assets export DIR --set scrape.interval=%s" .Values.podMonitor.interval (get $rendered "scrape.interval") (get $rendered "scrape.interval") .Values.podMonitor.interval) -}}
{{- end -}}
{{- with .Values.prometheusRule.runbooksUrl }}{{ $own = regexReplaceAll "(?m)^runbooks.url: .*$" $own (printf "runbooks.url: '%s'" (trimSuffix "/" .)) }}{{ end -}}
{{- with .Values.prometheusRule.dashboardsUrl }}{{ $own = regexReplaceAll "(?m)^dashboards.url: .*$" $own (printf "dashboards.url: '%s'" (trimSuffix "/" .)) }}{{ end -}}
{{- if get .Values.config "alertmanager.url" -}}{{- $own -}}{{- end -}}
{{- else if .Values.alertsValues -}}
{{- toYaml .Values.alertsValues -}}
{{- end -}}
{{- end -}}

{{/* A duration such as 1m30s in seconds, rounded down. */}}
{{- define "exporter.seconds" -}}
{{- $sum := 0.0 -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 "w" 604800.0 "y" 31536000.0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $sum = addf $sum (mulf (float64 (regexFind "[0-9]+" .)) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
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
