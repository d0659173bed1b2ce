// The list of executions: live, filtered in the page, the newest first.
import { html, useEffect, useMemo, useState } from "inorder/html";
import { get, saved } from "inorder/api";
import { change, href } from "inorder/route";
import { ErrorBox, Icon, Key, Loading, Mono, Outcome, When } from "inorder/parts";
import { ago, nameOf, outcome, plain, plural, since, span } from "inorder/words";

const POLL_MILLISECONDS = 1500;

// Kept when the view changes, so that a second visit reads only what is new.
let list = { revision: undefined, byArn: new Map(), rows: null, isLoading: true, most: 0 };

async function refresh() {
  const news = await get("/api/executions", { revision: list.revision });
  const byArn = news.is_whole ? new Map() : list.byArn;
  for (const row of news.executions) {
    const searched =
      `${row.key ?? row.record_id ?? ""}\n${row.id}\n${row.sequencer ?? ""}`.toLowerCase();
    byArn.set(row.arn, { ...row, searched });
  }
  const isNew = news.is_whole || news.executions.length > 0;
  const rows = isNew
    ? [...byArn.values()] // ISO 8601 sorts as text
        .sort((a, b) => (b.seen ?? "").localeCompare(a.seen ?? "", "en"))
        .slice(0, news.most)
    : list.rows;
  list = {
    revision: news.revision,
    byArn: isNew ? new Map(rows.map((row) => [row.arn, row])) : byArn,
    rows,
    isLoading: news.is_loading ?? false,
    most: news.most,
  };
}

