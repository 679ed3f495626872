// The parts of a dashboard that the three dashboards use, put together from the types that Grafana publishes.
// What Grafana leaves open in them (options and custom fields of a panel are any objects) is closed here by panel type.
import type * as raw from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
import type { Options as BarChartOptions, FieldConfig as BarChartField } from '@grafana/schema/dist/esm/raw/composable/barchart/panelcfg/x/BarChartPanelCfg_types.gen';
import type { Options as BarGaugeOptions } from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type { Options as StatOptions } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { Options as StateTimelineOptions, FieldConfig as StateTimelineField } from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type { Options as TableOptions, FieldConfig as TableField } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type { Options as TimeSeriesOptions, FieldConfig as TimeSeriesField } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

interface Nothing {}
interface Defaults<Custom> extends Omit<raw.FieldConfig, 'custom'> { custom?: Partial<Custom> }
interface Fields<Custom> extends Omit<raw.FieldConfigSource, 'defaults'> { defaults: Defaults<Custom> }
// Grafana types a target as any object: these are the keys of its Prometheus data source.
interface Target {
  refId: string; expr: string; datasource: raw.DataSourceRef; editorMode?: 'code' | 'builder'; format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean; range?: boolean; legendFormat?: string; interval?: string; hide?: boolean;
}
interface Drawn extends Omit<raw.Panel, 'fieldConfig' | 'options' | 'type' | 'targets'> { targets: Target[] }
export interface BarChartPanel extends Drawn { type: 'barchart'; options: Partial<BarChartOptions>; fieldConfig: Fields<BarChartField> }
export interface BarGaugePanel extends Drawn { type: 'bargauge'; options: Partial<BarGaugeOptions>; fieldConfig: Fields<Nothing> }
export interface StatPanel extends Drawn { type: 'stat'; options: Partial<StatOptions>; fieldConfig: Fields<Nothing> }
export interface StateTimelinePanel extends Drawn { type: 'state-timeline'; options: Partial<StateTimelineOptions>; fieldConfig: Fields<StateTimelineField> }
export interface TablePanel extends Drawn { type: 'table'; options: Partial<TableOptions>; fieldConfig: Fields<TableField> }
export interface TimeSeriesPanel extends Drawn { type: 'timeseries'; options: Partial<TimeSeriesOptions>; fieldConfig: Fields<TimeSeriesField> }
export interface RowPanel extends Omit<raw.RowPanel, 'panels'> { panels: Nothing[] }
// Grafana's Prometheus data source keeps its own keys in annotations and query variables.
interface Annotation extends raw.AnnotationQuery { expr?: string; step?: string; titleFormat?: string; textFormat?: string; tagKeys?: string; useValueForTime?: boolean }
interface Variable extends raw.VariableModel { definition?: string }
export interface GrafanaDashboard extends Omit<raw.Dashboard, 'panels' | 'annotations' | 'templating'> {
  panels: Nothing[]; annotations: { list: Annotation[] }; templating: { list: Variable[] };
}
