// One table: its snapshots, its buckets' levels, its rows, its schema.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { TimeLine, moment } from "./timeline.js";
import { Answered, Asked, Cells, Change, Failure, Plot, Rows, allows, ask, bytes, count, seconds, text, useAnswer } from "./parts.js";

const LOOKS = 720; // an hour of them

function Bucket({ bucket, most }) {
  const deepest = Math.max(...bucket.levels.map((each) => each.level));
  const levels = Array.from({ length: deepest + 1 }, (_, level) => bucket.levels.find((each) => each.level === level) || { level, bytes: 0, rows: 0, files: 0 });
  return html`<section class="bucket">
    <h3>Bucket ${bucket.bucket} ${bucket.partition !== "{}" && html`<span class="quiet">${bucket.partition}</span>`}</h3>
    ${levels.map((each) => {
      const said = `Level ${each.level}: ${bytes(each.bytes)}, ${count(each.rows)} rows, ${count(each.files)} files`;
      return html`<div class="level"><span class="quiet">L${each.level}</span>
        <svg role="img" aria-label=${said} viewBox="0 0 1000 16" preserveAspectRatio="none"><title>${said}</title>
          <rect class=${each.level ? "fill" : "first"} width=${most ? Math.ceil((1000 * each.bytes) / most) : 0} height="16" /></svg></div>`;
    })}
  </section>`;
}

function Levels({ buckets }) {
  if (!buckets.length) return html`<p class="quiet">There are no files yet.</p>`;
  const most = Math.max(...buckets.flatMap((bucket) => bucket.levels.map((each) => each.bytes)));
  return html`<p class="quiet">Bars are to scale: the longest is ${bytes(most)}. Level 0 waits to be compacted.</p>
    <div class="levels">${buckets.map((bucket) => html`<${Bucket} bucket=${bucket} most=${most} />`)}</div>`;
}

function Lookup({ table }) {
  const [key, setKey] = useState({});
  const [answer, setAnswer] = useState({ found: null, error: null });
  async function look(event) {
    event.preventDefault();
    try {
      setAnswer({ found: await ask(`/api/tables/${encodeURIComponent(table.name)}/lookup?${new URLSearchParams(key)}`), error: null });
    } catch (error) {
      setAnswer({ found: null, error: error.message });
    }
  }
  return html`<form class="row" onSubmit=${look}>
      ${table.primary_keys.map((name) => html`<label>${name}<input value=${key[name] || ""} onInput=${(event) => setKey({ ...key, [name]: event.target.value })} /></label>`)}
      <button>Look up</button>
    </form>
    <${Failure} error=${answer.error} />
    ${answer.found && (answer.found.rows.length ? html`<${Cells} caption="The row, as it is now" found=${answer.found} />` : html`<p>There is no row of this key.</p>`)}`;
}

function Content({ table }) {
  const [snapshot, setSnapshot] = useState("");
  const [answer, setAnswer] = useState({ found: null, error: null });
  async function read(event) {
    event.preventDefault();
    const asked = new URLSearchParams({ count: 100, ...(snapshot ? { snapshot } : {}) });
    try {
      setAnswer({ found: await ask(`/api/tables/${encodeURIComponent(table.name)}/rows?${asked}`), error: null });
    } catch (error) {
      setAnswer({ found: null, error: error.message });
    }
  }
  return html`<form class="row" onSubmit=${read}>
      <label>Snapshot<select value=${snapshot} onChange=${(event) => setSnapshot(event.target.value)}>
        <option value="">the newest</option>
        ${[...table.snapshots].reverse().map((each) => html`<option value=${each.id}>${each.id}</option>`)}
      </select></label>
      <button>Show rows</button>
    </form>
    <${Failure} error=${answer.error} />
    ${answer.found && html`<${Cells} caption=${`${answer.found.rows.length} rows of snapshot ${text(answer.found.snapshot)}`} found=${answer.found} />`}`;
}

