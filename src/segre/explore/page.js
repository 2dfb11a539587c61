// The loop of the page: controls change a design, segre or its table answers, the answer is shown.
// ---- asking: one question at a time, and always about the newest design -------------------------------
const waiting = (ms) => new Promise((done) => setTimeout(done, ms));
async function ask(question, spec) {
  if (!DATA.live) return lookedUp(spec);
  for (let turn = 0; turn < 20; turn++) {
    try {
      const got = await fetch(`api/${question}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ spec }),
      });
      const found = await got.json();
      if (!found.superseded) return found;
    } catch {
      return { error: "the server does not answer; is segre explore still running?" };
    }
    await waiting(150);
  }
  return { error: "the server is busy with newer questions" };
}

let dirty = false, running = false, own = null, beside = null, besideOf = null, curveTimer = 0, heard = 0;
async function refresh() {
  show();
  dirty = true;
  if (running) return;
  running = true;
  while (dirty) {
    await waiting(DATA.live ? 60 : 0);
    dirty = false;
    if (besideOf !== against) {
      const name = against;
      beside = name ? await ask("known", besideSpec()) : null;
      besideOf = name;
      if (beside && beside.error) beside = null;
    }
    const found = await ask("known", written(design));
    if (dirty) continue;
    if (found.error) complain(found.error);
    else own = found, render();
  }
  running = false;
  document.documentElement.dataset.drawn = "";
  document.documentElement.dataset.spec = written(design);
}

const RESULTS = ["figures", "proof-section", "pieces-section", "symmetries-section", "choices-section", "cost-section", "curve-section"];
function complain(said) {
  const reason = said.replace(/^spec (['"]).*?\1: /, ""); // the spec stands on the page
  el("problem").hidden = false;
  const command = /segre \w+ \S+$/.exec(reason)?.[0] ?? "", words = reason.slice(0, reason.length - command.length);
  el("problem").replaceChildren(...(command ? [sentence(words).slice(0, -1), make("code", command)] : [sentence(reason)]));
  for (const id of RESULTS) {
    el(id).classList.add("stale"), (el(id).inert = true);
    if (id !== "figures") el(id).hidden = own === null; // nothing has been shown yet
  }
  renderNothing();
  el("pinned-parameters").textContent = /^(not known here|not in this page)/i.exec(reason)?.[0] ?? "not a valid design";
  el("pinned-dimension").textContent = reason.length > 90 ? `${reason.slice(0, 89)}…` : reason;
  clearTimeout(curveTimer), clearTimeout(heard);
}

function render() {
  el("problem").hidden = true;
  for (const id of RESULTS) el(id).classList.remove("stale"), (el(id).inert = el(id).hidden = false);
  const name = isSpec(against) ? PINNED : against;
  renderCounts(own, beside, name);
  renderProof(own, { prove, download });
  renderPieces(own, beside, name);
  renderSymmetries(own);
  renderChoices(own);
  renderCost(own, beside, name);
  renderCurve();
  clearTimeout(heard);
  heard = setTimeout(() => (el("status").textContent = `${grouped(own.parameters)} parameters, functional dimension ${own.dimension}, ${own.known}`), 500);
}

function renderCurve() {
  clearTimeout(curveTimer);
  if (!DATA.live) {
    status("curve-status", "not run", "not available on this page");
    chart("curve-chart", []);
    return void (el("curve-said").textContent = `The curve is measured by running the design with random weights, which the static page cannot do. Run: segre model collapse ${written(design)}`);
  }
  status("curve-status", "not run", "not measured yet");
  el("curve-said").textContent = "Measuring …";
  const spec = written(design);
  curveTimer = setTimeout(async () => {
    const found = await ask("curve", spec);
    if (spec === written(design)) showCurve(found);
  }, 450);
}

async function prove(pressed) {
  const spec = written(design);
  pressed.disabled = true;
  el("proof-said").textContent = "Computing both bounds exactly …";
  const found = await ask("proof", spec);
  if (spec !== written(design)) return;
  if (found.error) {
    pressed.disabled = false;
    el("proof-said").textContent = sentence(found.error);
  } else {
    own = { ...own, ...found, computable: false };
    render();
    el("proof-said").textContent = sentence(own.known);
  }
}

async function download(pressed) {
  pressed.disabled = true;
  const found = await ask("certificate", written(design));
  pressed.disabled = false;
  if (found.error) return void (el("proof-said").textContent = sentence(found.error));
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(found.certificate)], { type: "application/json" }));
  link.download = "certificate.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  el("proof-said").textContent = "Saved certificate.json. Check it with: segre verify certificate.json";
}

// ---- colours, copying, opening ----------------------------------------------------------------------
const THEMES = ["auto", "light", "dark"];
function wear(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  el("theme").textContent = `Theme: ${theme}`;
}
el("theme").addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % 3];
  try { localStorage.setItem("segre-theme", theme); } catch { /* the choice is then forgotten */ }
  wear(theme);
});
try { wear(localStorage.getItem("segre-theme") ?? "auto"); } catch { wear("auto"); }

async function copy(text, pressed) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", undefined, "unseen");
    area.value = text;
    document.body.append(area), area.select();
    done = document.execCommand("copy");
    area.remove(), pressed.focus();
  }
  el("status").textContent = done ? "copied" : "the browser does not allow copying";
  const words = (pressed.dataset.words ??= pressed.textContent);
  pressed.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => (pressed.textContent = words), 1500);
}
el("copy-spec").addEventListener("click", (event) => copy(written(design), event.currentTarget));
// A served page's address holds its token, which is not for sharing: there the spec is enough.
el("copy-link").hidden = DATA.live;
el("copy-link").addEventListener("click", (event) => copy(location.href, event.currentTarget));

// The address after # is the design: links within the page move the focus themselves.
for (const link of document.querySelectorAll("[data-to]")) link.addEventListener("click", (event) => {
  event.preventDefault();
  const target = el(link.dataset.to);
  if (target.id === "h-how") el("proof").open = true;
  target.focus({ preventScroll: true }), target.scrollIntoView();
});

function open() {
  let hash = "";
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch { /* as if there were none */ }
  const [spec, beside] = hash.split("&against=");
  against = beside !== undefined ? (DATA.presets[beside] || isSpec(beside) ? beside : "") : spec ? "" : DATA.against;
  begin(spec.includes("/") ? spec : DATA.first);
}
unpacked().then(() => {
  window.addEventListener("hashchange", open);
  build();
  open();
});
