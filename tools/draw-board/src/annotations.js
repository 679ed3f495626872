// Annotations: what a query of the dashboard marks on every graph.
import * as d from '@grafana/data';
import { askOverTime } from './prometheus.js';
import { fill } from './variables.js';

/** Returns the regions [{time, timeEnd, color, text, shownIn}]: samples that follow each other are one region. */
export async function annotationsOf(dashboard, range, variables) {
  const found = dashboard.annotations.list.map(async (annotation) => {
    const step = d.rangeUtil.intervalToMs(annotation.step ?? '60s');
    const series = await askOverTime(fill(annotation.expr, variables), range, step);
    return series.flatMap(({ metric, values }) => regions(annotation, metric, values, step));
  });
  return (await Promise.all(found)).flat();
}

function regions(annotation, metric, values, step) {
  const found = [];
  for (const [second, value] of values) {
    const time = second * 1000;
    const last = found.at(-1);
    if (Number(value) === 0) {
      continue;
    }
    if (last && time - last.timeEnd <= step) {
      last.timeEnd = time;
    } else {
      found.push({
        time,
        timeEnd: time,
        color: annotation.iconColor,
        text: annotation.titleFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? ''),
        shownIn: (panel) => shows(annotation.filter, panel),
      });
    }
  }
  return found;
}

/** Says whether the filter of an annotation lets a panel show it. */
function shows(filter, panel) {
  if (!filter) {
    return true;
  }
  return filter.ids.includes(panel.id) !== Boolean(filter.exclude);
}

/** Draws regions on a graph: a shade between two lines, with a triangle below, as Grafana does. */
export function mark(builder, annotations, theme) {
  builder.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    const within = (x) => Math.min(Math.max(x, bbox.left), bbox.left + bbox.width);
    for (const { time, timeEnd, color } of annotations) {
      const from = within(plot.valToPos(time, 'x', true));
      const to = within(plot.valToPos(timeEnd, 'x', true));
      const bottom = bbox.top + bbox.height;
      ctx.save();
      ctx.fillStyle = theme.visualization.getColorByName(color);
      ctx.strokeStyle = ctx.fillStyle;
      ctx.lineWidth = 2;
      ctx.setLineDash([5, 5]);
      for (const x of [from, to]) {
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bottom);
        ctx.stroke();
      }
      ctx.fillRect(from - 3, bottom, Math.max(6, to - from + 6), 5);
      ctx.globalAlpha = 0.15;
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      ctx.restore();
    }
  });
}
