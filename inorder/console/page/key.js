// One key: the verdict, the timeline, the pictures and the story.
import { html, useEffect, useMemo, useState } from "inorder/html";
import { picture, saved, savedAt } from "inorder/api";
import { change, href } from "inorder/route";
import {
  ErrorBox,
  Icon,
  Key,
  Loading,
  Mono,
  Number_,
  Outcome,
  Pane,
  Read,
  When,
  useData,
} from "inorder/parts";
import { Timeline, eventName } from "inorder/timeline";
import { useExecutions } from "inorder/executions";
import { VERDICTS, clock, day, plain, plural, since } from "inorder/words";

const MOST_KEYS = 200;

export function KeyView({ id: key, parameters, stack }) {
  return html`<article class="key-view">
    <${Search} current=${key} part=${parameters.q} />${
      key
        ? html`<${Story} key=${`${key} ${parameters.version}`} name=${key}
    parameters=${parameters} stack=${stack} />`
        : html`<h1 tabindex="-1">Timeline of a key</h1>
    <${Keys} part=${parameters.q ?? ""} stack=${stack} />`}</article>`;
}

function Search({ current, part }) {
  const go = (event) => {
    event.preventDefault();
    const key = new FormData(event.target).get("key");
    if (key) location.hash = href("key", key);
  };
  return html`<form class="key-search" role="search" onSubmit=${go}><label class="search">
    <${Icon} name="search" />
    <span class="hidden">Key of an object</span>
    <input name="key" id="search" type="search" dir="auto"
      placeholder="Key of an object, or a part of it" value=${current || part} key=${current}
      onInput=${(event) => current || change({ q: event.target.value })} autocomplete="off"
      spellcheck="false" /></label>
      <button>Show</button></form>`;
}

/** The keys of executions that have a text in them. */
function Keys({ part, stack }) {
  const { rows, isLoading, error } = useExecutions();
  const wanted = part.toLowerCase();
  const keys = [...new Set((rows ?? []).map((row) => row.key))].filter((key) =>
    key?.toLowerCase().includes(wanted),
  );
  return html`${error && html`<${ErrorBox} error=${error} />`}
    ${!rows || (isLoading && !keys.length)
        ? html`<${Loading} what="keys" />`
        : html`<h2 role="status">${plural(keys.length, "key")}${part && ` with “${plain(part)}”`}
      ${" "}in the executions ${since(stack)}</h2>
    <ul class="recent">${keys.slice(0, MOST_KEYS).map((key) => html`<li key=${key}>
      <a href=${href("key", key)}><${Key}>${key}<//></a></li>`)}</ul>
    ${keys.length > MOST_KEYS &&
      html`<p class="quiet-text">The newest ${MOST_KEYS} are shown.</p>`}`}`;
}

