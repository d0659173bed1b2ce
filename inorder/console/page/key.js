// One key: the verdict, the timeline and the story.
import { html, useMemo } from "inorder/html";
import { saved, savedAt } from "inorder/api";
import { href } from "inorder/route";
import { Icon, Key, Mono, Number_, Outcome, Pane, Read, useData } from "inorder/parts";
import { Timeline, eventName } from "inorder/timeline";
import { VERDICTS, clock, day, plain, plural } from "inorder/words";

export function KeyView({ id: name, parameters, stack }) {
  const asked = { key: name, version_id: parameters.version };
  const { data: story, error, at, read } = useData("/api/story", asked);
  const definition = useData("/api/definition");
  const numbers = useMemo(() => {
    const events = story?.events ?? [];
    return new Map(events.map((event, index) => [eventName(event), index + 1]));
  }, [story]);
  const title = html`<h1 tabindex="-1">
    <${Key}>${name}<//></h1>${parameters.version && html`<span class="quiet-text">version <${Mono}>
    ${parameters.version}<//></span>`}`;
  if (!story || !definition.data)
    return html`<article><div class="title">${title}</div><${Read}
      name="what became of its events" error=${error ?? definition.error}
      again=${saved ? null : read} /></article>`;
  const verdict = VERDICTS[story.verdict.state] ?? VERDICTS.unknown;
  const hasRun = story.deliveries.length > 0;
  const executions = plural(story.deliveries.length, "execution");
  return html`<article><div class="title">${title}<span class="actions">
    <span class="quiet-text">read at ${clock(savedAt ?? at)} UTC</span>
      ${!saved && html`<button onClick=${read}><${Icon} name="again" />Read again</button>`}</span>
      </div>
    <div class=${`callout verdict ${verdict.tone}`}><${Icon} name=${verdict.icon} size=${20} /><div>
    <strong>${verdict.text}.</strong>
      <p>${plain(story.verdict.text)}</p></div></div>
    ${hasRun && html`<${Pane} title="Timeline" beside=${html`<span class="quiet-text">
        ${plural(story.events.length, "event")}, ${executions},${" "}
        ${day(story.executions.at(-1).seen)} UTC</span>`}>
      <${Timeline} story=${story} definition=${definition.data} keeps=${stack?.keeps}
        numbers=${numbers} readAt=${new Date(savedAt ?? at).getTime()} />
      <${Legend} /><//>`}
    <${Pane} title="What happened"><${Sentences} story=${story} numbers=${numbers} /><//>
    </article>`;
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

const SIGNS = { lock: "lock", parked: "pause", overtaken: "skip" };

function Sentences({ story, numbers }) {
  const rest = [
    ...story.pending.map(({ kind, text }) => [SIGNS[kind] ?? "clock", text]),
    ...story.unknown.map((text) => ["question", `Not known: ${text}`]),
  ];
  return html`<ol class="story">
    ${story.deliveries.map((delivery) => html`<li key=${delivery.execution}>
      <${Number_} number=${numbers.get(eventName(delivery))} /><div>
      <a href=${href("execution", delivery.execution)}>
      <${Outcome} name=${delivery.outcome} /></a><p>${plain(delivery.text)}</p></div></li>`)}
    ${!story.deliveries.length && html`<li><${Icon} name="question" /><p>${story.sentences[0]}</p>
    </li>`}
    ${rest.map(([icon, text]) => html`<li><${Icon} name=${icon} /><p>${plain(text)}</p></li>`)}
  </ol>`;
}
