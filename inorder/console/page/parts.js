// Small parts that several views use.
import { html, useCallback, useEffect, useRef, useState } from "inorder/html";
import { get } from "inorder/api";
import { clock, day, outcome, plain, short } from "inorder/words";

// 16 by 16, drawn with a stroke.
const ICONS = {
  check: "M3.5 8.5l3 3 6-7",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  pause: "M6 4.5v7M10 4.5v7",
  stop: "M5 5h6v6H5z",
  skip: "M3 11.5c1-5 6-6 9-3.5M12.5 4.5V8.5H8.5",
  copies: "M3 5.5h6.5V12H3zM6.5 5.5V3H13v6.5H9.5",
  again: "M12.5 8a4.5 4.5 0 1 1-1.4-3.3M12.5 2.5v3h-3",
  clock: "M8 4.5V8l2.5 1.5M13.5 8A5.5 5.5 0 1 1 2.5 8a5.5 5.5 0 0 1 11 0z",
  dots: "M4 8h.01M8 8h.01M12 8h.01",
  question: "M6 6.2a2 2 0 1 1 2.6 1.9c-.5.2-.6.6-.6 1.2M8 12h.01",
  alert: "M8 4v5M8 11.9h.01",
  lock: "M4.5 7.5h7v5h-7zM6 7.5V5.5a2 2 0 0 1 4 0v2",
  lanes: "M2.5 4h5M5 8h6M8 12h5.5",
  task: "M5 2.5h1.5L11 13.5h2M6.9 7.5L4 13.5",
  data: "M3.5 4.5c0-2.2 9-2.2 9 0v7c0 2.2-9 2.2-9 0zM3.5 4.5c0 2.2 9 2.2 9 0",
  queue: "M2.5 4.5h11v7h-11zM2.5 5l5.5 4 5.5-4",
  choice: "M8 2.5L13.5 8 8 13.5 2.5 8z",
  pass: "M3 8h10M10 5l3 3-3 3",
  search: "M11.5 7A4.5 4.5 0 1 1 2.5 7a4.5 4.5 0 0 1 9 0zM10.5 10.5l3 3",
  minus: "M3.5 8h9",
  next: "M6.5 4l4 4-4 4",
};
export const iconPath = (name) => ICONS[name] ?? ICONS.question;
export const Icon = ({ name, size = 16 }) =>
  html`<svg class="icon" width=${size} height=${size} viewBox="0 0 16 16" aria-hidden="true"
  focusable="false"><path d=${iconPath(name)} /></svg>`;

export const Badge = ({ tone, icon, children }) =>
  html`<span class="badge ${tone}"><${Icon} name=${icon} />${children}</span>`;
export const Outcome = ({ name }) => {
  const { tone, icon, text } = outcome(name);
  return html`<${Badge} tone=${tone} icon=${icon}>${text}<//>`;
};

// A key may read from right to left, and must not change the direction of the text around it.
export const Key = ({ children }) =>
  html`<bdi class="key" dir="auto">${plain(children ?? "(no key)")}</bdi>`;
export const Mono = ({ children, cut }) =>
  html`<code title=${cut ? children : undefined}>${cut ? short(children, cut) : children}</code>`;
export const When = ({ at, precise, date = true }) =>
  at
    ? html`<time datetime=${at} title=${at}>${date && html`<span class="date">${day(at)} </span>`}
      ${clock(at, precise)}</time>`
    : html`<span class="quiet-text">not known</span>`;

/** An event's number: the oldest of its key is 1. */
export const Number_ = ({ number }) => html`<span class="number"
  title=${number ? `event ${number}, by age` : "not a known event"}>${number ?? "?"}</span>`;

export const ErrorBox = ({ error, again }) =>
  html`<div class="callout bad" role="alert"><${Icon} name="cross" />
  <div><strong>${error.message}</strong>${again && html` <button class="plain"
    onClick=${again}>Try again</button>`}</div></div>`;
export const Loading = ({ name }) => html`<p class="loading" role="status">
  <span class="spinner" aria-hidden="true"></span>Reading ${name} …</p>`;
/** That something is being read, or why it cannot be. */
export const Read = ({ name, error, again }) =>
  error ? html`<${ErrorBox} error=${error} again=${again} />` : html`<${Loading} name=${name} />`;
export const Pane = ({ title, kind = "", beside, children }) =>
  html`<section class="pane ${kind}" aria-label=${title}><div class="pane-title">
    <h2>${title}</h2>${beside}</div>${children}</section>`;

export const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

/** Read data, again whenever the parameters change. */
export function useData(path, parameters) {
  const [state, setState] = useState({});
  const asked = useRef(0);
  const identity = JSON.stringify(parameters);
  const read = useCallback(
    async (quietly) => {
      const mine = ++asked.current;
      if (quietly !== true) setState({});
      const answer = await get(path, parameters).then(
        (data) => ({ data, at: Date.now() }),
        (error) => ({ error }),
      );
      if (mine === asked.current) setState(answer);
    },
    [path, identity],
  );
  useEffect(() => {
    read();
    return () => {
      asked.current += 1;
    };
  }, [read]);
  return { ...state, read };
}

/** The width of an element that `ref` is given to. */
export function useWidth(initial = 960) {
  const ref = useRef(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    if (!ref.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [ref.current]);
  return [ref, width];
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;

/** A text that is a JSON object itself, such as the cause of a fault, as that object. */
function opened(_, value) {
  try {
    return /^\s*\{/.test(value) ? JSON.parse(value) : value;
  } catch {
    return value;
  }
}

/** Data as JSON; only text nodes, whatever is in it. */
export function Json({ value, label }) {
  if (value === null || value === undefined)
    return html`<p class="quiet-text">None, or the log does not have it.</p>`;
  const text = plain(JSON.stringify(value, opened, 2));
  const parts = [];
  let end = 0;
  for (const { 0: token, 1: quoted, 2: colon, 3: literal, index } of text.matchAll(TOKEN)) {
    const kind = colon ? "name" : quoted ? "text" : "value";
    parts.push(text.slice(end, index));
    parts.push(html`<span class="json-${kind}">${quoted ?? literal}</span>`, colon ?? "");
    end = index + token.length;
  }
  return html`<pre class="json" tabindex="0" role="region" aria-label=${label}>${parts}
    ${text.slice(end)}</pre>`;
}
