// A component for each type of panel that our boards have. All but the timeline are Grafana's own.
import React from 'react';
import * as d from '@grafana/data';
import * as ui from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { mark } from './annotations.js';
import { StateTimeline } from './timeline.jsx';

/** What Grafana fills in for each type of panel where a board says nothing. */
export const CUSTOM = {
  stat: {},
  table: { align: 'auto', cellOptions: { type: 'auto' } },
  timeseries: {
    drawStyle: 'line',
    lineInterpolation: 'linear',
    lineWidth: 1,
    fillOpacity: 0,
    gradientMode: 'none',
    showPoints: 'auto',
    pointSize: 5,
    axisPlacement: 'auto',
    thresholdsStyle: { mode: 'off' },
  },
  'state-timeline': { lineWidth: 0, fillOpacity: 70 },
};

/** A text in the middle of a panel. */
export function Message({ children }) {
  const style = {
    height: '100%',
    display: 'flex',
    alignItems: 'center',
    justifyContent: 'center',
    textAlign: 'center',
  };
  return <div style={style}>{children}</div>;
}

function Stat({ frames, fieldConfig, panel, width, height, theme, timeZone }) {
  const { options } = panel;
  const values = () =>
    d.getFieldDisplayValues({
      data: frames,
      fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables: (text) => text,
      theme,
      timeZone,
    });
  return (
    <ui.VizRepeater
      source={frames}
      renderCounter={0}
      width={width}
      height={height}
      orientation="auto"
      itemSpacing={3}
      autoGrid
      getValues={values}
      getAlignmentFactors={d.getDisplayValueAlignmentFactors}
      renderValue={({ value, width: valueWidth, height: valueHeight }) => (
        <ui.BigValue
          value={value.display}
          width={valueWidth}
          height={valueHeight}
          theme={theme}
          textMode={options.textMode}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          disableWideLayout={!options.wideLayout}
        />
      )}
    />
  );
}

function Table({ frames, fieldConfig, panel, width, height, range }) {
  return (
    <TableNG
      data={frames[0]}
      width={width}
      height={height}
      cellHeight={panel.options.cellHeight}
      initialSortBy={[]}
      timeRange={range}
      fieldConfig={fieldConfig}
      structureRev={1}
    />
  );
}

/** Returns a frame with a null wherever a sample is missing, so that a line has gaps. */
function withGaps(frame, range) {
  return d.nullToValue(
    d.applyNullInsertThreshold({
      frame,
      refFieldPseudoMin: range.from.valueOf(),
      refFieldPseudoMax: range.to.valueOf(),
    }),
  );
}

function TimeSeries({ frames, panel, width, height, range, theme, timeZone, annotations }) {
  const { legend, tooltip } = panel.options;
  return (
    <ui.TimeSeries
      frames={frames.map((frame) => withGaps(frame, range))}
      structureRev={1}
      width={width}
      height={height}
      timeRange={range}
      timeZone={timeZone}
      options={{ legend, tooltip }}
      legend={{ displayMode: 'list', placement: 'bottom', calcs: [], ...legend }}
    >
      {(config) => <Marks config={config} annotations={annotations} theme={theme} />}
    </ui.TimeSeries>
  );
}

function Marks({ config, annotations, theme }) {
  React.useLayoutEffect(() => mark(config, annotations, theme), [config]);
  return null;
}

export const PANELS = {
  stat: Stat,
  table: Table,
  timeseries: TimeSeries,
  'state-timeline': StateTimeline,
};
