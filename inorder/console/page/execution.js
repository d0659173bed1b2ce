// One execution: the graph with its path, its steps in time, and the data of the selected state.
import { html, useEffect, useMemo } from "inorder/html";
import { saved } from "inorder/api";
import { href } from "inorder/route";
import { Badge, Fact, Icon, Json, Key, Mono, Outcome, Pane, Read } from "inorder/parts";
import { When, useData, useWidth } from "inorder/parts";
import { BECAME, Graph, become, kind } from "inorder/graph";
import { between, clock, nameOf, plain, plural, span } from "inorder/words";

export function Execution({ id: arn, parameters }) {
  const { data: execution, error, read } = useData("/api/execution", { arn });
  const definition = useData("/api/definition");
  const isRunning = execution?.status === "RUNNING";
  const took = execution?.seconds ?? null;
  useEffect(() => {
    const timer = isRunning && !saved && setTimeout(() => read(true), 1000);
    return () => clearTimeout(timer);
  }, [execution]);
  if (!execution || !definition.data)
    // The heading stays the same element, so that it keeps the focus.
    return html`<article class="execution"><div class="title"><h1 tabindex="-1">Execution</h1></div>
      <${Read} name="the execution" error=${error ?? definition.error}
        again=${saved ? null : read} /></article>`;
  return html`<article class="execution">
    <div class="title"><h1 tabindex="-1">
      <${Key}>${nameOf(execution)}<//></h1>
      <${Outcome} name=${execution.ended_as} />
      <span class="actions">
        ${execution.key && html`<a class="button" href=${href("key", execution.key, { version:
            execution.version_id })}>
          <${Icon} name="lanes" />Timeline of this key</a>`}
      </span></div>
    ${execution.cause && html`<${Callout} tone="bad" icon="pause" error=${execution.error}>
      ${cause(execution.cause)}<//>`}
    <dl class="facts">
      <${Fact} name="Started (UTC)"><${When} at=${execution.started} precise=${true} /><//>
      <${Fact} name="Duration">
        ${took === null ? (isRunning ? "running" : "not known") : span(took)}
        ${execution.waited > 0 && html`, <span class="waited">waited ${span(execution.waited)}
        </span>`}<//>
      <${Fact} name="Sequencer"><${Mono}>${execution.sequencer ?? "none"}<//>
        ${execution.is_repair && " (of a repair)"}<//>
      <${Fact} name="Attempt">${execution.attempt}<//>
      <${Fact} name="Execution"><${Mono}>${execution.id}<//><//>
    </dl>
    ${execution.missing > 0 && html`<${Callout} tone="warn">At least
        ${plural(execution.missing, "entry", "entries")} of this execution are missing from the
        log.<//>`}
    ${execution.truncated && html`<${Callout} tone="warn">The log has cut some data off, so it is
        not shown.<//>`}
    <${Panes} execution=${execution} definition=${definition.data} parameters=${parameters} />
  </article>`;
}

const Callout = ({ tone, icon = "alert", error, children }) =>
  html`<div class="callout ${tone}"><${Icon} name=${icon} /><div>${
    error ? html`<strong>${error}</strong><p class="cause">${children}</p>` : children
  }</div></div>`;

/** A cause may be JSON with an error and a cause of its own, or with what a function raised. */
function cause(text) {
  try {
    const { Error, Cause, errorType = Error, errorMessage = Cause } = JSON.parse(text);
    return errorType ? `${plain(errorType)}: ${cause(errorMessage)}` : plain(text);
  } catch {
    return plain(text);
  }
}

function Panes({ execution, definition, parameters }) {
  const [box, width] = useWidth(800);
  const { steps } = execution;
  // The step that is shown: the one in the address, else the last visit of the state that is
  // there, else the last step with an error.
  const index = useMemo(() => {
    if (parameters.step && steps[parameters.step]?.state === parameters.state)
      return Number(parameters.step);
    if (parameters.state) return steps.findLastIndex((step) => step.state === parameters.state);
    return steps.length - 1;
  }, [parameters.step, parameters.state, steps]);
  const name = parameters.state ?? steps[index]?.state;
  return html`<div class="panes">
    <${Pane} title="State machine" kind="graph-pane">
      <div ref=${box}>
        <${Graph} room=${width} definition=${definition} execution=${execution} selected=${name}
          all=${width > 600} parameters=${parameters} />
        </div>
    <//>
    <${Pane} title="Steps" kind="steps-pane" beside=${html`<span
      class="quiet-text">${plural(steps.length, "state")} passed</span>`}>
      <${Steps} execution=${execution} selected=${index} parameters=${parameters} /><//>
    ${name !== undefined && html`<${Details} execution=${execution} definition=${definition}
      name=${name} index=${index} />`}
  </div>`;
}

function Steps({ execution, selected, parameters }) {
  const { steps } = execution;
  const begin = new Date(execution.started ?? steps[0]?.entered).getTime();
  const end = Math.max(new Date(execution.stopped ?? Date.now()).getTime(), begin + 1);
  const place = (step) => {
    const from = new Date(step.entered).getTime();
    const to = new Date(step.exited ?? execution.stopped ?? end).getTime();
    return {
      left: `${Math.min((100 * (from - begin)) / (end - begin), 99)}%`,
      width: `${Math.max((100 * (to - from)) / (end - begin), 0.8)}%`,
    };
  };
  return html`<ol class="steps">${steps.map((step, index) => {
    const is = become(execution, index);
    return html`<li key=${index}>
      <a class=${`step ${BECAME[is].tone}`} aria-current=${index === selected ? "true" : undefined}
      href=${href("execution", execution.arn, { ...parameters, state: step.state, step: index })}>
      <span class="dot" title=${BECAME[is].text}><${Icon} name=${BECAME[is].icon} size=${14} />
        <span class="hidden">${BECAME[is].text}</span></span>
      <span class="step-name">${step.state || "(a state that the log lacks)"}</span>
      <span class="lane" aria-hidden="true">${step.entered && html`<i
        class=${step.type === "Wait" ? "wait" : ""} style=${place(step)}>
        </i>`}</span>
      <span class="step-took">${span(step.seconds)}</span></a></li>`;
  })}</ol>`;
}

function Details({ execution, definition, name, index }) {
  const state = definition.States[name];
  const step = execution.steps[index];
  const visits = execution.steps.flatMap(({ state: other }, at) => (other === name ? [at] : []));
  const is = step ? become(execution, index) : "not";
  return html`<section class="pane details" aria-label=${`State ${name}`}>
    <div class="pane-title"><h2>${name}</h2><${Badge} tone=${BECAME[is].tone}
      icon=${BECAME[is].icon}>${BECAME[is].text}<//></div>
    ${state?.Comment && html`<p class="comment">${state.Comment}</p>`}
    ${step && html`<dl class="facts">
      <${Fact} name="Kind">${kind(state).text}<//>
      ${visits.length > 1 && html`<${Fact} name="Visit">
        ${visits.indexOf(index) + 1} of ${visits.length}<//>`}
      <${Fact} name="Entered (UTC)"><${When} at=${step.entered} precise=${true} date=${false} /><//>
      <${Fact} name="Duration">
        ${step.seconds === null ? "not ended, or not known" : span(step.seconds)}<//></dl>`}
    ${step?.error && html`<${Callout} tone=${is === "failed" ? "bad" : "warn"} error=${step.error}>
      ${cause(step.cause)}<//>`}
    ${
      step?.attempts?.length > 0 &&
      html`<table class="attempts"><caption>${plural(step.attempts.length, "attempt")}</caption>
        <thead><tr>
      <th>#</th><th>Started</th><th>Took</th><th>Result</th></tr></thead><tbody>
      ${step.attempts.map(
        (attempt, number) => html`<tr><td>${number + 1}</td><td>${clock(attempt.started, true)}</td>
        <td>${span(between(attempt.started, attempt.ended))}</td>
        <td>${attempt.error ? html`<span class="bad-text">${attempt.error}
        </span>` : attempt.ended ? "succeeded" : "not ended"}</td>
          </tr>`)}</tbody></table>`}
    ${step && html`<${Data} name="Input" value=${step.input} isOpen=${true} />
      <${Data} name="Output" value=${step.output} isOpen=${true} />`}
    <${Data} name="Definition" value=${state} isOpen=${!step} /></section>`;
}

const Data = ({ name, value, isOpen }) => html`<details open=${isOpen}><summary>${name}</summary>
  <${Json} label=${name} value=${value} /></details>`;
