// Statements that read.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Drawn } from "./graph.js";
import { Asked, Cells, Change, Failure, allows, ask, count, link, seconds } from "./parts.js";

const DIALECTS = ["spark", "flink"];
const KEPT = 20; // statements of this browser

function before() {
  try {
    return JSON.parse(localStorage.getItem("statements") || "[]").filter((each) => typeof each === "string");
  } catch {
    return [];
  }
}

const WORDS = "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT INNER DISTINCT COUNT SUM MIN MAX AVG DESCRIBE EXPLAIN SHOW TABLES DATABASES UNION EXCEPT INTERSECT".split(" ");
const OFFERED = 8;
const CHARTED = 50; // rows: more bars are no chart

// Names of tables, and of the columns of those that the statement names.
function useNames(text) {
  const [tables, setTables] = useState([]);
  const [columns, setColumns] = useState({});
  useEffect(() => {
    ask("/api/home").then((found) => setTables(found.tables.map((each) => each.name))).catch(() => setTables([]));
  }, []);
  const named = tables.filter((each) => text.includes(each) && !(each in columns)).slice(0, OFFERED).join(" ");
  useEffect(() => {
    for (const each of named.split(" ").filter(Boolean)) {
      ask(`/api/tables/${encodeURIComponent(each)}`).then((found) => setColumns((before) => ({ ...before, [each]: found.columns.map((column) => column.name) }))).catch(() => {});
    }
  }, [named]);
  const known = tables.filter((each) => text.includes(each)).flatMap((each) => columns[each] || []);
  return [...new Set([...known, ...tables, ...WORDS])];
}

function wordBefore(text, at) {
  return (text.slice(0, at).match(/[\w.$]+$/) || [""])[0];
}

function Chart({ found }) {
  const numbers = found.columns.map((each, at) => ({ ...each, at })).filter((each) => /^(u?int|float|double|decimal)/.test(each.type));
  const [chosen, setChosen] = useState("");
  if (found.rows.length < 2 || !numbers.length) return null;
  const value = numbers.find((each) => String(each.at) === chosen) || numbers[numbers.length - 1];
  const label = found.columns.map((each, at) => ({ ...each, at })).find((each) => each.at !== value.at && !each.name.startsWith("_")) || value;
  const rows = found.rows.slice(0, CHARTED).map((row) => [String(row[label.at]), Number(row[value.at])]);
  const most = Math.max(...rows.map((each) => Math.abs(each[1]) || 0));
  return html`<details><summary>Chart</summary>
    <div class="row"><label>Bars show<select value=${String(value.at)} onChange=${(event) => setChosen(event.target.value)}>${numbers.map((each) => html`<option value=${each.at}>${each.name}</option>`)}</select></label></div>
    <div class="bars">${rows.map(([name, size]) => html`<span>${name}</span>
      <svg role="img" aria-label=${`${name}: ${size}`} viewBox="0 0 1000 16" preserveAspectRatio="none"><rect class=${size < 0 ? "first" : "fill"} width=${most ? (1000 * Math.abs(size || 0)) / most : 0} height="16" /></svg><span class="number">${count(size)}</span>`)}</div></details>`;
}

function Plan({ found }) {
  const remarks = found.nodes.flatMap((each) => each.lints.map((lint) => `${each.id} ${each.type}: ${lint}`));
  return html`<${Drawn} graph=${found} />
    <p class="quiet">As it would run continuously. ${found.nodes.map((each) => `${each.id}: ${each.description}`).join("; ")}</p>
    ${remarks.map((each) => html`<p class="warn">${each}</p>`)}`;
}

function Kept({ text, dialect, allowed }) {
  const [name, setName] = useState("");
  if (!allows(allowed, "query", "begin")) return null;
  return html`<div class="row">
    <label>Keep its rows in the table<input placeholder="database.table" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <${Change} allowed=${allowed} kind="query" name=${name} change="begin" label="Keep it running" disabled=${!name} body=${{ text, dialect }}>${(begun) => link("query", begun)}<//>
  </div>`;
}

export function Sql({ allowed }) {
  const [text, setText] = useState(before()[0] || "SHOW DATABASES");
  const [dialect, setDialect] = useState("spark");
  const [history, setHistory] = useState(before());
  const [answer, setAnswer] = useState({ found: null, error: null });
  const [isAtWork, setAtWork] = useState(false);
  async function run(event) {
    event?.preventDefault();
    setAtWork(true);
    try {
      setAnswer({ found: await ask("/api/sql", { text, dialect }), error: null });
      const kept = [text, ...history.filter((each) => each !== text)].slice(0, KEPT);
      setHistory(kept);
      localStorage.setItem("statements", JSON.stringify(kept));
    } catch (error) {
      setAnswer({ found: null, error: error.message });
    }
    setAtWork(false);
  }
  const field = useRef(null);
  const [at, setAt] = useState(0);
  const word = wordBefore(text, at);
  const names = useNames(text);
  const offered = word.length > 1 ? names.filter((each) => each.toLowerCase().startsWith(word.toLowerCase()) && each !== word).slice(0, OFFERED) : [];
  function take(name) {
    const begun = text.slice(0, at - word.length) + name;
    setText(begun + text.slice(at));
    setAt(begun.length);
    requestAnimationFrame(() => {
      field.current.focus();
      field.current.setSelectionRange(begun.length, begun.length);
    });
  }
  function pressed(event) {
    if (event.key === " " && event.ctrlKey && offered.length) {
      event.preventDefault();
      take(offered[0]);
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
  }
  const found = answer.found;
  return html`<h1>SQL</h1>
    <p class="quiet">SELECT, EXPLAIN, SHOW and DESCRIBE, of 1,000 rows at most. Ctrl+Enter runs it, Ctrl+Space takes the first completion.</p>
    <form onSubmit=${run}>
      <label class="quiet" for="statement">Statement</label>
      <textarea id="statement" ref=${field} spellcheck="false" value=${text} onInput=${(event) => { setText(event.target.value); setAt(event.target.selectionStart); }} onKeyUp=${(event) => setAt(event.target.selectionStart)} onClick=${(event) => setAt(event.target.selectionStart)} onKeyDown=${pressed}></textarea>
      <div class="offered" role="group" aria-label="Completions">${offered.map((each) => html`<button type="button" onClick=${() => take(each)}>${each}</button>`)}</div>
      <div class="row">
        <label>Dialect<select value=${dialect} onChange=${(event) => setDialect(event.target.value)}>${DIALECTS.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
        <button disabled=${isAtWork}>${isAtWork ? "It runs" : "Run"}</button>
        ${history.length > 0 && html`<label class="before">Before<select value="" onChange=${(event) => setText(event.target.value || text)}><option value="">choose</option>${history.map((each) => html`<option value=${each}>${each.slice(0, 80)}</option>`)}</select></label>`}
      </div>
    </form>
    <div class="row"><${Asked} label="Show its plan" path="/api/explain" body=${{ text, dialect }}>${(plan) => html`<${Plan} found=${plan} />`}<//></div>
    <${Kept} text=${text} dialect=${dialect} allowed=${allowed} />
    <${Failure} error=${answer.error} />
    ${found && html`<${Chart} found=${found} />`}
    ${found && html`<${Cells} caption=${`${count(found.rows.length)} rows in ${seconds(found.seconds)}${found.cut ? "; there are more" : ""}`} found=${found} />`}`;
}
