// The queries of a panel, as Grafana's data frames.
import * as d from '@grafana/data';
import { askOnce, askOverTime } from './prometheus.js';
import { fill } from './variables.js';

const SPECIAL = { '+Inf': Infinity, '-Inf': -Infinity };

/** Returns the time range of a panel: its own relative one, or the dashboard's. */
export function rangeOf(panel, range) {
  if (!panel.timeFrom) {
    return range;
  }
  const from = range.to.valueOf() - d.rangeUtil.intervalToMs(panel.timeFrom);
  return d.makeTimeRange(d.dateTime(from), range.to);
}

/** Returns the step of a query over time (milliseconds): one sample a pixel, and not below the panel's interval. */
function stepOf(panel, range, width, scrapeInterval) {
  const points = panel.maxDataPoints ?? Math.floor(width);
  return d.rangeUtil.calculateInterval(range, points, panel.interval ?? scrapeInterval).intervalMs;
}

function legendOf(format, metric) {
  if (format === '__auto') {
    return undefined;
  }
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');
}

function frameOf(target, { metric, values }, step) {
  return d.createDataFrame({
    refId: target.refId,
    meta: { type: 'timeseries-multi' },
    fields: [
      {
        name: 'Time',
        type: d.FieldType.time,
        config: { interval: step },
        values: values.map(([second]) => Math.round(second * 1000)),
      },
      {
        name: 'Value',
        type: d.FieldType.number,
        labels: metric,
        config: { displayNameFromDS: legendOf(target.legendFormat, metric) },
        values: values.map(([, text]) => SPECIAL[text] ?? Number(text)),
      },
    ],
  });
}

/** Returns a frame for each series that the queries of a panel answer with. */
export async function framesOf(panel, { range, variables, width, scrapeInterval }) {
  const step = stepOf(panel, range, width, scrapeInterval);
  const span = `${Math.round((range.to.valueOf() - range.from.valueOf()) / 1000)}s`;
  const answers = panel.targets.map(async (target) => {
    const query = fill(target.expr, variables).replaceAll('$__range', span);
    const series = target.instant
      ? await askOnce(query, range.to.valueOf())
      : await askOverTime(query, range, step);
    return series.map((one) => frameOf(target, one, step));
  });
  return (await Promise.all(answers)).flat();
}
