// Statements that read.
import { html, useState } from "./vendor/htm-preact.js";
import { Cells, Failure, ask, count, seconds } from "./parts.js";

const DIALECTS = ["spark", "flink"];
const KEPT = 20; // statements of this browser

function before() {
  try {
    return JSON.parse(localStorage.getItem("statements") || "[]").filter((each) => typeof each === "string");
  } catch {
    return [];
  }
}

export function Sql() {
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
  function pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(event);
  }
  const found = answer.found;
  return html`<h1>SQL</h1>
    <p class="quiet">SELECT, EXPLAIN, SHOW and DESCRIBE, of 1,000 rows at most. Ctrl+Enter runs it.</p>
    <form onSubmit=${run}>
      <label class="quiet" for="statement">Statement</label>
      <textarea id="statement" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${pressed}></textarea>
      <div class="row">
        <label>Dialect<select value=${dialect} onChange=${(event) => setDialect(event.target.value)}>${DIALECTS.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
        <button disabled=${isAtWork}>${isAtWork ? "It runs" : "Run"}</button>
        ${history.length > 0 && html`<label>Before<select value="" onChange=${(event) => setText(event.target.value || text)}><option value="">choose</option>${history.map((each) => html`<option value=${each}>${each.slice(0, 80)}</option>`)}</select></label>`}
      </div>
    </form>
    <${Failure} error=${answer.error} />
    ${found && html`<${Cells} caption=${`${count(found.rows.length)} rows in ${seconds(found.seconds)}${found.cut ? "; there are more" : ""}`} found=${found} />`}`;
}
