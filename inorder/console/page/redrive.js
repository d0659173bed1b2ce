// The only part that changes something: it starts parked events again, after a dry run.
import { html, useEffect, useRef, useState } from "inorder/html";
import { post } from "inorder/api";
import { ErrorBox, Icon, Key, Loading } from "inorder/parts";
import { plain, plural } from "inorder/words";

export function Redrive({ events, close }) {
  const [state, setState] = useState({});
  const ref = useRef(null);
  const ids = events.map((each) => each.id);
  const byId = new Map(events.map((each) => [each.id, each]));
  const send = (dryRun, wanted) =>
    post("/api/redrive", { ids: wanted, dry_run: dryRun }).then(
      (found) => setState({ found, isDone: !dryRun }),
      (error) => setState({ error }),
    );
  useEffect(() => {
    ref.current.showModal();
    send(true, ids);
  }, []);
  const { found, isDone, error } = state;
  const list = (entries, what) =>
    entries.length > 0 &&
    html`<h3>${what}</h3>
    <ul class="plain-list">${entries.map(([id, reason]) => html`<li>
    <${Key}>${byId.get(id)?.key ?? byId.get(id)?.subject ?? id}<//>${reason && html` <span
    class="quiet-text">${plain(reason)}</span>`}</li>`)}</ul>`;
  const end = () => close(isDone);
  const title = isDone ? "Started again" : `Redrive ${plural(ids.length, "event")}?`;
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${end} onCancel=${end}>
    <div class="title"><h2 id="dialog-title">${title}</h2>
    <button class="plain close" aria-label="Close" onClick=${end}><${Icon} name="cross" /></button>
    </div><div class="dialog-body">
    ${error ? html`<${ErrorBox} error=${error} />`
        : !found
          ? html`<${Loading} what="the queue" />`
          : html`
      <p>${
        isDone
          ? `${plural(found.started.length, "event")} started again, and removed from the queue.`
          : "This was a dry run: nothing has changed yet."
      }</p>
      ${list(
        found.started.map((id) => [id]),
        isDone ? "Started" : "Would be started",
      )}
      ${list(
        found.left_out.map((each) => [each.id, each.reason]),
        "Left out",
      )}`}</div>
    <div class="dialog-actions"><button onClick=${end}>${isDone ? "Close" : "Cancel"}</button>
      ${!isDone && html`<button class="primary" disabled=${!found?.started.length}
        onClick=${() => {
          setState({});
          send(false, found.started);
        }}>Start ${found ? plural(found.started.length, "event") : ""} again</button>`}</div>
    </dialog>`;
}
