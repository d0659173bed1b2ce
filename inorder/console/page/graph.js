// The state machine as a graph, laid out from its ASL, with the path of an execution.
import * as dagre from "@dagrejs/dagre";
import { html, useEffect, useMemo, useRef, useState } from "inorder/html";
import { href } from "inorder/route";
import { iconPath } from "inorder/parts";
import { span } from "inorder/words";

const HEIGHT = 46;
const LINE = 15; // height of a second line of a name
const SIGN = 34; // width of what is left of the text
const BESIDE = { Choice: 20 }; // width of what is right of it; else 10
const [SMALLEST, READABLE] = [11.5, 9]; // heights of text: in the style, and on the screen
const LEAST = 70; // width of a text, such as "caught 1 of 3"
const WIDE = 100; // width of a name that is split
const [START, END] = ["\0start", "\0end"]; // no state has these names

/** What became of each state: its visits, and one word for them. */
function statesOf(execution) {
  const states = new Map();
  execution.steps.forEach((step, index) => {
    const state = states.get(step.state) ?? { visits: [], retries: 0, caught: 0, seconds: 0 };
    state.visits.push(index);
    state.retries += Math.max((step.attempts?.length ?? 0) - 1, 0);
    state.seconds += step.seconds ?? 0;
    state.is = become(execution, index);
    state.caught += state.is === "caught" ? 1 : 0;
    states.set(step.state, state);
  });
  for (const state of states.values()) {
    if (state.is === "passed" && state.caught) state.is = "caught";
    if (state.is === "passed" && state.retries) state.is = "retried";
  }
  return states;
}

/** What became of one step: passed, retried, caught, failed or running. */
export function become(execution, index) {
  const step = execution.steps[index];
  const isLast = index === execution.steps.length - 1;
  if (isLast && execution.status === "RUNNING") return "running";
  if (isLast && execution.status !== "SUCCEEDED") return "failed";
  if (step.error) return "caught";
  return step.attempts?.length > 1 ? "retried" : "passed";
}

export const BECAME = {
  passed: { icon: "check", text: "passed", tone: "good" },
  retried: { icon: "again", text: "retried, then passed", tone: "warn" },
  caught: { icon: "alert", text: "failed and caught", tone: "warn" },
  failed: { icon: "cross", text: "failed", tone: "bad" },
  running: { icon: "dots", text: "running", tone: "live" },
  not: { icon: "minus", text: "not passed", tone: "none" },
};

/** What an integration is called, and its sign. */
export function kind(state) {
  const [, service, action] =
    /:::(?:aws-sdk:)?([a-z]+):([A-Za-z]+)/.exec(state?.Resource ?? "") ?? [];
  if (service) {
    const icon = { lambda: "task", dynamodb: "data" }[service] ?? "queue";
    return { icon, text: `${service} ${action}`, action };
  }
  const icons = { Choice: "choice", Wait: "clock", Fail: "cross", Succeed: "check", Task: "task" };
  return { icon: icons[state?.Type] ?? "pass", text: state?.Type ?? "?" };
}

function* edgesOf(name, state) {
  if (state.Next) yield [name, state.Next, "next"];
  for (const choice of state.Choices ?? []) yield [name, choice.Next, "next"];
  if (state.Default) yield [name, state.Default, "next"];
  for (const { Next, ErrorEquals } of state.Catch ?? [])
    yield [name, Next, ErrorEquals.includes("States.ALL") ? "fault" : "catch"];
}

const isEnd = (state) => state?.End || state?.Type === "Fail" || state?.Type === "Succeed";

const id = (from, to) => JSON.stringify([from, to]);

/** The width of a text in the font of the page. */
const pen = document.createElement("canvas").getContext("2d");
function widthOf(text, weight, size) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** The lines of a name: two if it has several words and would be wide. */
function lines(name) {
  const spaces = [...name.matchAll(/ /g)]
    .map((space) => space.index)
    .sort((a, b) => Math.abs(a - name.length / 2) - Math.abs(b - name.length / 2));
  return widthOf(name, 600, 12.5) > WIDE && spaces.length
    ? [name.slice(0, spaces[0]), name.slice(spaces[0] + 1)]
    : [name];
}