function useExecutions() {
  const [state, setState] = useState(list);
  useEffect(() => {
    let timer;
    let isOver = false;
    const read = async () => {
      const error = await refresh().catch((reason) => reason);
      if (isOver) return;
      setState({ ...list, error });
      if (!saved) timer = setTimeout(read, list.isLoading ? 300 : POLL_MILLISECONDS);
    };
    read();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  return state;
}

export function Executions({ parameters, stack }) {
  const { q = "" } = parameters;
  const { rows, error, isLoading, most } = useExecutions();
  const wanted = useMemo(() => new Set(parameters.outcome?.split(",")), [parameters.outcome]);
  const [shown, counts] = useMemo(() => {
    const text = q.trim().toLowerCase();
    const fitting = (rows ?? []).filter((row) => row.searched.includes(text));
    const count = new Map();
    for (const { ended_as: name } of fitting) count.set(name, (count.get(name) ?? 0) + 1);
    return [wanted.size ? fitting.filter((row) => wanted.has(row.ended_as)) : fitting, count];
  }, [rows, q, wanted]);
  const toggle = (name) => {
    const next = new Set(wanted);
    if (!next.delete(name)) next.add(name);
    change({ outcome: [...next].join(",") });
  };
  const open = (event) => {
    const named = event.key === "Enter" && only(shown, q.trim());
    if (named) location.hash = href("key", named.key, { version: named.version_id });
  };
  const newest = rows?.length === most ? "the newest " : "";
  const part = shown.length === rows?.length ? "" : `${shown.length.toLocaleString("en")} of `;
  const names = [...new Set([...counts.keys(), ...wanted])].sort(
    (a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0),
  );
  return html`<section class="executions">
    <div class="title"><h1 tabindex="-1">Executions</h1>
      <p class="quiet-text"
        role="status">${rows && `${part}${newest}${plural(rows.length, "execution")} ${since(stack)}`}</p>
    </div>
    <div class="filters" role="search" aria-label="Filter executions">
      <label class="search"><${Icon} name="search" />
        <span class="hidden">Key, ID or sequencer</span>
        <input id="search" type="search" placeholder="Key, ID or sequencer" value=${q} dir="auto"
          enterkeyhint="go" onKeyDown=${open}
          onInput=${(event) => change({ q: event.target.value })} /></label>
      <div class="chips" role="group" aria-label="Outcomes">
        ${names.map((name) => html`<button key=${name} class="chip ${outcome(name).tone}"
            aria-pressed=${wanted.has(name)}
          onClick=${() => toggle(name)}>
          <${Icon} name=${outcome(name).icon} />${outcome(name).text} <span
            class="count">${(counts.get(name) ?? 0).toLocaleString("en")}</span></button>`)}
        ${(wanted.size > 0 || q) && html`<button class="plain"
          onClick=${() => change({ q: "", outcome: "" })}>Clear filters</button>`}
      </div>
    </div>
    ${error && html`<${ErrorBox} error=${error} />`}
    ${
      shown.length
        ? html`<${Table} rows=${shown} />`
        : rows && !isLoading
          ? html`<p class="empty">No execution fits.${
              q && html` <a href=${href("key", q)}>Timeline of <${Key}>${q}<//></a>`}</p>`
          : (rows || !error) && html`<${Loading} name="executions" />`}
    ${stack?.notes.map((note) => html`<p class="note" key=${note}><${Icon} name="question" />${note}
    </p>`)}
  </section>`;
}

/** A row of the only key that a text names: as a whole, or else as a part; or nothing. */
function only(rows, text) {
  const exact = rows.filter((row) => row.key === text);
  const named = exact.length ? exact : rows;
  const [first] = named;
  return text && first?.key && named.every((row) => row.key === first.key)
    ? { ...first, version_id: onlyValue(named.map((row) => row.version_id)) }
    : null;
}
const onlyValue = (values) => (new Set(values).size === 1 ? values[0] : undefined);

const COLUMNS = ["Outcome", "Key", "Started (UTC)", "Duration", "Attempt", "Sequencer"];

const PORTION = 200; // rows; with thousands, the browser would draw slowly

function Table({ rows }) {
  const [most, setMost] = useState(PORTION);
  return html`<div class="table" role="table" aria-label="Executions, the newest first"
    aria-rowcount=${rows.length + 1}>
    <div role="rowgroup"><div class="row head" role="row">
      ${COLUMNS.map((name) => html`<span role="columnheader">${name}</span>`)}</div></div>
    <div class="all-rows" role="rowgroup">${rows.slice(0, most).map(
      (row) => html`<${Row} key=${row.arn} row=${row} />`)}</div>
  </div>
  ${rows.length > most && html`<p class="more"><button onClick=${() => setMost(most + PORTION)}>
    Show ${Math.min(PORTION, rows.length - most)} more</button></p>`}`;
}

function Row({ row }) {
  return html`<div class="row ${outcome(row.ended_as).tone}" role="row">
    <span role="cell" class="cell-outcome"><${Outcome} name=${row.ended_as} /></span>
    <span role="cell" class="cell-key"><a class="whole" href=${href("execution", row.arn)}
      title=${plain(nameOf(row))}>
      <${Key}>${nameOf(row)}<//></a>
      ${
        row.key &&
        html`<a class="to-lanes" href=${href("key", row.key, { version: row.version_id })}
        aria-label=${`Timeline of ${plain(row.key)}`} title="Timeline of this key">
          <${Icon} name="lanes" /></a>`}</span>
    <span role="cell" class="cell-started"><${When} at=${row.started} /> <span class="ago">
    ${ago(row.started)}</span></span>
    <span role="cell" class="cell-took"><${Took} row=${row} /></span>
    <span role="cell" class="cell-attempt">${
      row.attempt > 1
        ? html`<span class="attempt">
      <${Icon} name="again" />${row.attempt}</span>`
        : row.attempt
    }</span>
    <span role="cell" class="cell-sequencer">${row.is_repair ? "repair" : row.sequencer &&
    html`<${Mono} cut=${12}>${row.sequencer}<//>`}</span>
  </div>`;
}

function Took({ row }) {
  if (row.seconds === null)
    return html`<span class="quiet-text">${row.status === "RUNNING" ? "running" : "not known"}
      </span>`;
  return html`<span class="took">${span(row.seconds)}${row.waited > 0 && html` <span
    class="waited">waited ${span(row.waited)}</span>`}</span>`;
}
