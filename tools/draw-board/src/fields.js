// How a panel's field configuration reaches its fields: Grafana's own engine, with a registry of what our boards set.
import * as d from '@grafana/data';

const isNumber = (field) => field.type === d.FieldType.number;

/** Returns an option of a field, which overrides may change. */
function option(id, process = d.identityOverrideProcessor, shouldApply = () => true) {
  return {
    id,
    path: id,
    name: id,
    process,
    shouldApply,
    settings: {},
    editor: () => null,
    override: () => null,
  };
}

const STANDARD = [
  option('displayName', d.displayNameOverrideProcessor),
  option('noValue', d.displayNameOverrideProcessor),
  option('unit', d.unitOverrideProcessor),
  option('min', d.numberOverrideProcessor, isNumber),
  option('max', d.numberOverrideProcessor, isNumber),
  option('decimals', d.numberOverrideProcessor, isNumber),
  option('color'),
  option('links'),
  option('mappings'),
  option('thresholds'),
];

function customNames(fieldConfig) {
  const own = Object.keys(fieldConfig.defaults.custom);
  const overridden = fieldConfig.overrides
    .flatMap((rule) => rule.properties.map((property) => property.id))
    .filter((id) => id.startsWith('custom.'))
    .map((id) => id.slice('custom.'.length));
  return [...new Set([...own, ...overridden])];
}

/** Returns the lowest step of thresholds as Grafana has it: from minus infinity on. */
function withLowest(thresholds) {
  const steps = thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
  return { ...thresholds, steps };
}

/** Returns the field configuration of a panel, complete with what Grafana fills in for its type. */
export function completed(panel, custom) {
  const { defaults, overrides } = panel.fieldConfig;
  return {
    defaults: {
      ...defaults,
      thresholds: withLowest(defaults.thresholds),
      custom: { ...custom, ...defaults.custom },
    },
    overrides: overrides ?? [],
  };
}

/** Returns the frames with every field configured, so that it knows its text and color. */
export function configured(frames, fieldConfig, { theme, timeZone }) {
  const registry = new d.FieldConfigOptionsRegistry(() => [
    ...STANDARD,
    ...customNames(fieldConfig).map((name) => ({
      ...option(name),
      id: `custom.${name}`,
      isCustom: true,
    })),
  ]);
  const fields = d.applyFieldOverrides({
    data: frames,
    fieldConfig,
    fieldConfigRegistry: registry,
    replaceVariables: (text) => text,
    theme,
    timeZone,
  });
  d.cacheFieldDisplayNames(fields); // the table reads the names that this leaves in the fields
  return fields;
}

/** Some of Grafana's transformations have an old name, too. */
function uniqueById(transformations) {
  return [...new Map(transformations.map((one) => [one.id, one])).values()];
}

/** Makes Grafana's transformations known to its engine. */
export function registerTransformations() {
  const known = uniqueById(Object.values(d.standardTransformers));
  d.standardTransformersRegistry.setInit(() =>
    known.map((transformation) => ({
      id: transformation.id,
      name: transformation.name,
      transformation,
      editor: () => null,
    })),
  );
}
