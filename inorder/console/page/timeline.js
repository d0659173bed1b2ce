// The executions of a key as lanes: who waited, who held the lock, who did the work, and whose
// output is there.
import { html, useEffect, useMemo, useState } from "inorder/html";
import { href } from "inorder/route";
import { Icon, iconPath, useWidth } from "inorder/parts";
import { clock, outcome, plain, span } from "inorder/words";

const BREAK = 72; // pixels of a time without anything
// The width of what is left of a lane, and the heights of a lane, of the last one and of its bar.
const [GUTTER, HEIGHT, FOOT, OUTPUT] = [216, 58, 38, 22];

const time = (text) => (text ? new Date(text).getTime() : null);

/**
 * What an execution did, as spans of time: it waited, held the lock, did the work; and when it
 * wrote its output. The server tells what each state does.
 */
function phases(execution, definition, keeps, now) {
  const end = time(execution.stopped) ?? now;
  const lane = { from: time(execution.seen), end, waits: [], locks: [], works: [], written: null };
  let waiting = null;
  let locked = null;
  for (const step of execution.steps) {
    const [entered, exited] = [time(step.entered), time(step.exited) ?? end];
    const isDone = step.exited && !step.error;
    if (step.type === "Wait") waiting ??= entered;
    const does = definition.roles[step.state] ?? [];
    if (does.includes("claims") && isDone) {
      if (waiting) lane.waits.push([waiting, exited]);
      [waiting, locked] = [null, exited];
    }
    if (does.includes("works")) {
      const attempts = step.attempts?.filter((attempt) => attempt.started) ?? [];
      const whole = { started: step.entered, ended: step.exited, error: step.error };
      for (const { started, ended, error } of attempts.length ? attempts : [whole])
        lane.works.push([time(started), time(ended) ?? exited, Boolean(error)]);
    }
    if (does.includes("releases") && isDone && locked) {
      lane.locks.push([locked, exited]);
      locked = null;
    }
  }
  if (waiting) lane.waits.push([waiting, end]);
  if (locked) lane.locks.push([locked, end, "to the end"]);
  if (keeps && execution.ended_as === "Processed" && lane.works.length)
    lane.written = lane.works.at(-1)[1];
  return lane;
}

/** The lock that a dead execution left: until another one claimed the key. */
function leftLock(lane, lanes, now) {
  const [from, , isOpen] = lane.locks.at(-1) ?? [];
  if (!isOpen || !lane.execution.stopped) return null;
  const later = lanes
    .flatMap((other) => (other === lane ? [] : other.locks.map(([since]) => since)))
    .filter((since) => since > from);
  return [lane.end, Math.min(...later, now)];
}

/** Spans in their order, put together where less than a gap is between them. */
function joined(spans, gap) {
  const parts = [];
  for (const [from, end] of spans) {
    const last = parts.at(-1);
    if (last && from - last[1] <= gap) last[1] = Math.max(last[1], end);
    else parts.push([from, end]);
  }
  return parts;
}
const length = (spans) => spans.reduce((sum, [from, end]) => sum + end - from, 0);

/** A scale on which times without anything are cut out. */
function scaleOf(lanes, width) {
  const spans = lanes.map(({ from, end }) => [from, end]).sort((a, b) => a[0] - b[0]);
  const busy = joined(spans, 0);
  const parts = joined(busy, Math.max(0.08 * length(busy), 300));
  const room = Math.max(width - BREAK * (parts.length - 1), 60);
  const pixels = room / Math.max(length(parts), 1); // of a millisecond
  let x = 0;
  const placed = parts.map(([from, end], index) => {
    const gap = index + 1 < parts.length ? parts[index + 1][0] - end : 0;
    const part = { from, end, x, gap, width: (end - from) * pixels };
    x += part.width + BREAK;
    return part;
  });
  const at = (moment) => {
    const part = placed.find((span) => moment <= span.end) ?? placed.at(-1);
    return part
      ? part.x + Math.min(Math.max(moment - part.from, 0), part.end - part.from) * pixels
      : 0;
  };
  return { parts: placed, at, pixels };
}

