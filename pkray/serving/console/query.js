// One query: its plan as a graph, how far it is, what each operator does.
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { Drawn } from "./graph.js";
import { Answered, Asked, Cells, Change, Plot, Rows, allows, bytes, count, instant, isKnown, link, seconds, share, text, useAnswer } from "./parts.js";

// How far behind it was, as long as this page has been open.
function useHistory(found) {
  const [seen, setSeen] = useState([]);
  useEffect(() => {
    if (!found) return;
    const behind = Object.values(found.sources).map((each) => each.seconds).filter((each) => each !== undefined);
    if (behind.length) setSeen((before) => [...before.slice(-719), [Date.now() / 1000, Math.max(...behind)]]);
  }, [found]);
  return seen;
}

function Sources({ sources }) {
  const rows = Object.entries(sources).map(([name, each]) => ({ name, ...each }));
  return html`<${Rows} caption="Sources" rows=${rows} columns=${[
    ["source", (each) => link("table", each.name)],
    ["read up to", (each) => text(each.position), "number"],
    ["snapshots behind", (each) => count(each.snapshots), "number"],
    ["behind", (each) => seconds(each.seconds), "number"],
    ["event time", (each) => instant(each.watermark)],
  ]} />`;
}

const DELAYS = [["waiting", "until the epoch began"], ["computing", "in operators"], ["committing", "to the results"]];

// On what the time goes from a change of a source to its result.
function Delay({ delay }) {
  const most = Math.max(...DELAYS.map(([part]) => delay?.[part] || 0));
  if (!most) return null;
  return html`<p class="quiet">From a change to its result, at the newest epoch that was measured:</p>
    <div class="bars">${DELAYS.map(([part, where]) => html`<span>${part} <span class="quiet">${where}</span></span>
      <svg role="img" aria-label=${`${part}: ${delay[part]} s`} viewBox="0 0 1000 16" preserveAspectRatio="none"><rect class="fill" width=${(1000 * delay[part]) / most} height="16" /></svg>
      <span class="number">${delay[part] < 1 ? `${count(delay[part] * 1000)} ms` : seconds(delay[part])}</span>`)}</div>`;
}

const SKEWED = 2; // times the mean: one worker has so much more to do than others

function isSkewed(node) {
  return node.busiest > 0.5 && node.busiest > SKEWED * node.busy;
}

function Epochs({ path }) {
  return html`<div class="row"><${Asked} label="Show the epochs before" path=${`${path}/epochs`}>${({ epochs }) => {
    const oldest = [...epochs].reverse();
    return html`${oldest.length > 1 && html`<${Plot} title="Rows that epochs changed" times=${oldest.map((each) => each.time / 1000)} values=${oldest.map((each) => each.rows)} />`}
      <${Rows} caption="Epochs that changed the result, the newest first" rows=${epochs} columns=${[
        ["epoch", (each) => count(each.epoch), "number"],
        ["committed", (each) => new Date(each.time).toISOString(), "whole"],
        ["snapshot", (each) => each.snapshot, "number"],
        ["rows", (each) => count(each.rows), "number"],
        ["sources read up to", (each) => each.sources],
      ]} />`;
  }}<//></div>`;
}

function Verification({ path }) {
  return html`<div class="row"><${Asked} label="Verify the result" path=${`${path}/verify`} body=${{}}>${(found) => html`
    <p class=${found.equal ? "good" : "bad"}>The result and a run over all that was read: ${found.said}.</p>
    ${found.excluded.map((each) => html`<p class="quiet">Left out: ${each}</p>`)}
    ${found.missing.rows.length > 0 && html`<${Cells} caption="Rows that the result lacks" found=${found.missing} />`}
    ${found.extra.rows.length > 0 && html`<${Cells} caption="Rows that the result has and should not" found=${found.extra} />`}`}<//></div>`;
}

function States({ path, nodes }) {
  const kept = nodes.filter((each) => each.state_rows);
  const [node, setNode] = useState("");
  if (!kept.length) return html`<p class="quiet">No operator keeps any.</p>`;
  const chosen = node || String(kept[0].id);
  return html`<div class="row"><label>Operator<select value=${chosen} onChange=${(event) => setNode(event.target.value)}>${kept.map((each) => html`<option value=${each.id}>${each.id} ${each.type}</option>`)}</select></label>
    <${Asked} key=${chosen} label="Show what it remembers" path=${`${path}/state/${chosen}`}>${(found) => html`<${Cells} caption=${`${found.rows.length} rows of the state of ${chosen}, at the newest checkpoint`} found=${found} />`}<//></div>`;
}

function LeftOut({ path }) {
  const left = [["late", "Rows that came late"], ["errors", "Rows that could not be computed"]];
  return html`<div class="row"><${Asked} label="Show the rows that were left out" path=${`${path}/left-out`}>${(found) => left.map(([kind, caption]) => (found[kind].rows.length ? html`<${Cells} caption=${caption} found=${found[kind]} />` : html`<p class="quiet">${caption}: none.</p>`))}<//></div>`;
}

