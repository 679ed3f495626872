// The state timeline, which Grafana publishes no component of: boxes of our own on Grafana's axes.
import React from 'react';
import * as d from '@grafana/data';
import * as ui from '@grafana/ui';
import { mark } from './annotations.js';

const TEXT = '12px';
const TEXT_MARGIN = 4;
const FEWEST_PIXELS = 3;

/** Returns the boxes of one field: samples with the same text that follow each other are one box. */
function boxesOf(field, frame, row) {
  const [time] = frame.fields;
  const step = time.config.interval;
  const boxes = [];
  field.values.forEach((value, index) => {
    const start = time.values[index];
    const { text, color, suffix } = field.display(value);
    const words = d.formattedValueToString({ text, suffix });
    const last = boxes.at(-1);
    if (last?.text === words && start - last.end < 1) {
      last.end = start + step;
    } else {
      boxes.push({ row, start, end: start + step, text: words, color });
    }
  });
  return boxes;
}

function rowsOf(frames) {
  const fields = frames.flatMap((frame) =>
    frame.fields
      .filter((field) => field.type === d.FieldType.number)
      .map((field) => ({ field, frame, name: d.getFieldDisplayName(field, frame, frames) })),
  );
  return fields.map(({ field, frame, name }, row) => ({ name, boxes: boxesOf(field, frame, row) }));
}

function drawBox(plot, box, count, panel, theme) {
  const { ctx, bbox } = plot;
  const within = (x) => Math.min(Math.max(x, bbox.left), bbox.left + bbox.width);
  const from = within(plot.valToPos(box.start, 'x', true));
  const to = within(plot.valToPos(box.end, 'x', true));
  const slot = bbox.height / count;
  const height = slot * panel.options.rowHeight;
  const top = bbox.top + slot * box.row + (slot - height) / 2;
  const wide = Math.max(to - from, FEWEST_PIXELS);
  ctx.fillStyle = box.color;
  ctx.fillRect(from, top, wide, height);
  if (ui.measureText(box.text, parseInt(TEXT, 10)).width + 2 * TEXT_MARGIN > wide) {
    return;
  }
  ctx.fillStyle = theme.colors.getContrastText(box.color);
  ctx.font = `${TEXT} ${theme.typography.fontFamily}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  ctx.fillText(box.text, from + TEXT_MARGIN, top + height / 2);
}

function builderOf(rows, { panel, range, theme, timeZone, annotations }) {
  const builder = new ui.UPlotConfigBuilder(timeZone);
  const middles = rows.map((_, row) => rows.length - row - 0.5);
  const span = [range.from.valueOf(), range.to.valueOf()];
  builder.addScale({
    scaleKey: 'x',
    isTime: true,
    orientation: 0,
    direction: 1,
    range: () => span,
  });
  builder.addScale({
    scaleKey: 'y',
    isTime: false,
    orientation: 1,
    direction: 1,
    range: () => [0, rows.length],
  });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: 'bottom', timeZone, theme });
  builder.addAxis({
    scaleKey: 'y',
    placement: 'left',
    theme,
    splits: middles,
    values: rows.map(({ name }) => name),
    grid: { show: false },
    ticks: { show: false },
  });
  builder.addSeries({
    scaleKey: 'y',
    theme,
    pathBuilder: () => null,
    pointsBuilder: () => null,
    lineColor: 'transparent',
    showPoints: 'never',
  });
  mark(builder, annotations, theme);
  builder.addHook('draw', (plot) => {
    plot.ctx.save();
    for (const box of rows.flatMap(({ boxes }) => boxes)) {
      drawBox(plot, box, rows.length, panel, theme);
    }
    plot.ctx.restore();
  });
  return { builder, span };
}

/** A row for each series, with a box for each state. */
export function StateTimeline({ frames, width, height, ...given }) {
  const rows = rowsOf(frames);
  const { builder, span } = React.useMemo(() => builderOf(rows, given), []);
  return <ui.UPlotChart config={builder} data={[span, [0, 1]]} width={width} height={height} />;
}
