// What pages share: fetching, numbers for people, tables. Values become text, never markup.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const LOOK_MILLIS = 5000; // between two looks of a page that is in front
const CHANGED = "pkray-changed"; // what was asked for has been done: pages look again

export async function ask(path, body) {
  const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...given });
  } catch {
    throw new Error("the server does not answer: is `pkray serve` running still?");
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || `the server says ${answer.status}`);
  return said;
}

// Asks now and every few seconds while the page is in front. What was there stays on an error.
export function useAnswer(path) {
  const [state, setState] = useState({ path, found: null, error: null });
  useEffect(() => {
    let goesOn = true;
    let timer = null;
    let isLooking = false;
    async function look() {
      isLooking = true;
      if (!document.hidden) {
        try {
          const found = await ask(path);
          if (goesOn) setState({ path, found, error: null });
        } catch (error) {
          if (goesOn) setState((before) => ({ path, found: before.path === path ? before.found : null, error: error.message }));
        }
      }
      isLooking = false;
      if (goesOn) timer = setTimeout(look, LOOK_MILLIS);
    }
    function lookSoon() {
      if (isLooking) return;
      clearTimeout(timer);
      look();
    }
    look();
    window.addEventListener(CHANGED, lookSoon);
    return () => {
      goesOn = false;
      window.removeEventListener(CHANGED, lookSoon);
      clearTimeout(timer);
    };
  }, [path]);
  return state.path === path ? state : { path, found: null, error: null };
}

export function Failure({ error }) {
  return html`<div role="status" aria-live="polite">${error && html`<p class="error"><strong class="bad">Error:</strong> ${error}</p>`}</div>`;
}

export function Answered({ answer, children }) {
  const found = answer.found;
  return html`<${Failure} error=${answer.error} />${found ? children(found) : !answer.error && html`<p class="quiet">It is being read.</p>`}`;
}

const EMPTY = "–";

export function isKnown(value) {
  return value !== null && value !== undefined;
}

// A moment in milliseconds since 1970; a browser has no date for those that are too far from now.
export function instant(value) {
  const made = new Date(value);
  return isKnown(value) ? (isNaN(made) ? `${value} ms` : made.toISOString()) : EMPTY;
}

export function count(value) {
  return !isKnown(value) ? EMPTY : Number(value).toLocaleString("en", { maximumFractionDigits: 2 });
}