/**
 * Lay out some states. A Catch of everything is not laid out, unless nothing else leads to its
 * state: almost each Task has one.
 */
function layout(definition, wanted) {
  const states = Object.entries(definition.States);
  const edges = states.flatMap(([name, state]) => [...edgesOf(name, state)]);
  const reached = new Set([
    definition.StartAt,
    ...edges.filter(([, , how]) => how !== "fault").map(([, to]) => to),
  ]);
  const kinds = new Map();
  const shown = edges.filter(([from, to, how]) => {
    if (!wanted.includes(from) || !wanted.includes(to) || (kinds.get(id(from, to)) ?? how) !== how)
      return false;
    kinds.set(id(from, to), how);
    return how !== "fault" || !reached.has(to);
  });
  const gaps = { nodesep: 10, ranksep: 18, edgesep: 8, marginx: 8, marginy: 8 };
  const graph = new dagre.Graph().setGraph({ rankdir: "TB", ...gaps });
  for (const name of wanted) {
    const texts = lines(name);
    const { action, text } = kind(definition.States[name]);
    const widest = Math.max(
      ...texts.map((part) => widthOf(part, 600, 12.5)),
      widthOf(action ?? text, 400, 11.5),
      LEAST,
    );
    const width = SIGN + widest + (BESIDE[definition.States[name]?.Type] ?? 10);
    graph.setNode(name, { width, height: HEIGHT + (texts.length - 1) * LINE, texts });
  }
  const ends = wanted.filter((name) => isEnd(definition.States[name]));
  for (const name of ends.length ? [START, END] : [START])
    graph.setNode(name, { width: 14, height: 14 });
  if (graph.hasNode(definition.StartAt)) graph.setEdge(START, definition.StartAt, { weight: 4 });
  for (const [from, to, how] of shown) graph.setEdge(from, to, { weight: how === "next" ? 3 : 1 });
  for (const name of ends) graph.setEdge(name, END, { weight: 10 }); // so they are in a row
  dagre.layout(graph);
  return { graph, kinds };
}

const line = (points) => `M${points.map(({ x, y }) => `${x},${y}`).join("L")}`;

/** From one state to another, for an edge that is not laid out. */
function straight(from, to) {
  const down = to.y > from.y ? 0.5 : -0.5;
  return [
    { x: from.x, y: from.y + down * from.height },
    { x: to.x, y: to.y - down * to.height },
  ];
}

export function Graph({ definition, execution, selected, all, parameters, room }) {
  const states = useMemo(() => statesOf(execution), [execution]);
  const passed = new Set(
    execution.steps.slice(1).map((step, index) => id(execution.steps[index].state, step.state)),
  );
  const last = execution.steps.at(-1)?.state;
  const names = Object.keys(definition.States).filter((name) => all || states.has(name));
  const { graph, kinds } = useMemo(() => layout(definition, names), [definition, names.join("|")]);
  // dagre leaves edges that go back out of its width.
  const sides = ({ x, width }) => [x - width / 2, x + width / 2];
  const xs = [
    ...graph.nodes().flatMap((name) => sides(graph.node(name))),
    ...graph.edges().flatMap((name) => graph.edge(name).points.map((point) => point.x)),
  ];
  const [left, { height }] = [Math.min(...xs) - 6, graph.graph()];
  const width = Math.max(...xs) + 6 - left;
  const fitting = Math.min(room / width, 1);
  const isSmall = fitting * SMALLEST < READABLE;
  const [isLarge, setLarge] = useState(false);
  const scale = isSmall && isLarge ? 1 : fitting;
  const box = useRef(null);
  useEffect(() => {
    const node = graph.node(selected);
    if (node) box.current.scrollLeft = (node.x - left) * scale - box.current.clientWidth / 2;
  }, [scale]);
  const nodes = names.map((name) => ({ name, ...graph.node(name) }));
  const edge = (v, w, points) => {
    const isPassed = v === START || passed.has(id(v, w)) || (w === END && v === last);
    return { v, w, isPassed, how: kinds.get(id(v, w)) ?? "next", points };
  };
  const drawn = graph.edges().map(({ v, w }) => edge(v, w, graph.edge(v, w).points));
  for (const [key, how] of kinds) {
    const [v, w] = JSON.parse(key);
    const isShown = passed.has(key) || v === selected || w === selected;
    if (how === "fault" && !graph.hasEdge(v, w) && isShown) drawn.push(edge(v, w, straight(graph.node(v), graph.node(w))));
  }
  drawn.sort((a, b) => a.isPassed - b.isPassed);
  return html`${isSmall && html`<button class="enlarge" aria-pressed=${isLarge}
      onClick=${() => setLarge(!isLarge)}>Enlarge the graph</button>`}
    <div class="graph-room" ref=${box} ...${scale > fitting && LARGE}><div class="graph">
    <svg role="group" aria-label="States" viewBox=${`${left} 0 ${width} ${height}`}
      width=${width * scale} height=${height * scale}>
      <defs>${["none", "good", "warn"].map((tone) => html`<marker id=${`end-${tone}`}
        class=${tone} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
          orient="auto" markerUnits="userSpaceOnUse">
        <path d="M0,0.6 L7.4,4 L0,7.4z" /></marker>`)}</defs>
      ${[START, END].map((name) => graph.hasNode(name) && html`<circle class=${name.slice(1)}
        cx=${graph.node(name).x} cy=${graph.node(name).y} r="6" />`)}
      ${drawn.map(({ v, w, isPassed, how, points }) => {
        const tone = isPassed ? (how === "next" ? "good" : "warn") : "none";
        return html`<path key=${id(v, w)} class=${`edge ${tone} ${how === "next" ? "" : "catch"}`}
          d=${line(points)} marker-end=${`url(#end-${tone})`} />`;
      })}
      ${nodes.map(
        (node) => html`<${Node} key=${node.name} node=${node} state=${definition.States[node.name]}
        became=${states.get(node.name)} isSelected=${node.name === selected}
        link=${href("execution", execution.arn, { ...parameters, state: node.name, step: "" })} />`,
      )}
    </svg></div></div>`;
}

