// The page: a bar with the views, and the view that the address names.
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "inorder/html";
import { hasToken, report, saved, savedAt } from "inorder/api";
import { useRoute } from "inorder/route";
import { ErrorBox, Icon, useData } from "inorder/parts";
import { Executions } from "inorder/executions";
import { Execution } from "inorder/execution";
import { KeyView } from "inorder/key";
import { clock, day, plain } from "inorder/words";

const VIEWS = { executions: Executions, execution: Execution, key: KeyView };

function Safely({ view: View, ...others }) {
  const [error, again] = useErrorBoundary();
  return error
    ? html`<h1 tabindex="-1">This view cannot be shown</h1>
    <${ErrorBox} error=${error} again=${again} />`
    : html`<${View} ...${others} />`;
}

function Locked() {
  return html`<section><div class="title"><h1 tabindex="-1">This page needs its token</h1></div>
    <p class="lead" role="status">
    ${hasToken && "The server does not know the token that this browser has. "}The
      command <code>inorder
      console</code> has printed an address that contains the token, which is new at each start.
        Open that address.</p></section>`;
}

function App() {
  const [isLocked, setLocked] = useState(!hasToken);
  useEffect(() => {
    const lock = () => setLocked(true);
    addEventListener("inorder-locked", lock);
    return () => removeEventListener("inorder-locked", lock);
  }, []);
  const route = useRoute();
  const { data: stack, error } = useData("/api/stack");
  const View = VIEWS[route.view] ?? Executions;
  const main = useRef(null);
  const place = `${route.view}/${route.id}`;
  const before = useRef(place);
  useEffect(() => {
    const name = { key: route.id, execution: "Execution" }[route.view] ?? "Executions";
    document.title = `${plain(name)} · ${stack?.stack ?? "inorder"} console`;
    if (before.current === place) return;
    before.current = place;
    scrollTo(0, 0);
    main.current.querySelector("h1")?.focus({ preventScroll: true });
  }, [place, stack]);
  return html`<a class="skip" href="#main" onClick=${(event) => {
    event.preventDefault();
    main.current.focus();
  }}>Skip to the content</a>
    <header class="bar"><a class="brand" href="#/executions" aria-label="inorder console">
      <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M8 10h8M8 16h13M8 22h16" /></svg><span>inorder</span></a>
      <nav aria-label="Views">${report && html`<a href="?">Report</a>`}<a href="#/executions"
        aria-current=${View === Executions ? "page" : undefined}>Executions</a></nav>
      <dl class="stack" aria-label="Stack">${
        stack &&
        html`<div><dt class="hidden">Stack</dt><dd><strong>${stack.stack}</strong></dd></div>
        <div><dt class="hidden">Policy</dt><dd>${stack.policy}</dd></div>
        <div><dt class="hidden">Where</dt>
          <dd class="where">${saved ? "saved page" : stack.is_local ? "local AWS" : stack.region}
          </dd></div>`}</dl></header>
    <main id="main" ref=${main} tabindex="-1">
      ${saved && html`<p class="note">
        <${Icon} name="clock" />This page was saved at ${day(savedAt)} ${clock(savedAt)} UTC. It
          shows what was true then.</p>`}
      ${stack?.pause && html`<p class="note"><${Icon} name="pause" />${stack.pause}</p>`}
      ${isLocked ? html`<${Locked} />` : error && html`<p class="note bad-text">${error.message}
      </p>`}
      ${!isLocked && html`<${Safely} key=${place} view=${View} id=${route.id}
        parameters=${route.parameters} stack=${stack} />`}
    </main>`;
}

render(html`<${App} />`, document.getElementById("app"));
