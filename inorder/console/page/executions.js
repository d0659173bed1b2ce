// The list of executions: live, filtered in the page, with only the visible rows in the document.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "inorder/html";
import { get, saved } from "inorder/api";
import { change, href } from "inorder/route";
import {
  Empty,
  ErrorBox,
  Icon,
  Key,
  Loading,
  Mono,
  Outcome,
  SearchBox,
  When,
  useNarrow,
  useNow,
} from "inorder/parts";
import { ago, outcome, plain, plural, span } from "inorder/words";

const POLL_MILLISECONDS = 1500;
const RANGES = { "5m": 300, "15m": 900, "1h": 3600, "3h": 10800, "24h": 86400 };
const RANGE_STEP = 5000; // milliseconds

// Kept when the view changes, so that a second visit reads only what is new.
let known = { revision: undefined, byArn: new Map(), rows: null, isLoading: true };

async function refresh() {
  const found = await get("/api/executions", { revision: known.revision });
  const byArn = found.is_whole ? new Map() : known.byArn;
  for (const row of found.executions) {
    const searched =
      `${row.key ?? row.record_id ?? ""}\n${row.id}\n${row.sequencer ?? ""}`.toLowerCase();
    byArn.set(row.arn, { ...row, searched });
  }
  // ISO 8601 sorts as text.
  const rows =
    found.is_whole || found.executions.length
      ? [...byArn.values()].sort((a, b) => (b.started ?? "").localeCompare(a.started ?? "", "en"))
      : known.rows;
  known = { revision: found.revision, byArn, rows, isLoading: found.is_loading ?? false };
}

export function useExecutions(isLive) {
  const [state, setState] = useState(known);
  useEffect(() => {
    let timer;
    let isOver = false;
    const read = async () => {
      const error = await refresh().then(
        () => null,
        (each) => each,
      );
      if (isOver) return;
      setState({ ...known, error });
      if (isLive && !saved) timer = setTimeout(read, known.isLoading ? 300 : POLL_MILLISECONDS);
    };
    read();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isLive]);
  return state;
}