// A region that is scrolled can be scrolled by keyboard as well.
const LARGE = { tabindex: 0, role: "region", "aria-label": "The graph, enlarged" };

function Node({ node, state, became, isSelected, link }) {
  const is = became?.is ?? "not";
  const { icon, text, tone } = BECAME[is];
  const { width, height, texts } = node;
  const [left, top] = [node.x - width / 2, node.y - height / 2];
  const visits = became?.visits.length ?? 0;
  const isPartly = is === "caught" && became.caught < visits;
  const often = isPartly ? ` ${became.caught} of ${visits}` : ` ×${visits}`;
  const times = visits < 2 ? "" : often;
  const attempts = `${(became?.retries ?? 0) + visits} attempts`;
  const retries = became?.retries ? ` · ${attempts}` : "";
  const took = became?.seconds >= 0.001 ? ` · ${span(became.seconds)}` : "";
  const does = kind(state);
  const word =
    {
      not: does.action ?? does.text,
      passed: `${times}${took}`.replace(/^ · /, ""),
      retried: attempts,
      caught: `caught${times}`,
    }[is] || text;
  const label = `${node.name}, ${does.text}, ${text}${times}${retries}${took}`;
  const [half, side] = [height / 2, width - 24];
  return html`<a class=${`node ${tone} is-${is} ${isSelected ? "selected" : ""}`} href=${link}
      data-state=${node.name} aria-label=${label} aria-current=${isSelected ? "true" : undefined}>
    <title>${label}</title>
    ${
      state?.Type === "Choice"
        ? html`<path class="shape"
        d=${`M${left + 12},${top}h${side}l12,${half}l-12,${half}h${-side}l-12,${-half}z`} />`
        : html`<rect class="shape" x=${left} y=${top} width=${width} height=${height}
          rx=${isEnd(state) ? half : 9} />`}
    <g class="sign"><circle cx=${left + 20} cy=${node.y} r="10" />
      <svg x=${left + 12} y=${node.y - 8} width="16" height="16" viewBox="0 0 16 16">
        <path d=${iconPath(is === "not" ? does.icon : icon)} /></svg></g>
    ${texts.map((part, index) => html`<text x=${left + SIGN} y=${top + 20 + index * LINE}
      class="name">${part}</text>`)}
    <text x=${left + SIGN} y=${top + height - 10} class="what">${word}</text>
  </a>`;
}
