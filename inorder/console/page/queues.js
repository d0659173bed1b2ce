// Events that are parked, or wait for a retry.
import { html, useMemo, useState } from "inorder/html";
import { saved, savedAt } from "inorder/api";
import { change, href } from "inorder/route";
import {
  Empty,
  ErrorBox,
  Icon,
  Key,
  Loading,
  Mono,
  When,
  useData,
  useNow,
} from "inorder/parts";
import { Redrive, RunAgain } from "inorder/dialogs";
import { ago, plain, plural } from "inorder/words";

const SEARCHED = ["key", "subject", "sequencer", "reason", "reasons", "id"];
const fits = (event, text) =>
  SEARCHED.some((name) =>
    String(event[name] ?? "")
      .toLowerCase()
      .includes(text),
  );
const Reread = ({ read }) =>
  !saved && html`<button onClick=${read}><${Icon} name="again" />Read again</button>`;
const Subject = ({ event }) =>
  html`<${Key}>${event.key ?? (event.subject || "Not a valid event")}<//>`;

export function Parked({ parameters }) {
  const { data, error, read } = useData("/api/parked");
  const [dialog, setDialog] = useState(null);
  const { q = "" } = parameters;
  const picked = new Set(parameters.pick?.split(","));
  const found = useMemo(
    () => (data?.events ?? []).filter((each) => fits(each, q.trim().toLowerCase())),
    [data, q],
  );
  const chosen = found.filter((each) => picked.has(each.id));
  const pick = (ids) => change({ pick: [...ids].join(",") });
  const toggle = (id) => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    pick(next);
  };
  const wanted = chosen.length ? chosen : found;
  const which = chosen.length
    ? plural(chosen.length, "selected event")
    : `all ${wanted.length}${q ? " that match" : ""}`;
  const isAll = chosen.length > 0 && chosen.length === found.length;
  return html`<section class="queue"><div class="title"><h1 tabindex="-1">Parked events</h1>
    <p class="quiet-text" role="status">${data ? plural(data.events.length, "event") : ""}</p>
    <span class="actions"><${Reread} read=${read} /></span></div>
    <p class="lead">Each of these could not be processed. It is kept complete, with the reason,
      until a person decides.
      Redriven, it starts a new execution.</p>
    ${
      error
        ? html`<${ErrorBox} error=${error} again=${read} />`
        : !data
          ? html`<${Loading} what="parked events" />`
          : !data.events.length
            ? html`<${Empty} icon="check" title="Nothing is parked.">Each event was processed, or is
              on its way.<//>`
            : html`
    <div class="filters"><label class="search"><${Icon} name="search" />
    <span class="hidden">Key or reason</span>
      <input id="search" type="search" dir="auto" placeholder="Key or reason" value=${q}
      onInput=${(event) => change({ q: event.target.value })} /></label>
      ${
        !saved &&
        html`<button class="primary" disabled=${!wanted.length}
          onClick=${() => setDialog({ redrive: wanted })}>
        <${Icon} name="again" />Redrive ${which} …</button>`
      }</div>
    ${
      !found.length
        ? html`<${Empty} icon="search" title="No parked event fits the filter." />`
        : html`<table class="cards"><thead><tr>
      ${
        !saved &&
        html`<th class="pick">
        <input type="checkbox" aria-label="Select all" checked=${isAll}
          onChange=${() => pick(isAll ? [] : found.map((each) => each.id))} />
        </th>`
      }<th>Key</th><th>Reason</th><th>Parked (UTC)</th><th>Sequencer</th><th>
        <span class="hidden">Actions</span></th></tr></thead>
      <tbody>${found.map(
        (each) => html`<tr key=${each.id} class=${picked.has(each.id) ? "picked" : ""}>
        ${
          !saved &&
          html`<td class="pick">
          <input type="checkbox" aria-label=${`Select ${plain(each.key ?? each.id)}`}
            checked=${picked.has(each.id)}
          onChange=${() => toggle(each.id)} /></td>`
        }
        <td class="subject">${
          each.key
            ? html`<a href=${href("key", each.key)}>
          <${Subject} event=${each} /></a>`
            : html`<${Subject} event=${each} />`
        }</td>
        <td class="reason">${plain(each.reason)}</td><td><${When} at=${each.parked_at} /></td>
          <td>${each.sequencer ? html`<${Mono} cut=${12}>${each.sequencer}<//>` : "–"}</td>
        <td class="row-actions">
          <button class="plain" onClick=${() => setDialog({ show: each })}>Event</button>${
            !saved &&
            each.body?.event &&
            html`<button class="plain"
              onClick=${() => setDialog({ edit: each.body.event })}>Edit and run …</button>`
          }</td></tr>`,
      )}</tbody></table>`
    }`
    }
    ${
      dialog?.redrive &&
      html`<${Redrive} events=${dialog.redrive}
      close=${(isDone) => {
        setDialog(null);
        if (isDone) {
          pick([]);
          read();
        }
      }} />`
    }
    ${dialog?.edit && html`<${RunAgain} event=${dialog.edit} close=${() => setDialog(null)} />`}
    ${dialog?.show && html`<${RunAgain} event=${dialog.show.body} close=${() => setDialog(null)}
      isReadOnly=${true} />`}
  </section>`;
}

export function Retrying({ parameters }) {
  const { data, error, read } = useData("/api/retrying");
  const now = useNow(!saved);
  const { q = "" } = parameters;
  const found = (data?.events ?? []).filter((each) => fits(each, q.trim().toLowerCase()));
  const { waiting = 0, unread = 0 } = data?.backlog ?? {};
  return html`<section class="queue"><div class="title"><h1 tabindex="-1">Retrying events</h1>
    <p class="quiet-text" role="status">${data ? `${waiting} waiting, ${unread} due in the queue` :
      ""}</p><span class="actions">
    <${Reread} read=${read} /></span></div>
    <p class="lead">Each of these met a fault that may pass. It is tried again automatically.</p>
    ${
      error
        ? html`<${ErrorBox} error=${error} again=${read} />`
        : !data
          ? html`<${Loading} what="retrying events" />`
          : !data.events.length
            ? html`<${Empty} icon="check"
      title="No event waits for a retry.">
      ${
        waiting + unread > 0
          ? "The queue has messages that the function has not logged yet."
          : "No execution has met a fault lately."
      }<//>`
            : html`
    <div class="filters"><label class="search"><${Icon} name="search" />
    <span class="hidden">Key or reason</span>
      <input id="search" type="search" dir="auto" placeholder="Key or reason" value=${q}
      onInput=${(event) => change({ q: event.target.value })} /></label></div>
    <table class="cards"><thead><tr><th>Key</th><th>Next attempt</th><th>Attempts</th>
    <th>Reasons</th><th>Failed first (UTC)</th>
      <th>Sequencer</th></tr></thead><tbody>
    ${found.map(
      (each) => html`<tr key=${`${each.subject} ${each.sequencer}`}>
      <td class="subject">${
        each.key
          ? html`<a href=${href("key", each.key, { version: each.version_id })}>
      <${Subject} event=${each} /></a>`
          : html`<${Subject} event=${each} />`
      }</td>
      <td><strong>${ago(each.next, saved ? new Date(savedAt) : now)}
      </strong> <span class="quiet-text">
        <${When} at=${each.next} date=${false} /></span></td><td>${each.attempts}</td>
        <td class="reason">${plain(each.reasons)}</td><td>
        <${When} at=${each.since} /></td>
      <td>${each.sequencer && html`<${Mono} cut=${12}>${each.sequencer}<//>`}</td></tr>`,
    )}</tbody></table>`
    }</section>`;
}