export function bytes(value) {
  if (value === null || value === undefined) return EMPTY;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let place = 0;
  let left = Number(value);
  while (left >= 1000 && place < units.length - 1) {
    left /= 1000;
    place += 1;
  }
  return `${left.toLocaleString("en", { maximumFractionDigits: left < 10 && place ? 1 : 0 })} ${units[place]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return EMPTY;
  if (value < 120) return `${count(Math.round(value * 10) / 10)} s`;
  if (value < 7200) return `${count(Math.round(value / 60))} min`;
  if (value < 172800) return `${count(Math.round(value / 3600))} h`;
  return `${count(Math.round(value / 86400))} days`;
}

export function share(value) {
  return value === null || value === undefined ? EMPTY : `${count(Math.round(value * 1000) / 10)} %`;
}

export function text(value) {
  return value === null || value === undefined ? EMPTY : String(value);
}

// A table; columns: [heading, function of a row, "number" or "whole", which stays on a line]; id names a row whose cells remember.
export function Rows({ caption, columns, rows, id = () => undefined }) {
  const kind = (each) => each[2] || "";
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption>${caption}</caption>
      <thead><tr>${columns.map((each) => html`<th scope="col" class=${kind(each)}>${each[0]}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${id(row)}>${columns.map((each) => html`<td class=${kind(each)}>${each[1](row)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

// The answer of a statement, a lookup or a read: columns with types, and rows as lists.
export function Cells({ caption, found }) {
  const columns = found.columns.map((column, at) => [
    column.name,
    (row) => (row[at] === null ? html`<span class="quiet">NULL</span>` : String(row[at])),
    /^(u?int|float|double|half|decimal)/.test(column.type) ? "number" : "",
  ]);
  return html`<${Rows} caption=${caption} columns=${columns} rows=${found.rows} />`;
}

// A button that asks for what is not read with the page, and what it answers.
export function Asked({ label, path, body, disabled, children }) {
  const [answer, setAnswer] = useState({ found: null, error: null });
  const [isAtWork, setAtWork] = useState(false);
  async function look() {
    setAtWork(true);
    try {
      setAnswer({ found: await ask(path, body), error: null });
    } catch (error) {
      setAnswer({ found: null, error: error.message });
    }
    setAtWork(false);
  }
  return html`<button disabled=${disabled || isAtWork} onClick=${look}>${label}</button>
    <div class="answer"><${Failure} error=${answer.error} />${answer.found && children(answer.found)}</div>`;
}

export function link(kind, name) {
  return html`<a href=${`#/${kind}/${encodeURIComponent(name)}`}>${name}</a>`;
}

const MINUTE = 60, DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 120, 300, 900, 1800, 3600, 10800, 21600, DAY, 7 * DAY, 30 * DAY, 365 * DAY];

// How a time stands at an axis whose lines are so many seconds apart: as other times of the console, in UTC.
function stamp(time, step) {
  const written = new Date(time * 1000).toISOString();
  return step >= DAY ? written.slice(0, 10) : written.slice(11, step >= MINUTE ? 16 : 19);
}

// Values over time, in seconds since 1970; from zero on.
export function Plot({ title, times, values }) {
  const at = useRef(null);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(at.current.clientWidth - 16, 200),
      height: 180,
      legend: { show: false },
      series: [{}, { stroke: colour("--mark"), width: 2, points: { show: times.length < 60 } }],
      scales: { y: { range: (drawn, least, most) => [0, most > 0 ? 1.1 * most : 1] } },
      axes: [{ ...axis, size: 32, space: 80, incrs: STEPS, values: (drawn, times, at, space, step) => times.map((each) => stamp(each, step)) }, { ...axis, size: 70 }],
    };
    const drawn = new window.uPlot(options, [times, values], at.current);
    return () => drawn.destroy();
  }, [times.length, times[times.length - 1], values[values.length - 1]]);
  return html`<figure class="plot"><figcaption class="quiet">${title} (UTC)</figcaption><div ref=${at}></div></figure>`;
}

export function allows(allowed, kind, change) {
  return allowed.some(([k, c]) => k === kind && c === change);
}

// What changes something: it is asked for, and there only where it was allowed.
// `what` says in the question what it is about, `warning` what cannot be undone. `foresee` finds out, before
// the question, what would be changed: a text for it, or nothing where there is nothing to be done.
export function Change({ allowed, kind, name, change, label, what = name, warning = "", body = {}, disabled = false, foresee, children }) {
  const [done, setDone] = useState(null);
  const [error, setError] = useState(null);
  const [isAtWork, setAtWork] = useState(false);
  if (!allows(allowed, kind, change)) return null;
  async function run() {
    setAtWork(true);
    try {
      const details = [warning, foresee ? await foresee() : ""].filter(Boolean);
      if (!window.confirm([`${label}: ${what}?`, ...details].join("\n"))) return setAtWork(false);
      const { done: said } = await ask(`/api/change/${kind}/${encodeURIComponent(name)}/${change}`, body);
      setDone({ said, name });
      setError(null);
      window.dispatchEvent(new Event(CHANGED));
    } catch (failure) {
      setDone(null);
      setError(failure.message);
    }
    setAtWork(false);
  }
  return html`<button type="button" disabled=${disabled || isAtWork} onClick=${run}>${label}</button>
    <span role="status" class=${error ? "bad" : ""}>${error ? `Error: ${error}` : done && done.said}${done && children ? html` ${children(done.name)}` : ""}</span>`;
}
