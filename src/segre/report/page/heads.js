// One head of a map of heads: its pattern, its spectra, and the tokens it attends to.
(() => {
  "use strict";
  const STOPS = 9;
  const make = (tag, text = "", name = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = name;
    return element;
  };

  // ---- colours: those of the style sheet, in 256 steps ------------------------------------
  function palette(panel) {
    const probe = make("span");
    probe.hidden = true;
    panel.append(probe);
    const stops = Array.from({ length: STOPS }, (_, n) => {
      probe.style.color = `var(--scale-${n})`;
      return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    });
    probe.remove();
    return Array.from({ length: 256 }, (_, n) => {
      const place = (n / 255) * (STOPS - 1);
      const low = Math.min(Math.floor(place), STOPS - 2);
      return stops[low].map((value, k) => value + (place - low) * (stops[low + 1][k] - value));
    });
  }

  // ---- the data ---------------------------------------------------------------------------
  function read(panel) {
    const kept = JSON.parse(panel.querySelector("script").textContent);
    const text = atob(kept.patterns);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    return { ...kept, bytes };
  }

  function named(data, token) {
    const word = data.words[token];
    return word === undefined ? `token ${token}` : `${token} “${word}”`;
  }

  // A row or a column of a pattern in words: a token, or the tokens of a block.
  function place(data, n) {
    const first = n * data.block;
    const last = Math.min(first + data.block, data.tokens) - 1;
    return first === last ? named(data, first) : `${named(data, first)} to ${named(data, last)}`;
  }

  // ---- the panel --------------------------------------------------------------------------
  function paint(state) {
    const { data, canvas, number } = state;
    const size = data.rows;
    const own = data.bytes.subarray(number * size * size, (number + 1) * size * size);
    const most = Math.max(1, ...own);
    const colours = palette(state.panel);
    const image = new ImageData(size, size);
    own.forEach((value, n) => {
      const shade = colours[Math.round(255 * Math.sqrt(value / most))];
      image.data.set([...shade, 255], 4 * n);
    });
    canvas.width = canvas.height = size;
    canvas.getContext("2d").putImageData(image, 0, 0);
    state.own = own;
    state.scale.textContent = `Rows are queries, columns keys, the first at the top left; the colour is the square root of the weight, the strongest ${(most / 255).toFixed(2)}.`;
  }

  function bars(list, values, words) {
    const top = Math.max(...values, 1e-300);
    list.replaceChildren(
      ...values.map((value, n) => {
        const item = make("li");
        const bar = make("span", "", "bar");
        bar.style.inlineSize = `${(100 * value) / top}%`;
        item.append(make("span", words(n), "word"), bar, make("span", String(value), "value"));
        return item;
      }),
    );
  }

  function mark(state, layer, head) {
    const [x, y] = [head + 1, layer + 1];
    const line = { color: "@ink", width: 2 };
    const own = { type: "rect", x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, line };
    state.figure.dispatchEvent(new CustomEvent("segre:shapes", { detail: [own] }));
  }

  function show(state, layer, head) {
    const { data } = state;
    state.number = layer * data.heads + head;
    state.layer.value = layer;
    state.head.value = head;
    const title = `Layer ${layer + 1}, head ${head + 1}`;
    state.said.textContent = title;
    state.canvas.setAttribute(
      "aria-label",
      `The pattern of ${title.toLowerCase()}. Arrow keys change the layer and the head.`,
    );
    paint(state);
    const top = data.top[state.number];
    bars(state.top, data.shares[state.number], (n) => named(data, top[n]));
    bars(state.singular, data.singular[state.number], (n) => String(n + 1));
    if (data.spectrum) bars(state.spectrum, data.spectrum[state.number], (n) => String(n + 1));
    mark(state, layer, head);
  }

  function hover(state, event) {
    const { data, canvas } = state;
    const box = canvas.getBoundingClientRect();
    const at = (offset, length) =>
      Math.min(data.rows - 1, Math.max(0, Math.floor((offset / length) * data.rows)));
    const query = at(event.clientY - box.top, box.height);
    const key = at(event.clientX - box.left, box.width);
    const weight = state.own[query * data.rows + key] / 255;
    state.under.textContent = `${place(data, query)} attends to ${place(data, key)}: ${weight.toFixed(3)}`;
  }

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function step(state, event) {
    const move = STEPS[event.key];
    if (!move) return;
    event.preventDefault();
    const within = (value, count) => Math.min(count - 1, Math.max(0, value));
    const layer = Number(state.layer.value) + move[0];
    const head = Number(state.head.value) + move[1];
    show(state, within(layer, state.data.layers), within(head, state.data.heads));
  }

  function fill(select, count) {
    select.append(...Array.from({ length: count }, (_, n) => new Option(String(n + 1), n)));
  }

  function start(panel) {
    const find = (name) => panel.querySelector(`[data-${name}]`);
    const names = ["layer", "head", "said", "canvas", "scale", "under", "top", "singular"];
    const state = { panel, data: read(panel), figure: panel.closest("figure"), number: 0 };
    for (const name of [...names, "spectrum"]) state[name] = find(name);
    fill(state.layer, state.data.layers);
    fill(state.head, state.data.heads);
    const chosen = () => show(state, Number(state.layer.value), Number(state.head.value));
    state.layer.addEventListener("change", chosen);
    state.head.addEventListener("change", chosen);
    state.canvas.addEventListener("keydown", (event) => step(state, event));
    state.canvas.addEventListener("pointermove", (event) => hover(state, event));
    document.addEventListener("segre:colours", () => paint(state));
    state.figure.addEventListener("segre:clicked", ({ detail: { x, y } }) => {
      panel.closest("details").open = true;
      show(state, Number(y) - 1, Number(x) - 1);
    });
    show(state, 0, 0);
  }

  document.querySelectorAll("[data-panel]").forEach(start);
})();