function Story({ name, parameters, stack }) {
  const asked = { key: name, version_id: parameters.version };
  const { data: story, error, at, read } = useData("/api/story", asked);
  const definition = useData("/api/definition");
  const numbers = useMemo(() => {
    const names = (story?.events ?? []).map((each) => eventName(each.sequencer, each.version_id));
    return new Map(names.map((each, index) => [each, index + 1]));
  }, [story]);
  const title = html`<h1 tabindex="-1">
    <${Key}>${name}<//></h1>${parameters.version && html`<span class="quiet-text">version <${Mono}>
    ${parameters.version}<//></span>`}`;
  if (!story || !definition.data)
    return html`<div class="title">${title}</div><${Read} what="what became of its events"
      error=${error ?? definition.error} again=${saved ? null : read} />`;
  const verdict = VERDICTS[story.verdict.state] ?? VERDICTS.unknown;
  const hasRun = story.deliveries.length > 0;
  const isThere = hasRun || story.source || story.outputs.length > 0;
  const executions = plural(story.deliveries.length, "execution");
  return html`<div class="title">${title}<span class="actions">
    <span class="quiet-text">read at ${clock(savedAt ?? at)} UTC</span>
      ${!saved && html`<button onClick=${read}><${Icon} name="again" />Read again</button>`}</span>
      </div>
    <div class=${`callout verdict ${verdict.tone}`}><${Icon} name=${verdict.icon} size=${20} /><div>
    <strong>${verdict.text}.</strong>
      <p>${plain(story.verdict.text)}</p></div></div>
    ${!isThere && html`<${Keys} part=${name} stack=${stack} />`}
    ${hasRun && html`<${Pane} title="Timeline" beside=${html`<span class="quiet-text">
        ${plural(story.events.length, "event")}, ${executions},${" "}
        ${day(story.executions.at(-1).seen)} UTC</span>`}>
      <${Timeline} story=${story} definition=${definition.data} keeps=${stack?.keeps}
        numbers=${numbers} readAt=${new Date(savedAt ?? at).getTime()} />
      <${Legend} /><//>`}
    <div class="halves">
      <${Pane} title="What happened"><${Sentences} story=${story} numbers=${numbers} /><//>
      ${isThere && html`<div class="side">
        ${!saved && stack?.has_pictures !== false && html`<${Pictures} story=${story}
          numbers=${numbers} version=${parameters.version} />`}
        <${Events} story=${story} numbers=${numbers} />
      </div>`}
    </div>`;
}

const Legend = () => html`<ul class="legend lanes" aria-label="What the signs mean">
  <li><svg width="30" height="18"><rect class="wait" x="1" y="1" width="28" height="16" rx="4" />
  </svg>waits for the lock</li>
  <li><svg width="30" height="20"><rect class="lock" x="1" y="1" width="28" height="18" rx="4" />
  </svg>holds the lock</li>
  <li><svg width="30" height="14"><rect class="work" x="1" y="1" width="28" height="12" rx="3" />
  </svg>does the work</li>
  <li><svg width="18" height="18"><path class="written" d="M9,1l8,8l-8,8l-8,-8z" />
  </svg>writes the output</li>
  <li><svg width="34" height="14" class="cause-sign"><circle cx="5" cy="7" r="4" />
    <path d="M9,7H28M24,3l5,4l-5,4" /></svg>why it ended so</li>
  <li><span class="number">2</span>an event; a higher number is newer</li></ul>`;

function Sentences({ story, numbers }) {
  const rest = [
    ...story.locks.map((each) => ["lock", each.text]),
    ...story.pending.map((each) => [each.kind === "parked" ? "pause" : "clock", each.text]),
    ...story.unknown.map((each) => ["question", `Not known: ${each}`]),
  ];
  return html`<ol class="story">
    ${story.deliveries.map((each) => html`<li key=${each.execution}>
      <${Number_} number=${numbers.get(eventName(each.sequencer, each.version_id))} /><div>
      <a href=${href("execution", each.execution)}>
      <${Outcome} name=${each.outcome} /></a><p>${plain(each.text)}</p></div></li>`)}
    ${!story.deliveries.length && html`<li><${Icon} name="question" /><p>${story.sentences[0]}</p>
    </li>`}
    ${rest.map(([icon, text]) => html`<li><${Icon} name=${icon} /><p>${plain(text)}</p></li>`)}
  </ol>`;
}

function Pictures({ story, numbers, version }) {
  const none = "not a picture";
  const number = (output) => numbers.get(eventName(output.sequencer, output.version_id ?? version));
  return html`<${Pane} title="Pictures"><div class="pictures">
    <${Picture} which="source" of=${story.source && story.key} version=${version} name="Input"
      none=${story.source ? none : "the object does not exist"}>
      ${story.source && "as it is now"}<//>
    ${story.outputs.map(
      (each) => html`<${Picture} key=${each.key} which="output" of=${each.key} name="Output"
        none=${none}>
      of event <${Number_} number=${number(each)} /> ${each.modified &&
        `written ${clock(each.modified)}`}<//>`)}
    ${!story.outputs.length && html`<${Picture} name="Output" none="there is no output" />`}
  </div><//>`;
}

function Picture({ which, of, version, name, none, children }) {
  const [address, setAddress] = useState(of ? undefined : null);
  useEffect(() => {
    if (!of) return undefined;
    const found = picture(which, of, version);
    let isOver = false;
    found.then((each) => {
      if (!isOver) setAddress(each);
    });
    return () => {
      isOver = true;
      found.then((each) => each && URL.revokeObjectURL(each));
    };
  }, [which, of, version]);
  return html`<figure>${address ? html`<img src=${address} alt=${`${name} of this key`}
    onError=${() => setAddress(null)} />`
      : html`<div class="no-picture">${address === null ? none : "Reading the picture …"}</div>`}
    <figcaption><strong>${name}</strong> <span>${children}</span></figcaption></figure>`;
}

const Events = ({ story, numbers }) =>
  html`<${Pane} title="Events, oldest first"><ul class="events">${story.events.map(
    (each) => html`<li>
    <${Number_} number=${numbers.get(eventName(each.sequencer, each.version_id))} />
    <span>${each.is_deletion === null ? "event" : each.is_deletion ? "deleted" : "created"} <${When}
      at=${each.at} date=${false} /></span>
    <${Mono} cut=${14}>${each.sequencer}<//><${Outcome} name=${each.outcome} /></li>`)}</ul><//>`;
