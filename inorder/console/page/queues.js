// Events that are parked, or wait for a retry.
import { html, useState } from "inorder/html";
import { saved, savedAt } from "inorder/api";
import { href } from "inorder/route";
import {
  Cards,
  Empty,
  Icon,
  Json,
  Key,
  Mono,
  Read,
  SearchBox,
  When,
  useData,
} from "inorder/parts";
import { Redrive } from "inorder/redrive";
import { ago, plain, plural } from "inorder/words";

const SEARCHED = ["key", "subject", "sequencer", "reason", "reasons", "id"];
function fitting(events, text) {
  const wanted = text.trim().toLowerCase();
  const has = (value) => String(value ?? "").toLowerCase().includes(wanted);
  return events.filter((event) => SEARCHED.some((name) => has(event[name])));
}

/** A view of a queue: how many events there are, what happens to them, and their table. */
const Queue = ({ title, count, lead, read, children }) =>
  html`<section class="queue"><div class="title"><h1 tabindex="-1">${title}</h1>
    <p class="quiet-text" role="status">${count}</p><span class="actions">${
      !saved && html`<button onClick=${read}><${Icon} name="again" />Read again</button>`
    }</span></div>
    <p class="lead">${lead}</p>${children}</section>`;

const subject = (event) => {
  const name = html`<${Key}>${event.key ?? (event.subject || "Not a valid event")}<//>`;
  return event.key
    ? html`<a href=${href("key", event.key, { version: event.version_id })}>${name}</a>`
    : name;
};
const sequencer = (event) =>
  event.sequencer ? html`<${Mono} cut=${12}>${event.sequencer}<//>` : "–";

export function Parked({ parameters }) {
  const { data, error, read } = useData("/api/parked");
  const [redriven, setRedriven] = useState(null);
  const { q = "" } = parameters;
  const found = fitting(data?.events ?? [], q);
  const reason = (event) => html`${plain(event.reason)}
    <details><summary>Event</summary>
      <${Json} label="Parked message" value=${event.body} /></details>`;
  const columns = [
    ["Key", "subject", subject],
    ["Reason", "reason", reason],
    ["Parked (UTC)", "", (event) => html`<${When} at=${event.parked_at} />`],
    ["Sequencer", "", sequencer],
  ];
  return html`<${Queue} title="Parked events" count=${data && plural(data.events.length, "event")}
    read=${read} lead="Each of these could not be processed. It is kept complete, with the reason,
      until a person decides. Redriven, it starts a new execution.">
    <${Read} what="parked events" error=${error} again=${read} isThere=${data}>${() =>
      !data.events.length
        ? html`<${Empty} icon="check" title="Nothing is parked.">Each event was processed, or is
          on its way.<//>`
        : html`<div class="filters"><${SearchBox} label="Key or reason" value=${q} />${
            !saved &&
            html`<button class="primary" disabled=${!found.length}
              onClick=${() => setRedriven(found)}>
              <${Icon} name="again" />Redrive ${plural(found.length, "event")} …</button>`}</div>
          ${found.length
              ? html`<${Cards} columns=${columns} rows=${found} name=${(each) => each.id} />`
              : html`<${Empty} icon="search" title="No parked event fits the filter." />`}`}<//>
    ${redriven && html`<${Redrive} events=${redriven}
      close=${(isDone) => {
        setRedriven(null);
        if (isDone) read();
      }} />`}<//>`;
}

export function Retrying({ parameters }) {
  const { data, error, at, read } = useData("/api/retrying");
  const { q = "" } = parameters;
  const { waiting = 0, unread = 0 } = data?.backlog ?? {};
  const next = (event) => html`<strong>${ago(event.next, new Date(savedAt ?? at))}
    </strong> <span class="quiet-text"><${When} at=${event.next} date=${false} /></span>`;
  const columns = [
    ["Key", "subject", subject],
    ["Next attempt", "", next],
    ["Attempts", "", (event) => event.attempts],
    ["Reasons", "reason", (event) => plain(event.reasons)],
    ["Failed first (UTC)", "", (event) => html`<${When} at=${event.since} />`],
    ["Sequencer", "", sequencer],
  ];
  const why =
    waiting + unread > 0
      ? "The queue has messages that the function has not logged yet."
      : "No execution has met a fault lately.";
  return html`<${Queue} title="Retrying events" read=${read}
    count=${data && `${waiting} waiting, ${unread} due in the queue`}
    lead="Each of these met a fault that may pass. It is tried again automatically.">
    <${Read} what="retrying events" error=${error} again=${read} isThere=${data}>${() =>
      !data.events.length
        ? html`<${Empty} icon="check" title="No event waits for a retry.">${why}<//>`
        : html`<div class="filters"><${SearchBox} label="Key or reason" value=${q} /></div>
          <${Cards} columns=${columns} rows=${fitting(data.events, q)}
            name=${(each) => `${each.subject} ${each.sequencer}`} />`}<//><//>`;
}
