// Whether all outputs are right, as `inorder audit` tells.
import { html, useState } from "inorder/html";
import { get } from "inorder/api";
import { change, href } from "inorder/route";
import { Empty, ErrorBox, Icon, Key, Loading, Mono } from "inorder/parts";
import { plain } from "inorder/words";

const counted = ({ counts }) =>
  Object.entries(counts)
    .map(([verdict, count]) => `${count.toLocaleString("en")} ${verdict}`)
    .join(", ");

export function Audit({ parameters }) {
  const { prefix = "" } = parameters;
  const [{ data, error, isRunning }, setState] = useState({});
  const run = (event) => {
    event?.preventDefault();
    setState({ isRunning: true });
    get("/api/audit", { prefix }).then(
      (found) => setState({ data: found }),
      (failed) => setState({ error: failed }),
    );
  };
  return html`<section class="queue"><div class="title"><h1 tabindex="-1">Audit</h1>
    <p class="quiet-text" role="status">${data ? counted(data) : ""}</p></div>
    <p class="lead">Compares each object with its output and its record, and changes nothing. What
      looks wrong is read again after a minute, because its event may be on its way.</p>
    <form class="key-search" onSubmit=${run}><label class="search"><${Icon} name="search" />
      <span class="hidden">Prefix of the keys</span>
      <input id="search" type="search" dir="auto" placeholder="Prefix of the keys, or empty for all"
        value=${prefix} onInput=${(event) => change({ prefix: event.target.value })} /></label>
      <button class="primary" disabled=${isRunning}>Compare</button></form>
    ${isRunning && html`<${Loading} what="all outputs" />`}
    ${error && html`<${ErrorBox} error=${error} again=${run} />`}
    ${
      data &&
      !data.findings.length &&
      html`<${Empty} icon="check" title="Every output is right.">Of the keys that begin with this
        prefix.<//>`
    }
    ${
      data?.findings.length > 0 &&
      html`<table class="cards"><thead><tr><th>Verdict</th><th>Key</th><th>Version</th>
      <th>Reason</th></tr></thead><tbody>${data.findings.map(
        (each) => html`<tr key=${`${each.key} ${each.version_id}`}>
        <td><strong>${each.verdict}</strong></td>
        <td class="subject"><a href=${href("key", each.key, { version: each.version_id })}>
        <${Key}>${each.key}<//></a></td>
        <td>${each.version_id ? html`<${Mono} cut=${12}>${each.version_id}<//>` : "–"}</td>
        <td class="reason">${plain(each.reason)}</td></tr>`,
      )}</tbody></table>
      <p class="lead">${data.more > 0 && `And ${data.more.toLocaleString("en")} more. `}
        <code>inorder audit --repair</code> starts an event for each that is missing, stale or
        orphaned.</p>`
    }</section>`;
}