function Changed({ table }) {
  const ids = table.snapshots.map((each) => each.id);
  const [start, setStart] = useState("");
  const [end, setEnd] = useState("");
  const path = `/api/tables/${encodeURIComponent(table.name)}/changes`;
  const choice = (label, value, set) => html`<label>${label}<select value=${value} onChange=${(event) => set(event.target.value)}>
    <option value="">choose</option>${[...ids].reverse().map((id) => html`<option value=${id}>${id}</option>`)}</select></label>`;
  return html`
    <div class="row"><${Asked} label="Show the newest changes" path=${path}>${(found) => (found.rows.length ? html`<${Cells} caption=${`${count(found.rows.length)} changes, the newest snapshot first`} found=${found} />` : html`<p>There are none.</p>`)}<//></div>
    <div class="row">${choice("Rows at snapshot", end, setEnd)} ${choice("that were not at", start, setStart)}
      <${Asked} label="Show the difference" disabled=${!start || !end} path=${`${path}?${new URLSearchParams({ start, end })}`}>${(found) => (found.rows.length ? html`<${Cells} caption=${`${count(found.rows.length)} keys whose rows differ: +I is new, +U changed, -D gone`} found=${found} />` : html`<p>Both have the same rows.</p>`)}<//></div>`;
}

// Compactions that run at this moment; those of a diagnosis are over.
function UnderWay({ found }) {
  if (!found) return null;
  if (!found.compactions.length) return html`<p class="quiet">No compaction runs now.</p>`;
  return html`<${Rows} caption="Compactions that run now" rows=${found.compactions} columns=${[
    ["bucket", (each) => place(each)],
    ["from levels", (each) => each.levels.join(", "), "number"],
    ["to level", (each) => each.output_level, "number"],
    ["files", (each) => count(each.files), "number"],
    ["size", (each) => bytes(each.bytes), "number"],
    ["since", (each) => new Date(each.since).toISOString(), "whole"],
    ["for", (each) => seconds(Math.max(found.time - each.since, 0) / 1000), "number"],
  ]} />`;
}

function place(each) {
  return `${each.bucket}${each.partition === "{}" ? "" : ` of ${each.partition}`}`;
}

function Compactions({ table }) {
  return html`<${Asked} label="Show what compaction did" path=${`/api/tables/${encodeURIComponent(table.name)}/compactions`}>${(found) => html`<${Rows} caption="Compactions of the snapshots that are kept, the newest first" rows=${found.compactions} columns=${[
    ["snapshot", (each) => each.snapshot_id, "number"],
    ["time", (each) => each.commit_time, "whole"],
    ["bucket", (each) => place(each)],
    ["files", (each) => `${count(each.files_before)} → ${count(each.files_after)}`, "number"],
    ["size", (each) => `${bytes(each.bytes_before)} → ${bytes(each.bytes_after)}`, "number"],
    ["rows", (each) => `${count(each.rows_before)} → ${count(each.rows_after)}`, "number"],
    ["to level", (each) => text(each.level), "number"],
  ]} />`}<//>`;
}

// What is made of each two looks that follow each other, given the seconds between them.
function between(looks, of) {
  return looks.slice(1).map((now, at) => ({ time: now.time / 1000, value: of(looks[at], now, (now.time - looks[at].time) / 1000) }));
}

// How fast rows came since this page was opened: by looks at the snapshots, and by looks at what processes count.
function Live({ table, load: { found, error } }) {
  const [counted, setCounted] = useState([]);
  const [written, setWritten] = useState([]);
  const newest = useRef(null);
  useEffect(() => {
    const fresh = table.snapshots.filter((each) => each.kind !== "COMPACT" && newest.current !== null && each.id > newest.current);
    newest.current = table.snapshots.at(-1)?.id ?? 0;
    const rows = fresh.reduce((sum, each) => sum + Math.abs(each.added), 0);
    setWritten((before) => [...before.slice(-LOOKS), { time: table.time, rows }]);
  }, [table]);
  useEffect(() => {
    if (found) setCounted((before) => [...before.slice(-LOOKS), found]);
  }, [found]);
  if (error) return html`<${Failure} error=${error} />`;
  if (Math.min(written.length, counted.length) < 3) return html`<p class="quiet">Charts begin after 10 s.</p>`;
  const plot = (title, points) => html`<${Plot} title=${title} times=${points.map((each) => each.time)} values=${points.map((each) => each.value)} />`;
  const latency = between(counted, (before, now) => (now.commits > before.commits ? (now.commit_seconds - before.commit_seconds) / (now.commits - before.commits) : null));
  return html`${plot("Rows a second that were committed", between(written, (before, now, passed) => now.rows / passed))}
    ${latency.some((each) => each.value !== null) && plot("Seconds that a commit took", latency)}
    ${plot("Share of the time that writers waited for compactions", between(counted, (before, now, passed) => Math.max(now.stall_seconds - before.stall_seconds, 0) / passed))}
    ${found.writers_waiting > 0 && html`<p class="warn">Writers wait for the compaction of ${count(found.writers_waiting)} buckets now.</p>`}`;
}