export function Executions({ parameters, stack }) {
  const { q = "", range = "", paused } = parameters;
  const { rows, error, isLoading } = useExecutions(!paused);
  const wanted = useMemo(() => new Set(parameters.outcome?.split(",")), [parameters.outcome]);
  const now = useNow(Boolean(range) && !saved && !paused); // else rows stay until another one comes
  const [inRange, found, counts] = useMemo(() => {
    const since =
      RANGES[range] && !saved ? new Date(Date.now() - RANGES[range] * 1000).toISOString() : "";
    const text = q.trim().toLowerCase();
    const fitting = (rows ?? []).filter(
      (row) => (row.started ?? since) >= since && row.searched.includes(text),
    );
    const count = new Map();
    for (const { ended_as: name } of fitting) count.set(name, (count.get(name) ?? 0) + 1);
    return [
      fitting.length,
      wanted.size ? fitting.filter((row) => wanted.has(row.ended_as)) : fitting,
      count,
    ];
  }, [rows, q, range, wanted, Math.floor(now / RANGE_STEP)]);
  const toggle = (name) => {
    const next = new Set(wanted);
    if (!next.delete(name)) next.add(name);
    change({ outcome: [...next].join(",") });
  };
  const part = found.length === rows?.length ? "" : `${found.length.toLocaleString("en")} of `;
  const names = [...new Set([...counts.keys(), ...wanted])].sort(
    (a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0),
  );
  return html`<section class="executions">
    <div class="title"><h1 tabindex="-1">Executions</h1>
      <p class="quiet-text"
        role="status">${rows && `${part}${plural(rows.length, "execution")}`}</p>
      ${
        !saved &&
        html`<button class="live" aria-pressed=${!paused} onClick=${() => change({ paused: paused ?
          "" : "1" })}>
        <span class="pulse" aria-hidden="true"></span>${paused ? "Paused" : "Live"}</button>`}
    </div>
    <div class="filters" role="search" aria-label="Filter executions">
      <${SearchBox} label="Key, ID or sequencer" value=${q} />
      ${!saved && html`<label class="select"><span class="hidden">Started</span>
        <select value=${range} onChange=${(event) => change({ range: event.target.value })}>
        <option value="">Any time</option>${Object.keys(RANGES).map((each) => html`<option
          value=${each}>Last ${each.replace("m", " min").replace("h", " h")}</option>`,
        )}</select></label>`}
      <div class="chips" role="group" aria-label="Outcomes">
        ${names.map((name) => html`<button key=${name} class="chip ${outcome(name).tone}"
            aria-pressed=${wanted.has(name)}
          onClick=${() => toggle(name)}>
          <${Icon} name=${outcome(name).icon} />${outcome(name).text} <span
            class="count">${(counts.get(name) ?? 0).toLocaleString("en")}</span></button>`)}
        ${(wanted.size > 0 || q || range) && html`<button class="plain"
          onClick=${() => change({ q: "", range: "", outcome: "" })}>Clear filters</button>`}
      </div>
    </div>
    ${error && html`<${ErrorBox} error=${error} />`}
    ${
      !rows
        ? !error && html`<${Loading} what="executions" />`
        : found.length
          ? html`<${Table} rows=${found} />`
          : isLoading
            ? html`<${Loading} what="executions" />`
            : html`<${Empty} icon="search" title=${
                inRange || rows.length
                  ? "No execution fits the filters."
                  : "There are no executions yet."
              }>
        ${
          rows.length
            ? "Clear a filter to see others."
            : "Upload an object to the input bucket, and its execution appears here."
        }<//>`}
    ${stack?.notes.map((note) => html`<p class="note" key=${note}><${Icon} name="question" />${note}
    </p>`)}
  </section>`;
}

const COLUMNS = ["Outcome", "Key", "Started (UTC)", "Duration", "Attempt", "Sequencer"];

const MORE = 8; // rows above and below those in sight

function Table({ rows }) {
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const size = useNarrow() ? 76 : 46; // pixels: the height of each row, as in the style
  const longest = useMemo(
    () => rows.reduce((most, row) => Math.max(most, row.seconds ?? 0), 1),
    [rows],
  );
  // What is read stays where it is when new rows come above it.
  const first = Math.min(Math.floor(top / size), rows.length - 1);
  const anchor = useRef(null);
  useLayoutEffect(() => {
    const { arn, index } = anchor.current ?? {};
    const at = top > 4 ? rows.findIndex((row) => row.arn === arn) : -1;
    if (at > index) scroller.current.scrollTop += (at - index) * size;
  }, [rows]);
  useLayoutEffect(() => {
    anchor.current = { arn: rows[first].arn, index: first };
  });
  const from = Math.max(first - MORE, 0);
  const inSight = Math.ceil(Math.max(innerHeight, screen.height) / size);

  const move = (event) => {
    const step = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: 10,
      PageUp: -10,
      Home: -rows.length,
      End: rows.length,
    }[event.key];
    const row = event.target.closest?.("[data-index]");
    if (!step || !row) return;
    event.preventDefault();
    const next = Math.min(Math.max(Number(row.dataset.index) + step, 0), rows.length - 1);
    const box = scroller.current;
    const lowest = (next + 1) * size - box.clientHeight;
    box.scrollTop = Math.min(Math.max(box.scrollTop, lowest), next * size);
    const focus = (tries) => {
      const link = box.querySelector(`[data-index="${next}"] a`);
      if (link) link.focus({ preventScroll: true });
      else if (tries) requestAnimationFrame(() => focus(tries - 1));
    };
    focus(10);
  };
  return html`<div class="table" role="table" aria-label="Executions, the newest first"
    aria-rowcount=${rows.length + 1}>
    <div role="rowgroup">
      <div class="row head" role="row" aria-rowindex="1">
      ${COLUMNS.map((name) => html`<span role="columnheader">${name}</span>`)}</div>
      </div>
    <div class="scroller" ref=${scroller} role="rowgroup" onKeyDown=${move}
      onScroll=${() => setTop(scroller.current.scrollTop)}>
      <div class="all-rows" role="presentation" style=${{ height: `${rows.length * size}px` }}>
      ${rows.slice(from, first + inSight + MORE).map(
        (row, index) => html`<${Row} key=${row.arn} row=${row} index=${from + index}
          top=${(from + index) * size} longest=${longest} />`)}
    </div></div>
  </div>`;
}

function Row({ row, index, top, longest }) {
  return html`<div class="row ${outcome(row.ended_as).tone}" role="row"
    aria-rowindex=${index + 2} data-index=${index} style=${{ transform: `translateY(${top}px)` }}>
    <span role="cell" class="cell-outcome"><${Outcome} name=${row.ended_as} /></span>
    <span role="cell" class="cell-key"><a class="whole" href=${href("execution", row.arn)}
      title=${plain(row.key ?? row.record_id ?? row.id)}>
      <${Key}>${row.key ?? row.record_id ?? row.id}<//></a>
      ${
        row.key &&
        html`<a class="to-lanes" href=${href("key", row.key, { version: row.version_id })}
        aria-label=${`Timeline of ${plain(row.key)}`} title="Timeline of this key">
          <${Icon} name="lanes" /></a>`}</span>
    <span role="cell" class="cell-started"><${When} at=${row.started} /> <span class="ago">
    ${ago(row.started)}</span></span>
    <span role="cell" class="cell-took"><${Took} row=${row} longest=${longest} /></span>
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

/** How long it took; the hatched part of the bar is what it waited. */
function Took({ row, longest }) {
  if (row.seconds === null)
    return html`<span class="quiet-text">${row.status === "RUNNING" ? "running" : "not known"}
      </span>`;
  const width = (seconds) => ({ width: `${Math.max(100 * Math.sqrt(seconds / longest), 1)}%` });
  return html`<span class="took">
    <span>${span(row.seconds)}${row.waited > 0 && html` <span
      class="waited">waited ${span(row.waited)}</span>`}</span>
    <span class="bar" style=${width(row.seconds)} aria-hidden="true">
      <i style=${{ width: `${(100 * (row.waited ?? 0)) / (row.seconds || 1)}%` }}></i></span>
      </span>`;
}
