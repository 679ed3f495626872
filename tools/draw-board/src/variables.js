// Dashboard variables: their values, and how they are written into a query.
import { ask } from './prometheus.js';

const LABEL_VALUES = /^label_values\((.+), (\w+)\)$/s;
const REFERENCE = /\$\{(\w+)(?::(\w+))?\}|\$(\w+)/g;

/** Escapes a text for a regular expression inside a quoted PromQL string, as Grafana does. */
function escapedTwice(text) {
  return text.replace(/\\/g, '\\\\\\\\').replace(/[$^*{}[\]'+?.()|]/g, '\\\\$&');
}

function escapedOnce(text) {
  return text.replace(/[\\^$*+?.()|[\]{}/]/g, '\\$&');
}

function anyOf(texts) {
  return texts.length === 1 ? texts[0] : `(${texts.join('|')})`;
}

/** Returns `text` with its variables filled in. Names that are no variables stay. */
export function fill(text, variables) {
  return text.replace(REFERENCE, (whole, braced, format, plain) => {
    const variable = variables[braced ?? plain];
    if (!variable) {
      return whole;
    }
    if (variable.allValue) {
      return variable.allValue;
    }
    if (format === 'regex') {
      return anyOf(variable.values.map(escapedOnce));
    }
    return variable.many ? anyOf(variable.values.map(escapedTwice)) : variable.values.join();
  });
}

/** Returns the values that a query variable can have. */
async function possible(variable, variables, range) {
  const [, selector, label] = fill(variable.query.query, variables).match(LABEL_VALUES);
  return ask(`label/${label}/values`, {
    'match[]': selector,
    start: range.from.valueOf() / 1000,
    end: range.to.valueOf() / 1000,
  });
}

/** Returns the variables by name, in the order in which they depend on each other. `given` has values by name. */
export async function chosen(dashboard, given, range) {
  const variables = {};
  for (const variable of dashboard.templating.list) {
    const { name, type, multi: many, includeAll, allValue, hide } = variable;
    const known = type === 'query' ? await possible(variable, variables, range) : [];
    const wished = given[name] ? [given[name]] : [];
    const wantsAll = includeAll && wished.length === 0;
    let values = wished;
    if (wished.length === 0 && type === 'query') {
      values = wantsAll ? known : known.slice(0, 1);
    }
    variables[name] = {
      values,
      many,
      allValue: wantsAll ? allValue : undefined,
      label: variable.label || name,
      hidden: hide === 2,
      text: wantsAll ? 'All' : values.join(' + '),
    };
    if (type === 'datasource') {
      variables[name].text = 'Prometheus';
    }
  }
  return variables;
}