// What the processes of a table do now: asked for once, for the charts and for the compactions.
function Work({ table }) {
  const load = useAnswer(`/api/tables/${encodeURIComponent(table.name)}/load`);
  return html`<h2>Writes</h2><${Live} table=${table} load=${load} />
    <h2>Compactions</h2><${UnderWay} found=${load.found} />
    <div class="row"><${Compactions} table=${table} /></div>`;
}

function Snapshots({ table }) {
  const tagged = (id) => table.tags.filter((each) => each.snapshot_id === id).map((each) => each.tag_name).join(", ");
  const times = table.snapshots.map((each) => moment(each.time) / 1000);
  return html`
    <${TimeLine} table=${table} />
    ${table.snapshots.length > 1 && html`<${Plot} title="Rows in files by the time of the snapshot" times=${times} values=${table.snapshots.map((each) => each.rows)} />`}
    <${Rows} caption=${`The newest of ${count(table.snapshot_count)} snapshots`} rows=${[...table.snapshots].reverse().slice(0, 20)} columns=${[
      ["snapshot", (each) => each.id, "number"],
      ["kind", (each) => each.kind],
      ["time", (each) => each.time, "whole"],
      ["rows", (each) => count(each.rows), "number"],
      ["added", (each) => count(each.added), "number"],
      ["tags", (each) => tagged(each.id)],
      ["user", (each) => (each.user.length > 24 ? html`<span title=${each.user}>${each.user.slice(0, 23)}…</span>` : each.user)],
    ]} />`;
}

function Branches({ branches }) {
  if (!branches.length) return null;
  return html`<h2>Branches</h2><${Rows} caption="Branches" rows=${branches} columns=${[
    ["branch", (each) => each.branch_name],
    ["made", (each) => each.create_time, "whole"],
    ["began at snapshot", (each) => text(each.began?.id), "number"],
    ["snapshots of its own", (each) => (each.error ? html`<span class="bad">${each.error}</span>` : count(each.snapshots?.length))],
    ["rows", (each) => count(each.snapshots?.at(-1)?.rows), "number"],
  ]} />`;
}

const ROLLBACK = "Later snapshots and tags are removed for good.";

function Tags({ table, allowed }) {
  const [tag, setTag] = useState("");
  const [snapshot, setSnapshot] = useState("");
  const change = (what, label, more) => html`<${Change} allowed=${allowed} kind="table" name=${table.name} change=${what} label=${label} ...${more} />`;
  const may = allows(allowed, "table", "create-tag");
  if (!may && !table.tags.length) return html`<p class="quiet">There are none.</p>`;
  const buttons = (each) => html`
    ${change("rollback", "Roll back", { what: `${table.name} to tag ${each.tag_name}`, warning: ROLLBACK, body: { tag: each.tag_name } })}
    ${change("delete-tag", "Delete", { what: `tag ${each.tag_name} of ${table.name}`, body: { tag: each.tag_name } })}`;
  return html`
    ${table.tags.length > 0 && html`<${Rows} caption="Tags" rows=${table.tags} id=${(each) => each.tag_name} columns=${[
      ["tag", (each) => each.tag_name],
      ["snapshot", (each) => each.snapshot_id, "number"],
      ["rows", (each) => count(each.record_count), "number"],
      ["time", (each) => each.commit_time, "whole"],
      ...(may ? [["change", buttons]] : []),
    ]} />`}
    ${may && table.snapshots.length > 0 && html`<div class="row">
      <label>Snapshot to name or go back to<select value=${snapshot} onChange=${(event) => setSnapshot(event.target.value)}>
        <option value="">the newest</option>
        ${[...table.snapshots].reverse().map((each) => html`<option value=${each.id}>${each.id}</option>`)}
      </select></label>
      <label>Name of the tag<input value=${tag} onInput=${(event) => setTag(event.target.value)} /></label>
      ${change("create-tag", "Create the tag", { what: `${tag} of ${table.name}`, disabled: !tag, body: { tag, ...(snapshot ? { snapshot: Number(snapshot) } : {}) } })}
      ${change("rollback", "Roll back to the snapshot", { what: `${table.name} to ${snapshot}`, warning: ROLLBACK, disabled: !snapshot, body: { snapshot: Number(snapshot) } })}
    </div>`}`;
}

