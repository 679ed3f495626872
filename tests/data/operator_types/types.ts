export type { IPodMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";
export type { IScrapeConfig } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1alpha1/ScrapeConfig";
export type { IPrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
