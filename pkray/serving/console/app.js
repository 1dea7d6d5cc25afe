// The console: which page is shown, and what stands around it.
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { ask } from "./parts.js";
import { Cluster } from "./cluster.js";
import { Home } from "./home.js";
import { Query } from "./query.js";
import { Sql } from "./sql.js";
import { Table } from "./table.js";

const PAGES = [["", "Home"], ["sql", "SQL"], ["cluster", "Cluster"]];
const THEMES = ["system", "light", "dark"];

function place() {
  const [kind = "", name = ""] = location.hash.replace(/^#\/?/, "").split("/");
  try {
    return { kind, name: decodeURIComponent(name) };
  } catch {
    return { kind: "", name: "" };
  }
}

function dress(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function Page({ at, allowed, recorded }) {
  if (at.kind === "table") return html`<${Table} key=${at.name} name=${at.name} allowed=${allowed} recorded=${recorded} />`;
  if (at.kind === "query") return html`<${Query} key=${at.name} name=${at.name} allowed=${allowed} recorded=${recorded} />`;
  if (at.kind === "sql" && !recorded) return html`<${Sql} allowed=${allowed} />`;
  if (at.kind === "cluster") return html`<${Cluster} />`;
  return html`<${Home} />`;
}

function Console() {
  const [at, setAt] = useState(place());
  const [allowed, setAllowed] = useState([]);
  const [recorded, setRecorded] = useState(null);
  const [theme, setTheme] = useState(localStorage.getItem("theme") || "system");
  useEffect(() => {
    const moved = () => {
      setAt(place());
      document.querySelector("main")?.focus();
    };
    window.addEventListener("hashchange", moved);
    ask("/api/access").then((found) => {
      setAllowed(found.changes);
      setRecorded(found.recorded || null);
    }).catch(() => setAllowed([]));
    return () => window.removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    dress(theme);
    localStorage.setItem("theme", theme);
  }, [theme]);
  useEffect(() => {
    document.title = at.name ? `${at.name} – pkray` : "pkray";
  }, [at]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>To the content</a>
    <header>
      <nav aria-label="Pages">
        <span class="name">pkray</span>
        ${PAGES.filter(([kind]) => !recorded || kind !== "sql").map(([kind, label]) => html`<a href=${`#/${kind}`} aria-current=${at.kind === kind ? "page" : undefined}>${label}</a>`)}
        <label class="quiet">Theme <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
          ${THEMES.map((each) => html`<option value=${each}>${each}</option>`)}
        </select></label>
      </nav>
    </header>
    <main id="main" tabindex="-1">
      ${recorded && html`<p class="note">A diagnosis of ${new Date(recorded.made).toISOString()}, as it was then: ${Object.entries(recorded.versions).map(([name, version]) => `${name} ${version}`).join(", ")}.</p>`}
      <${Page} at=${at} allowed=${allowed} recorded=${recorded} />
    </main>`;
}

dress(localStorage.getItem("theme") || "system");
const root = document.getElementById("app");
root.textContent = "";
render(html`<${Console} />`, root);
