// What changes something: to start parked events again, and to run an event once more. Each shows
// first what it would do.
import { html, useEffect, useRef, useState } from "inorder/html";
import { post } from "inorder/api";
import { href } from "inorder/route";
import { ErrorBox, Icon, Key, Loading } from "inorder/parts";
import { plain, plural } from "inorder/words";

function Dialog({ title, close, children, actions }) {
  const ref = useRef(null);
  useEffect(() => {
    ref.current.showModal();
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${() => close()}
    onCancel=${() => close()}>
    <div class="title"><h2 id="dialog-title">${title}</h2>
    <button class="plain close" aria-label="Close" onClick=${() => close()}>
      <${Icon} name="cross" /></button></div>
    <div class="dialog-body">${children}</div><div class="dialog-actions">${actions}</div>
    </dialog>`;
}

/** Start parked events again, after a dry run. */
export function Redrive({ events, close }) {
  const [state, setState] = useState({});
  const ids = events.map((each) => each.id);
  const byId = new Map(events.map((each) => [each.id, each]));
  const send = (dryRun, wanted) =>
    post("/api/redrive", { ids: wanted, dry_run: dryRun }).then(
      (found) => setState({ found, isDone: !dryRun }),
      (error) => setState({ error }),
    );
  useEffect(() => {
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
  return html`<${Dialog} title=${isDone ? "Started again" : `Redrive ${plural(ids.length,
    "event")}?`} close=${end} actions=${html`
      <button onClick=${end}>${isDone ? "Close" : "Cancel"}</button>
      ${!isDone && html`<button class="primary" disabled=${!found?.started.length}
        onClick=${() => {
          setState({});
          send(false, found.started);
        }}>Start ${found ? plural(found.started.length, "event") : ""} again</button>`}`}>
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
      )}`}<//>`;
}

/** Run an event again, edited if wanted. */
export function RunAgain({ event, close }) {
  const [text, setText] = useState(() => JSON.stringify(event, null, 2));
  const [state, setState] = useState({});
  const run = async () => {
    setState({ isBusy: true });
    try {
      const { arn } = await post("/api/run", { event: JSON.parse(text) });
      close();
      location.hash = href("execution", arn);
    } catch (error) {
      setState({ error });
    }
  };
  return html`<${Dialog} title="Run this event again" close=${close} actions=${html`<button
    onClick=${() => close()}>Cancel</button>
    <button class="primary" disabled=${state.isBusy} onClick=${run}>
    <${Icon} name="play" />Run</button>`}>
    <p>This starts a new execution with the event below. An event that is finished ends as a
      duplicate, and an older one as superseded.</p>
    <label class="editor"><span>Event</span>
      <textarea rows="18" spellcheck="false" value=${text} onInput=${(each) =>
        setText(each.target.value)}></textarea></label>
    ${state.error && html`<${ErrorBox} error=${state.error} />`}<//>`;
}