function ticks({ parts, pixels }) {
  const steps = [
    100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000,
    3600000,
  ];
  const step = steps.find((length) => length * pixels >= 84) ?? 7200000;
  return parts.flatMap((part) => {
    const times = [part.from];
    for (let at = Math.ceil(part.from / step) * step; at <= part.end; at += step) {
      const hasRoom =
        (at - times.at(-1)) * pixels >= (times.length > 1 ? 62 : 84) &&
        (!part.gap || (part.end - at) * pixels > 20);
      if (hasRoom) times.push(at);
    }
    return times.map((at, index) => ({
      x: part.x + (at - part.from) * pixels,
      text: clock(at, step < 1000 && index > 0),
      isFirst: index === 0,
    }));
  });
}

export const eventName = (event) =>
  JSON.stringify([event.version_id ?? null, event.sequencer ?? null]);

export function Timeline({ story, definition, keeps, numbers, readAt }) {
  const [box, boxWidth] = useWidth(1000);
  const width = Math.max(boxWidth, 700);
  const drawn = useMemo(() => {
    const executions = new Map(story.executions.map((execution) => [execution.arn, execution]));
    const lanes = story.deliveries
      .map((delivery) => ({ delivery, execution: executions.get(delivery.execution) }))
      .filter(({ execution }) => execution?.seen)
      .map(({ delivery, execution }, index) => ({
        delivery,
        execution,
        index,
        number: numbers.get(eventName(delivery)),
        ...phases(execution, definition, keeps, readAt),
      }));
    for (const lane of lanes) lane.left = leftLock(lane, lanes, readAt);
    return { lanes, byArn: new Map(lanes.map((lane) => [lane.execution.arn, lane])) };
  }, [story, definition, keeps, numbers, readAt]);
  const { lanes, byArn } = drawn;
  const [hasMore, setMore] = useState(false);
  const look = () => {
    const { scrollLeft, clientWidth, scrollWidth } = box.current ?? {};
    setMore(scrollWidth - clientWidth - scrollLeft > 1);
  };
  useEffect(look, [width, boxWidth, lanes]);
  const later = () => box.current.scrollBy({ left: 0.7 * box.current.clientWidth });
  if (!lanes.length) return null;
  const right = 152; // for the word that the output is current
  const scale = scaleOf(lanes, width - GUTTER - right - 14);
  const x = (moment) => GUTTER + 10 + scale.at(moment);
  const y = (lane) => 34 + (lane.index + 0.5) * HEIGHT;
  const top = 34 + lanes.length * HEIGHT + 14;
  const end = Math.max(...lanes.map((lane) => lane.end));
  const bottom = top + (keeps ? FOOT : 0) + 8;
  return html`<div class=${`timeline-room ${hasMore ? "has-more" : ""}`}>
    <div class="timeline" ref=${box} tabindex="0" role="region" aria-label="Timeline"
      onScroll=${look}>
    <svg width=${width} height=${bottom} role="group" aria-label="One lane for each execution">
      <defs>
        <pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)">
          <rect class="hatch-ground" width="7" height="7" />
          <rect class="hatch-line" width="2.4" height="7" /></pattern>
        <marker id="cause" viewBox="0 0 8 8" refX="6.5" refY="4" markerWidth="8" markerHeight="8"
          orient="auto" markerUnits="userSpaceOnUse">
          <path d="M0.5,1 L7,4 L0.5,7" /></marker>
      </defs>
      <g class="axis">${ticks(scale).map((tick) => html`<g>
        <line x1=${GUTTER + 10 + tick.x} x2=${GUTTER + 10 + tick.x} y1="24" y2=${bottom} />
        <text x=${GUTTER + 10 + tick.x} y="15" text-anchor=${tick.isFirst ? "start" : "middle"}>
        ${tick.text}</text></g>`)}</g>
      ${scale.parts
        .filter((part) => part.gap)
        .map((part) => {
          const from = GUTTER + 10 + part.x + part.width;
          const at = `${from + BREAK / 2 + 14},${34 + (lanes.length * HEIGHT) / 2}`;
          return html`<g class="break"><rect x=${from + 32} y="22" width=${BREAK - 44}
            height=${bottom - 22} />
          <text transform=${`translate(${at}) rotate(-90)`}
            text-anchor="middle">${span(part.gap / 1000)} later</text></g>`;
        })}
      ${lanes.map((lane) => lane.written && html`<path class="drop"
        d=${`M${x(lane.written)},${y(lane) + 14}V${top + FOOT - 26}`} />`)}
      ${lanes.map((lane) => html`<${Lane} key=${lane.execution.arn} lane=${lane} x=${x} y=${y(lane)}
        width=${width} numbers=${numbers} />`)}
      ${lanes.map((lane) => html`<${CauseLine} lane=${lane} byArn=${byArn} x=${x} y=${y} />`)}
      ${keeps && html`<${Outputs} name=${keeps === "each" ? "Last output" : "Output"}
        spans=${outputs(lanes, end)} y=${top + FOOT - OUTPUT - 4} x=${x} last=${right - 14} />`}
    </svg></div>
    ${hasMore && html`<button class="later" onClick=${later}>Later <${Icon} name="next" /></button>`}
    </div>`;
}

