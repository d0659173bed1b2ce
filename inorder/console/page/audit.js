// Whether all outputs are right, as `inorder audit` tells.
import { html, useState } from "inorder/html";
import { get } from "inorder/api";
import { href } from "inorder/route";
import { Cards, Empty, ErrorBox, Key, Loading, Mono, SearchBox } from "inorder/parts";
import { plain } from "inorder/words";

const COLUMNS = [
  ["Verdict", "", (each) => html`<strong>${each.verdict}</strong>`],
  [
    "Key",
    "subject",
    (each) => html`<a href=${href("key", each.key, { version: each.version_id })}>
      <${Key}>${each.key}<//></a>`,
  ],
  [
    "Version",
    "",
    (each) => (each.version_id ? html`<${Mono} cut=${12}>${each.version_id}<//>` : "–"),
  ],
  ["Reason", "reason", (each) => plain(each.reason)],
];

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
    <form class="key-search" onSubmit=${run}><${SearchBox} label="Prefix of the keys"
      hint="Prefix of the keys, or empty for all" parameter="prefix" value=${prefix} />
      <button class="primary" disabled=${isRunning}>Compare</button></form>
    ${isRunning && html`<${Loading} what="all outputs" />`}
    ${error && html`<${ErrorBox} error=${error} again=${run} />`}
    ${
      data &&
      !data.findings.length &&
      html`<${Empty} icon="check" title="Every output is right.">Of the keys that begin with this
        prefix.<//>`}
    ${data?.findings.length > 0 && html`<${Cards} columns=${COLUMNS} rows=${data.findings}
        name=${(each) => `${each.key} ${each.version_id}`} />
      <p class="lead">${data.more > 0 && `And ${data.more.toLocaleString("en")} more. `}
        <code>inorder audit --repair</code> starts an event for each that is missing, stale or
        orphaned.</p>`}</section>`;
}
