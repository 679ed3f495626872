// The page of one dashboard. Its opener sets window.task, and awaits window.drawn:
// {height, panels: [{title, type, status, tooWide}]}, where status is "ok", "no data" or an error.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import * as d from '@grafana/data';
import * as ui from '@grafana/ui';
import { annotationsOf } from './annotations.js';
import { completed, configured, registerTransformations } from './fields.js';
import { framesOf, rangeOf } from './frames.js';
import { CUSTOM, Message, PANELS } from './panels.jsx';
import { chosen, fill } from './variables.js';

const CELL = 30;
const GAP = 8;
const MARGIN = 16;
const HEADER = 56;
const QUIET = 1500; // milliseconds without a change, after which everything is drawn
const PATIENCE = 30_000;

/** Returns a panel with its data and what it says about them. */
async function loaded(panel, stage) {
  const { theme, timeZone, variables } = stage;
  const range = rangeOf(panel, stage.range);
  const width = (panel.gridPos.w / 24) * stage.width;
  const item = { panel, range, theme, timeZone, status: 'ok' };
  item.fieldConfig = completed(panel, CUSTOM[panel.type]);
  item.annotations = stage.annotations.filter(({ shownIn }) => shownIn(panel));
  item.description = fill(panel.description, variables);
  try {
    const series = await framesOf(panel, { ...stage, range, width });
    const frames = await firstValueFrom(
      d.transformDataFrame(panel.transformations ?? [], series, { interpolate: (text) => text }),
    );
    item.frames = configured(frames, item.fieldConfig, stage);
    if (!item.frames.some((frame) => frame.length > 0)) {
      item.status = 'no data';
    }
  } catch (error) {
    item.status = error.message;
  }
  return item;
}

function Content({ item, width, height }) {
  if (item.status === 'no data') {
    return <Message>{item.fieldConfig.defaults.noValue ?? 'No data'}</Message>;
  }
  if (item.status !== 'ok') {
    return <Message>{item.status}</Message>;
  }
  const Panel = PANELS[item.panel.type];
  return (
    <ui.ErrorBoundary onError={(error) => { item.status = error.message; }}>
      {({ error }) =>
        error ? (
          <Message>{error.message}</Message>
        ) : (
          <Panel {...item} width={width} height={height} />
        )
      }
    </ui.ErrorBoundary>
  );
}

function Heading({ title, variables, range, theme, timeZone }) {
  const box = {
    border: `1px solid ${theme.colors.border.medium}`,
    padding: '4px 8px',
    marginLeft: 6,
  };
  const line = {
    display: 'flex',
    gap: 12,
    alignItems: 'center',
    height: HEADER,
    padding: `0 ${MARGIN}px`,
    whiteSpace: 'nowrap',
  };
  const shown = Object.values(variables).filter(({ hidden }) => !hidden);
  return (
    <div style={line}>
      <h4 style={{ margin: 0 }}>{title}</h4>
      {shown.map(({ label, text }) => (
        <span key={label}>
          {label}
          <span style={box}>{text || '\u00a0'}</span>
        </span>
      ))}
      <span style={{ ...box, marginLeft: 'auto' }}>
        {d.rangeUtil.describeTimeRange(range, timeZone)}
      </span>
    </div>
  );
}

function Board({ items, stage, height }) {
  const { theme, width } = stage;
  const column = (width - 2 * MARGIN + GAP) / 24;
  const background = theme.colors.background.canvas;
  return (
    <div style={{ position: 'relative', width, height, background }}>
      <Heading {...stage} />
      {items.map((item) => {
        const { x, y, w, h } = item.panel.gridPos;
        const size = { width: w * column - GAP, height: h * (CELL + GAP) - GAP };
        const place = { left: MARGIN + x * column, top: HEADER + y * (CELL + GAP) };
        return (
          <div key={item.panel.id} data-panel={item.panel.id} style={{ ...size, ...place, position: 'absolute' }}>
            <ui.PanelChrome {...size} title={item.panel.title} description={item.description}>
              {(innerWidth, innerHeight) => (
                <Content item={item} width={innerWidth} height={innerHeight} />
              )}
            </ui.PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

/** Says whether the table of a panel is wider than its panel, so that one has to scroll sideways. */
function isTooWide(panel) {
  const grid = document.querySelector(`[data-panel="${panel.id}"] [role="grid"]`);
  return grid !== null && grid.scrollWidth > grid.clientWidth;
}

/** Loads the fonts first: components measure texts before they draw them. */
async function loadFonts() {
  const weights = { Regular: 400, Medium: 500 };
  for (const [file, weight] of Object.entries(weights)) {
    const source = `url(/fonts/Inter-${file}.woff2)`;
    const font = new FontFace('Inter', source, { weight: `${weight}` });
    document.fonts.add(await font.load());
  }
}

/** Waits until nothing changes any more: components measure themselves, and icons arrive. */
function settled() {
  return new Promise((resolve) => {
    let quiet = setTimeout(resolve, QUIET);
    const observer = new MutationObserver(() => {
      clearTimeout(quiet);
      quiet = setTimeout(resolve, QUIET);
    });
    observer.observe(document.body, { attributes: true, childList: true, subtree: true });
    setTimeout(resolve, PATIENCE);
  });
}

async function draw({ dashboard, values, from, to, width, theme: mode, scrapeInterval }) {
  registerTransformations();
  await loadFonts();
  const range = d.makeTimeRange(d.dateTime(from), d.dateTime(to));
  const variables = await chosen(dashboard, values, range);
  const stage = {
    title: dashboard.title,
    theme: d.createTheme({ colors: { mode } }),
    timeZone: 'utc',
    annotations: await annotationsOf(dashboard, range, variables),
    range,
    variables,
    width,
    scrapeInterval,
  };
  const items = await Promise.all(dashboard.panels.map((panel) => loaded(panel, stage)));
  const lines = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const height = HEADER + lines * (CELL + GAP) + MARGIN;
  createRoot(document.getElementById('board')).render(
    <d.ThemeContext.Provider value={stage.theme}>
      <ui.GlobalStyles />
      <Board items={items} stage={stage} height={height} />
    </d.ThemeContext.Provider>,
  );
  await settled();
  const panels = items.map(({ panel, status }) => ({
    title: panel.title,
    type: panel.type,
    status,
    tooWide: isTooWide(panel),
  }));
  return { height, panels };
}

window.drawn = draw(window.task);