/** Which event's output was there, from when to when. */
function outputs(lanes, end) {
  const written = lanes.filter((lane) => lane.written).sort((a, b) => a.written - b.written);
  return written.map((lane, index) => ({
    at: lane.written,
    number: lane.number,
    isRemoved: lane.delivery.is_deletion,
    end: written[index + 1]?.written ?? end,
    isLast: index === written.length - 1,
  }));
}

function Lane({ lane, x, y, width, numbers }) {
  const { delivery, execution, number } = lane;
  const { tone, icon, text } = outcome(delivery.outcome);
  const cause = delivery.cause;
  const hasRoom = lane.left && x(lane.left[1]) - x(lane.left[0]) > 270;
  const other = cause?.sequencer && numbers.get(eventName(cause));
  const why =
    { Superseded: other && `by event ${other}`, Waiting: other && `for event ${other}` }[
      delivery.outcome
    ] ?? (execution.attempt > 1 ? `attempt ${execution.attempt}` : null);
  const box = ([from, to], h, kind) =>
    html`<rect class=${kind} x=${x(from)} y=${y - h / 2} width=${Math.max(x(to) - x(from), 2)}
    height=${h} rx=${Math.min(h / 4, 5)} />`;
  const [left, line] = [14, y - 8];
  const isAlive = !execution.stopped;
  const took = execution.seconds === null ? isAlive && "running" : span(execution.seconds);
  const facts = [why, took, execution.waited > 0 && `waited ${span(execution.waited)}`]
    .filter(Boolean)
    .join(", ");
  const stop = x(lane.end);
  const isWide = ([from, to]) => x(to) - x(from) > 64; // there is room for a word
  return html`<a class="lane ${tone}" href=${href("execution", execution.arn)}
    aria-label=${plain(delivery.text)}>
    <title>${plain(delivery.text)}</title>
    <rect class="ground" x="0" y=${y - HEIGHT / 2} width=${width} height=${HEIGHT} />
    <circle class="number-ground" cx=${left + 10} cy=${line} r="10" />
      <text class="number-text" x=${left + 10} y=${line + 4} text-anchor="middle">${number ?? "?"}
      </text>
    <g class="sign"><svg x=${left + 27} y=${line - 8} width="16" height="16" viewBox="0 0 16 16">
    <path d=${iconPath(icon)} /></svg></g>
    <text class="outcome" x=${left + 47} y=${line + 4.5}>${text}</text>
    <text class="why" x=${left + 47} y=${y + 13}>${facts}</text>
    <line class="life" x1=${x(lane.from)} x2=${stop} y1=${y} y2=${y} />
    ${
      lane.left &&
      html`${box(lane.left, 28, "lock left")}<text class="left-text" x=${x(lane.left[0]) + 34}
      y=${y + 4}>${hasRoom ? "its lock is left, until a sweep frees it" : ""}</text>`}
    ${lane.waits.map((part) => box(part, 18, "wait"))}
    ${lane.locks.map((part) => box(part, 28, `lock ${part[2] ? "open" : ""}`))}
    ${lane.works.map((part) => box(part, 14, part[2] ? "work failed" : "work"))}
    ${lane.waits.filter(isWide).map(([from, to]) => html`<g class="wait-text">
      <rect x=${(x(from) + x(to)) / 2 - 23} y=${y - 7.5} width="46" height="15" rx="7.5" />
      <text x=${(x(from) + x(to)) / 2} y=${y + 4} text-anchor="middle">waits</text></g>`)}
    ${lane.works.filter(isWide).map(([from]) => html`<text class="work-text" x=${x(from) + 8}
      y=${y + 4}>works</text>`)}
    <circle class="begin" cx=${x(lane.from)} cy=${y} r="3.5" />
    ${lane.written && html`<path class="written"
      d=${`M${x(lane.written)},${y - 8}l8,8l-8,8l-8,-8z`} />`}
    ${isAlive ? html`<path class="alive" d=${`M${stop + 3},${y - 6}l7,6l-7,6`} />`
        : html`<g class="end"><circle cx=${stop + 13} cy=${y} r="10" />
        <svg x=${stop + 5} y=${y - 8} width="16" height="16" viewBox="0 0 16 16">
        <path d=${iconPath(icon)} /></svg></g>`}
  </a>`;
}

