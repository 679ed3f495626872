{{/* How Prometheus scrapes a pod, for a PodMonitor or a ServiceMonitor. */}}
{{- define "exporter.endpoint" -}}
{{- $timeout := .Values.podMonitor.scrapeTimeout | default .Values.podMonitor.interval -}}
{{- if gt (include "exporter.milliseconds" $timeout | float64) (include "exporter.milliseconds" .Values.podMonitor.interval | float64) -}}
{{- fail (printf "podMonitor.scrapeTimeout: %s is longer than podMonitor.interval, %s: Prometheus refuses that" $timeout .Values.podMonitor.interval) -}}
{{- end -}}
port: metrics
path: {{ get .Values.config "web.telemetry-path" | default "/metrics" | quote }}
interval: {{ .Values.podMonitor.interval | quote }}
scrapeTimeout: {{ $timeout | quote }}
{{- if .Values.web.tls }}
scheme: https
{{- end }}
{{- with .Values.podMonitor.tlsConfig }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podMonitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
{{- end }}
relabelings:
  # The rules and dashboards know the exporters by this job.
  - targetLabel: job
    replacement: azure-scheduled-events-exporter
  # Kubernetes' own name of the VM, beside instance_info's vm_name.
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
{{- with .Values.podMonitor.relabelings }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podMonitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
