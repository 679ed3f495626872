{{- define "exporter.name" -}}{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}{{- end -}}

{{- define "exporter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "exporter.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "exporter.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "exporter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "exporter.labels" -}}
{{ include "exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The labels of an object, and those of values beside them: (list . .Values.podLabels). */}}
{{- define "exporter.labelsWith" -}}
{{- $own := include "exporter.labels" (index . 0) | fromYaml -}}
{{- toYaml (mergeOverwrite $own (deepCopy (index . 1))) -}}
{{- end -}}

{{/* A duration such as 1m30s, in milliseconds. */}}
{{- define "exporter.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $sum := 0.0 -}}
{{- range $part := regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $unit := regexFind "[a-z]+$" $part -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit $part | float64) (get $units $unit | float64)) -}}
{{- end -}}
{{- $sum -}}
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
{{- range $flag, $longest := dict "poll.interval" "12h" "imds.timeout" "1h" -}}
{{- with get $.Values.config $flag -}}
{{- if gt (include "exporter.milliseconds" . | float64) (include "exporter.milliseconds" $longest | float64) -}}
{{- fail (printf "config's %s: %s is longer than %s, the longest that the exporter takes" $flag . $longest) -}}
{{- end -}}
{{- end -}}
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

{{/* The settings of the alerts: those for which the chart's rules were rendered, and alertsValues over them. */}}
{{- define "exporter.alertSettings" -}}
{{- $own := .Files.Get "files/alerts-values.yaml" | fromYaml -}}
{{- $chosen := deepCopy .Values.alertsValues -}}
{{- range $name, $_ := $chosen -}}
{{- if not (hasKey $own $name) -}}
{{- fail (printf "alertsValues has %s, which is no setting of the rules: there are %s" $name (keys $own | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- with .Values.prometheusRule.runbooksUrl }}{{ $_ := set $chosen "runbooks.url" (trimSuffix "/" .) }}{{ end -}}
{{- with .Values.prometheusRule.dashboardsUrl }}{{ $_ := set $chosen "dashboards.url" (trimSuffix "/" .) }}{{ end -}}
{{- with .Values.prometheusRule.additionalRuleLabels -}}
{{- $_ := set $chosen "labels.add" (merge (deepCopy .) (get $chosen "labels.add" | default dict)) -}}
{{- end -}}
{{- $settings := mergeOverwrite $own $chosen -}}
{{- $_ := include "exporter.checkAlertSettings" (list . $settings) -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* Fails for settings that the exporter refuses, too: an engine would refuse the rules, or alerts would notify nobody. */}}
{{- define "exporter.checkAlertSettings" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 1 -}}
{{- $reserved := $root.Files.Get "files/reserved-labels.txt" | trim -}}
{{- $added := get $settings "labels.add" | default dict -}}
{{- $kept := list -}}
{{- range get $settings "labels.keep" | join "," | splitList "," }}{{ $kept = append $kept (trim .) }}{{ end -}}
{{- range $label := concat $kept (keys $added) -}}
{{- if regexMatch (printf "^(%s)$" $reserved) $label -}}
{{- fail (printf "labels.keep and labels.add cannot have the label %s, which the rules set themselves" $label) -}}
{{- end -}}
{{- if and (has $label $kept) (hasKey $added $label) -}}
{{- fail (printf "labels.keep and labels.add both have %s: the alerts of two teams would be equal, and an engine would refuse them" $label) -}}
{{- end -}}
{{- end -}}
{{- $words := get $settings "severities" | default dict -}}
{{- $info := get $words "info" | default "info" -}}
{{- range $level := list "critical" "warning" -}}
{{- if eq $info (get $words $level | default $level) -}}
{{- fail (printf "severities gives %s and info the word %s, so alerts of the level %s would notify nobody" $level $info $level) -}}
{{- end -}}
{{- end -}}
{{- if not (get $settings "job") }}{{ fail "job is empty: it names the scrape jobs of the exporters" }}{{ end -}}
{{- end -}}

{{/* The same for exporters that push alerts; nothing for the defaults. */}}
{{- define "exporter.alertsValues" -}}
{{- $set := or .Values.alertsValues .Values.prometheusRule.runbooksUrl .Values.prometheusRule.dashboardsUrl .Values.prometheusRule.additionalRuleLabels -}}
{{- if or $set (and .Values.prometheusRule.enabled (get .Values.config "alertmanager.url")) -}}
{{- include "exporter.alertSettings" . -}}
{{- end -}}
{{- end -}}

{{/* The rules with these settings. Labels to keep are in expressions, so there is a file with a placeholder for them. */}}
{{- define "exporter.rules" -}}
{{- $own := .Files.Get "files/alerts-values.yaml" | fromYaml -}}
{{- $settings := include "exporter.alertSettings" . | fromYaml -}}
{{- range $name := list "scrape.interval" "evaluation.interval" "maintenance.equal" "maintenance.within" -}}
{{- if ne (get $own $name | join ",") (get $settings $name | join ",") -}}
{{- fail (printf "alertsValues cannot change %s of the chart's rules: export the chart with azure-scheduled-events-exporter assets export DIR --set %s=%s" $name $name (get $settings $name | join ",")) -}}
{{- end -}}
{{- end -}}
{{- $file := ternary "files/prometheus-rules.yml" "files/prometheus-rules-keep.yml" (eq (get $own "labels.keep" | join ",") (get $settings "labels.keep" | join ",")) -}}
{{- $text := .Files.Get $file | replace ", KEPT_LABELS" (get $settings "labels.keep" | join ", " | printf ", %s" | trimSuffix ", ") -}}
{{- range $name := list "job" "runbooks.url" "dashboards.url" }}{{ $text = replace (get $own $name) (get $settings $name) $text }}{{ end -}}
{{- $disabled := get $settings "alerts.disabled" | default list -}}
{{- /* Without VmNotBack, ExporterDown tells of a VM that is missing. */ -}}
{{- if or (has "VmNotBack" $disabled) (has "AzureScheduledEventVmNotBack" $disabled) -}}
{{- $text = regexReplaceAll " or \\(azure_scheduled_events:vm_missing unless [^\n]*vm_answers\\[5m\\]\\)\\)" $text "" -}}
{{- end -}}
{{- $severities := get $settings "severities" | default dict -}}
{{- $names := regexFindAll "AzureScheduledEvent[A-Za-z]+" $text -1 | uniq -}}
{{- range $name := concat $disabled (keys (omit $severities "critical" "warning" "info")) -}}
{{- if not (or (has $name $names) (has (printf "AzureScheduledEvent%s" $name) $names)) -}}
{{- fail (printf "alertsValues names %s, which is no alert: there are %s" $name ($names | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- $groups := list -}}
{{- range $group := (fromYaml $text).groups -}}
{{- $rules := list -}}
{{- range $rule := $group.rules -}}
{{- $name := get $rule "alert" | default "" -}}
{{- $short := trimPrefix "AzureScheduledEvent" $name -}}
{{- if $name -}}
{{- with coalesce (get $severities $name) (get $severities $short) (get $severities $rule.labels.severity) }}{{ $_ := set $rule.labels "severity" . }}{{ end -}}
{{- $_ := set $rule "labels" (merge (deepCopy (get $settings "labels.add" | default dict)) $rule.labels) -}}
{{- end -}}
{{- if or (not $name) (not (or (has $name $disabled) (has $short $disabled))) }}{{ $rules = append $rules $rule }}{{ end -}}
{{- end -}}
{{- $groups = append $groups (set $group "rules" $rules) -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* Of the pod, and of the exporter's container: the chart's own, and over them those of values. */}}
{{- define "exporter.podSecurityContext" -}}
{{- $own := dict "runAsNonRoot" true "runAsUser" (int64 .Values.runAsUser) "runAsGroup" (int64 .Values.runAsGroup) -}}
{{- /* The group reads its Secret, and writes an emptyDir; a hostPath stays as it is. */ -}}
{{- $_ := set $own "fsGroup" (int64 .Values.runAsGroup) -}}
{{- $_ := set $own "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.podSecurityContext)) -}}
{{- end -}}

{{- define "exporter.securityContext" -}}
{{- $own := dict "readOnlyRootFilesystem" true "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.securityContext)) -}}
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