/** From what caused an outcome to the execution that ended so. */
function CauseLine({ lane, byArn, x, y }) {
  const { cause, outcome: name } = lane.delivery;
  const other = cause?.execution && byArn.get(cause.execution);
  const at = time(cause?.at);
  if (!other || !at || other === lane || !["Superseded", "Duplicate", "Waiting"].includes(name))
    return null;
  const [fromX, fromY] = [x(Math.min(Math.max(at, other.from), other.end)), y(other)];
  const [toX, toY] = [x(lane.end) + 13, y(lane)];
  const down = toY > fromY ? 1 : -1;
  const edge = toY - 12 * down;
  const middle = (fromY + edge) / 2;
  const text = `M${fromX},${fromY + 5 * down}C${fromX},${middle} ${toX},${middle} ${toX},${edge}`;
  return html`<g class="cause">
    <circle cx=${fromX} cy=${fromY} r="4.5" />
    <path d=${text} marker-end="url(#cause)" /></g>`;
}

function Outputs({ name, spans, y, x, last }) {
  const texts = spans.map((span) =>
    `${span.isRemoved ? "removed by " : ""}event ${span.number} from ${clock(span.at)}`);
  return html`<g class="outputs" role="img"
    aria-label=${`${name}: ${texts.join(", ") || "none"}`}>
    <text class="foot-name" x=${GUTTER - 6} y=${y + 15} text-anchor="end">${name}</text>
    ${spans.map(({ at, end, number, isRemoved, isLast }) => {
      const from = x(at);
      const room = x(end) + (isLast ? last : -2) - from;
      const text = `event ${number}${isRemoved ? " removed it" : ""}${isLast ? " · current" : ""}`;
      return html`<g class=${`${isLast ? "current" : ""} ${isRemoved ? "removed" : ""}`}>
        <rect x=${from} y=${y} width=${Math.max(room, 3)} height=${OUTPUT} rx="5" />
        ${room > 22 && html`<text x=${from + 8} y=${y + 15}>
        ${room > text.length * 6.8 + 12 ? text : number}</text>`}</g>`;
    })}</g>`;
}