function Savepoints({ name, savepoints, allowed }) {
  const [savepoint, setSavepoint] = useState("");
  const may = allows(allowed, "query", "make-savepoint");
  const change = (what, label, at, more) => html`<${Change} allowed=${allowed} kind="query" name=${name} change=${what} label=${label} what=${`${at} of ${name}`} body=${{ savepoint: at }} ...${more} />`;
  const buttons = (each) => html`
    ${change("resume", "Go back to it", each, { warning: "The results get the rows that they had then; whoever follows them sees that as changes." })}
    ${change("delete-savepoint", "Delete", each)}`;
  return html`
    ${savepoints.length ? html`<${Rows} caption="Savepoints" rows=${savepoints} id=${(each) => each} columns=${[["savepoint", (each) => each], ...(may ? [["change", buttons]] : [])]} />` : html`<p class="quiet">There are none.</p>`}
    ${may && html`<div class="row">
      <label>Name of the savepoint<input value=${savepoint} onInput=${(event) => setSavepoint(event.target.value)} /></label>
      ${change("make-savepoint", "Make a savepoint", savepoint, { disabled: !savepoint })}
    </div>`}`;
}

function Newer({ path, name, allowed, upgrade }) {
  const [text, setText] = useState("");
  const change = (what, label, body) => html`<${Change} allowed=${allowed} kind="query" name=${name} change=${what} label=${label} body=${body} />`;
  return html`
    ${upgrade && html`<p class="note">Under way: ${Object.entries(upgrade).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ")}</p>
      <div class="row">${change("accept", "Accept the upgrade")} ${change("rollback", "Go back")}</div>`}
    <label class="quiet" for="newer">A newer SELECT</label>
    <textarea id="newer" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    <div class="row">
      <${Asked} label="What it would mean" disabled=${!text.trim()} path=${`${path}/diff`} body=${{ text }}>${(found) => (found.nodes.length ? html`<${Rows} caption="What becomes of operators with state" rows=${found.nodes} columns=${[
        ["operator", (each) => each.id, "number"],
        ["state", (each) => html`<span class=${{ refused: "bad", dropped: "warn", kept: "good" }[each.fate] || ""}>${each.fate}</span>`],
        ["does", (each) => each.description],
        ["because", (each) => each.reason || (each.differs.length ? `${each.differs.join(", ")} differ` : "")],
      ]} />` : html`<p>No operator keeps state.</p>`)}<//>
      ${text.trim() && change("upgrade", "Upgrade to it", { text })}
    </div>`;
}

export function Query({ name, allowed, recorded }) {
  const path = `/api/queries/${encodeURIComponent(name)}`;
  const answer = useAnswer(`/api/queries/${encodeURIComponent(name)}`);
  const history = useHistory(answer.found);
  return html`<h1>Query ${name}</h1><${Answered} answer=${answer}>${(found) => html`
    <dl class="facts">
      <dt>State</dt><dd class=${{ failed: "bad", running: "good" }[found.state] || ""}>${found.state}</dd>
      ${found.failure && html`<dt>Failure</dt><dd class="bad">${found.failure}${found.failed_node && ` at ${found.failed_node}`}</dd>`}
      <dt>Results</dt><dd>${found.tables.map((each) => html`${link("table", each)} `)}</dd>
      <dt>Epoch</dt><dd>${count(found.epoch)}</dd>
      <dt>Workers</dt><dd>${count(found.workers)}</dd>
      <dt>Late rows</dt><dd>${count(found.late)}</dd>
      <dt>Options</dt><dd>${Object.entries(found.options).filter(([, value]) => value !== null).map(([key, value]) => `${key} = ${value}`).join("; ")}</dd>
    </dl>
    <div class="row">
      <${Change} allowed=${allowed} kind="query" name=${name} change="stop" label="Stop" />
      <${Change} allowed=${allowed} kind="query" name=${name} change="resume" label="Resume" />
    </div>
    <h2>Lag</h2>
    <${Sources} sources=${found.sources} />
    <${Delay} delay=${found.delay} />
    ${history.length > 1 && html`<${Plot} title="Seconds behind, since this page was opened" times=${history.map((each) => each[0])} values=${history.map((each) => each[1])} />`}
    ${!recorded && html`<${Epochs} path=${path} /><${Verification} path=${path} />`}
    ${found.sql && html`<h2>Statement</h2><pre tabindex="0" role="region" aria-label="The SQL that the query was made from">${found.sql}</pre>`}
    <h2>Plan</h2>
    <${Drawn} graph=${found.graph} />
    <${Rows} caption="Operators" rows=${found.graph.nodes} columns=${[
      ["operator", (each) => `${each.id} ${each.type}`, "whole"],
      ["busy", (each) => share(each.busy), "number"],
      ...(found.workers > 1 ? [["busiest worker", (each) => html`<span class=${isSkewed(each) ? "warn" : ""}>${share(each.busiest)}</span>`, "number"]] : []),
      ...(found.graph.nodes.some((each) => isKnown(each.watermark)) ? [["event time", (each) => instant(each.watermark), "whole"]] : []),
      ["rows in", (each) => count(each.rows_in), "number"],
      ["rows out", (each) => count(each.rows_out), "number"],
      ["worked", (each) => seconds(each.seconds), "number"],
      ["state rows", (each) => count(each.state_rows), "number"],
      ["state size", (each) => bytes(each.state_bytes), "number"],
      ["does", (each) => each.description],
    ]} />
    <h2>Savepoints</h2><${Savepoints} name=${name} savepoints=${found.savepoints} allowed=${allowed} />
    ${!recorded && html`<h2>State</h2><${States} path=${path} nodes=${found.graph.nodes} />
    <h2>Rows left out</h2><${LeftOut} path=${path} />
    <h2>Upgrade</h2><${Newer} path=${path} name=${name} allowed=${allowed} upgrade=${found.upgrade} />`}`}<//>`;
}