// What an expiry would remove, in words.
async function expiry(name) {
  const found = await ask(`/api/tables/${encodeURIComponent(name)}/expiry`);
  const held = found.held_by.length ? `More would go, but these have still to read it: ${found.held_by.join(", ")}.` : "";
  if (!found.snapshots && !found.changelogs) return ["Nothing would go, as the table's options say.", held].filter(Boolean).join("\n");
  const named = [`${count(found.snapshots)} snapshots`, ...(found.changelogs ? [`${count(found.changelogs)} changelogs`] : [])].join(" and ");
  return [`${named} would go for good, with ${count(found.data_files)} data files (${bytes(found.data_bytes)}) and ${count(found.metadata_files)} files of metadata.`, held].filter(Boolean).join("\n");
}

function asIs(rows, caption) {
  if (!rows.length) return null;
  return html`<${Rows} caption=${caption} rows=${rows} columns=${Object.keys(rows[0]).map((name) => [name, (row) => text(row[name])])} />`;
}

export function Table({ name, allowed, recorded }) {
  const answer = useAnswer(`/api/tables/${encodeURIComponent(name)}`);
  return html`<h1>Table ${name}</h1><${Answered} answer=${answer}>${(found) => html`
    ${found.comment && html`<p>${found.comment}</p>`}
    <dl class="facts">
      <dt>Primary key</dt><dd>${found.primary_keys.join(", ")}</dd>
      ${found.partition_keys.length > 0 && html`<dt>Partitions by</dt><dd>${found.partition_keys.join(", ")}</dd>`}
      <dt>Options</dt><dd>${Object.entries(found.options).map(([key, value]) => `${key} = ${value}`).join("; ") || "none are set"}</dd>
    </dl>
    <div class="row">
      <${Change} allowed=${allowed} kind="table" name=${name} change="compact" label="Compact" />
      <${Change} allowed=${allowed} kind="table" name=${name} change="expire" label="Expire old snapshots" foresee=${() => expiry(name)} />
    </div>
    ${!recorded && html`<h2>Look up</h2><${Lookup} table=${found} />
    <h2>Rows</h2><${Content} table=${found} />
    <h2>Changes</h2><${Changed} table=${found} />`}
    ${!recorded && html`<${Work} table=${found} />`}
    <h2>Levels</h2><${Levels} buckets=${found.buckets} />
    <h2>Snapshots</h2><${Snapshots} table=${found} />
    <h2>Tags</h2><${Tags} table=${found} allowed=${allowed} />
    <h2>Columns</h2>
    <${Rows} caption="Columns as they are now" rows=${found.columns} columns=${[["column", (each) => each.name], ["type", (each) => each.type], ["comment", (each) => text(each.comment)]]} />
    <h2>Schema history</h2>
    <${Rows} caption="Schemas, oldest first" rows=${found.schemas} columns=${[["schema", (each) => each.schema_id, "number"], ["time", (each) => each.update_time, "whole"], ["fields", (each) => each.fields]]} />
    ${found.partition_keys.length > 0 && asIs(found.partitions, "Partitions")}
    ${asIs(found.consumers, "Consumers")}
    <${Branches} branches=${found.branches} />`}<//>`;
}
