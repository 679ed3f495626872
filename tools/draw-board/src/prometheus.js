// Questions to Prometheus. Whoever opens the page serves /api/ from the Prometheus of the picture.

/** Returns the data of one answer of Prometheus' HTTP API, or throws its error. */
export async function ask(path, parameters) {
  const response = await fetch(`/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const answer = await response.json();
  if (answer.status !== 'success') {
    throw new Error(answer.error);
  }
  return answer.data;
}

/** Returns the series of a query at one moment (milliseconds). */
export async function askOnce(query, at) {
  const { result } = await ask('query', { query, time: at / 1000 });
  return result.map(({ metric, value }) => ({ metric, values: [value] }));
}

/** Returns the series of a query over a time range, at multiples of the step (milliseconds). */
export async function askOverTime(query, range, step) {
  const aligned = (time) => (Math.floor(time.valueOf() / step) * step) / 1000;
  const { result } = await ask('query_range', {
    query,
    start: aligned(range.from),
    end: aligned(range.to),
    step: step / 1000,
  });
  return result;
}
