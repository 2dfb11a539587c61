// The plots of a report: named colours, keys of buttons, drawn again for new colours, widths, paper.
(() => {
  "use strict";
  const root = document.documentElement;
  const NARROW = 560; // px; below this a plot is on a phone
  const PAPER = 660; // px; what A4 and Letter both have room for between their margins
  const SERIES = 8;
  const STOPS = 9;
  const coarse = matchMedia("(pointer: coarse)").matches; // fingers scroll, they do not zoom

  // ---- colours ----------------------------------------------------------------------------
  // A colour of the style sheet depends on the scheme of the element that wears it, so an element
  // is asked; with scheme "light" it answers for paper on a dark page too.
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  function worn(variable, scheme) {
    probe.style.colorScheme = scheme;
    probe.style.color = `var(--${variable})`;
    return getComputedStyle(probe).color;
  }

  function sequential(scheme) {
    return Array.from({ length: STOPS }, (_, n) => [n / (STOPS - 1), worn(`scale-${n}`, scheme)]);
  }

  const NAMED = /^@(?:([1-8])|(ink|faint|grid))(?:\/(0?\.\d+|[01]))?$/;

  const variable = ([, series, name]) => (series ? `series-${series}` : name);

  function colour(text, scheme) {
    if (text === "@sequential") return sequential(scheme);
    const match = NAMED.exec(text);
    if (!match) return text;
    const solid = worn(variable(match), scheme);
    return match[3] ? solid.replace("rgb(", "rgba(").replace(")", `, ${match[3]})`) : solid;
  }

  // Plotly reads a little HTML in its texts. Links from a hostile name are not wanted; the rest is.
  const MARKUP = /<(?!\/?(?:br|b|i|sup|sub|extra)\s*\/?>)/g;

  function resolved(value, scheme) {
    if (typeof value === "string") {
      return value.startsWith("@") ? colour(value, scheme) : value.replace(MARKUP, "&lt;");
    }
    if (Array.isArray(value)) return value.map((item) => resolved(item, scheme));
    if (value === null || typeof value !== "object") return value;
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([key, item]) => [key, resolved(item, scheme)]));
  }

  // ---- what all plots have in common ------------------------------------------------------
  function house(spec, width, scheme) {
    const small = width < NARROW;
    const mapped = spec.traces.some((trace) => trace.type === "heatmap");
    const text = { family: getComputedStyle(document.body).fontFamily, size: small ? 12 : 13 };
    const axis = {
      automargin: true,
      exponentformat: "power",
      gridcolor: "@grid",
      showgrid: mapped ? false : undefined, // lines would show where a map has no value
      linecolor: "@faint",
      zerolinecolor: "@grid",
      zerolinewidth: 1,
      tickcolor: "@grid",
      tickfont: { color: "@faint", size: text.size - 1 },
      title: { font: { color: "@ink", size: text.size }, standoff: 10 },
      fixedrange: coarse,
      nticks: small ? 5 : undefined,
    };
    const bar = {
      thickness: small ? 8 : 12,
      outlinewidth: 0,
      ticks: "",
      xpad: small ? 4 : 10,
      tickfont: { color: "@faint", size: text.size - 2 },
      title: { side: "right", font: { color: "@faint", size: text.size - 1 } },
    };
    const scaled = { colorscale: "@sequential", colorbar: bar };
    const data = {
      heatmap: [{ ...scaled, xgap: 1, ygap: 1 }],
      contour: [scaled],
      surface: [scaled],
      scatter: [{ marker: scaled }],
    };
    const layout = {
      font: { ...text, color: "@ink" },
      colorway: Array.from({ length: SERIES }, (_, n) => `@${n + 1}`),
      colorscale: { sequential: "@sequential" },
      coloraxis: scaled,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: small ? { l: 40, r: 8, t: 10, b: 36 } : { l: 52, r: 16, t: 12, b: 44 },
      hoverlabel: {
        bgcolor: worn("card", scheme),
        bordercolor: "@grid",
        font: { ...text, color: "@ink" },
      },
      hovermode: "closest",
      dragmode: coarse ? false : "zoom",
      modebar: { color: "@faint", activecolor: "@ink", bgcolor: "rgba(0,0,0,0)" },
      bargap: 0.25,
      minreducedheight: 140, // what long labels of an axis must leave
      xaxis: axis,
      yaxis: axis,
    };
    return resolved({ layout, data }, scheme);
  }

  const hidden = (figure, n) => figure.hidden.has(n);

  // Whether a trace is drawn; of those that are shown one at a time, the one that is chosen.
  const seen = (figure, trace, n) =>
    figure.spec.layout.meta?.one_at_a_time ? n === figure.chosen : trace.visible !== false;

  function traces(figure, scheme) {
    return figure.spec.traces.map((trace, n) => ({
      ...resolved(trace, scheme),
      visible: hidden(figure, n) ? "legendonly" : seen(figure, trace, n),
    }));
  }

  function layout(figure, width, scheme) {
    return {
      ...resolved(figure.spec.layout, scheme),
      template: house(figure.spec, width, scheme),
      shapes: resolved(figure.shapes, scheme),
      width,
      height: figure.spec.height,
      showlegend: false,
      uirevision: "kept", // a zoom outlives a change of colours
    };
  }

  // The width to draw a plot at; none in a closed part of the page, where it waits until that opens.
  const room = ({ plot }) => (plot.checkVisibility() ? plot.clientWidth : 0);

  function draw(figure, width = room(figure), scheme = "inherit") {
    if (!width) return undefined;
    figure.width = width;
    const config = {
      displaylogo: false,
      displayModeBar: coarse ? false : "hover", // without a hover it would stay
      doubleClick: "reset",
      modeBarButtons: [[saver(figure), "resetScale2d"]],
    };
    const shown = [traces(figure, scheme), layout(figure, width, scheme)];
    const first = !figure.plot.on;
    return Plotly.react(figure.plot, ...shown, config).then(() => first && listenToClicks(figure));
  }

  // ---- images -----------------------------------------------------------------------------
  const saver = (figure) => ({
    name: "image",
    title: "Save as PNG",
    icon: Plotly.Icons.camera,
    click: () => saveImage(figure),
  });

  // For a paper or a slide: light, titled, with its key inside.
  function saveImage(figure) {
    const plain = layout(figure, 900, "light");
    const drawn = {
      ...plain,
      title: { text: resolved(figure.spec.title, "light"), x: 0.02, font: { size: 16 } },
      margin: { l: 64, r: 24, t: 56, b: 56 },
      paper_bgcolor: "white",
      showlegend: figure.keys.length > 0,
    };
    const size = { width: plain.width, height: plain.height, scale: 2 };
    const options = { ...size, format: "png", filename: figure.spec.name };
    const unnamed = (trace) => (trace.visible === true ? trace : { ...trace, showlegend: false });
    const data = traces(figure, "light").map(unnamed); // all of them: colours go by position
    return Plotly.downloadImage({ data, layout: drawn }, options);
  }

  // ---- keys -------------------------------------------------------------------------------
  // Made here rather than by plotly: they wrap, never cover an axis, and answer to the keyboard.
  function keysOf({ traces, layout }) {
    if (layout.showlegend === false) return [];
    const named = traces
      .map((trace, n) => ({ trace, n }))
      .filter(({ trace }) => trace.name && trace.showlegend !== false && trace.visible !== false);
    const wanted = layout.showlegend || named.some(({ trace }) => trace.showlegend);
    return named.length > 1 || wanted ? named : [];
  }

  function ownColour(trace, n) {
    const candidates = [trace.line?.color, trace.marker?.color, trace.fillcolor];
    const own = candidates.find((one) => typeof one === "string") ?? `@${(n % SERIES) + 1}`;
    const match = NAMED.exec(own);
    return match ? `var(--${variable(match)})` : own;
  }

  function swatch(trace, n) {
    const mark = document.createElement("span");
    const line = trace.type === undefined || trace.type.startsWith("scatter");
    const points = line && (trace.mode ?? "").includes("markers");
    const drawn = line && (trace.mode ?? "lines").includes("lines");
    mark.className = drawn ? "stroke" : points ? "dot" : "area";
    const dash = { dash: "dashed", dot: "dotted" }[trace.line?.dash];
    if (drawn && dash) mark.classList.add(dash);
    mark.style.color = ownColour(trace, n);
    return mark;
  }

  function grouped(figure, { legendgroup: group }, n) {
    const together = (other, m) => m === n || (group && other.legendgroup === group);
    return figure.spec.traces.flatMap((other, m) => (together(other, m) ? [m] : []));
  }

  function toggle(figure, button, members) {
    const show = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(show));
    for (const n of members) show ? figure.hidden.delete(n) : figure.hidden.add(n);
    draw(figure);
  }

  function key(figure, { trace, n }) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!hidden(figure, n)));
    button.append(swatch(trace, n), trace.name);
    button.addEventListener("click", () => toggle(figure, button, grouped(figure, trace, n)));
    item.append(button);
    return item;
  }

  function addKeys(figure) {
    if (!figure.keys.length) return;
    const list = document.createElement("ul");
    list.className = "keys";
    list.setAttribute("aria-label", `Series of: ${figure.spec.title}`);
    list.append(...figure.keys.map((entry) => key(figure, entry)));
    figure.plot.after(list);
  }

  function addChoice(figure) {
    const words = figure.spec.layout.meta?.one_at_a_time;
    if (!words) return;
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.append(...figure.spec.traces.map((trace, n) => new Option(trace.name, n)));
    select.addEventListener("change", () => {
      figure.chosen = Number(select.value);
      draw(figure);
    });
    label.className = "choice";
    label.append(`${words} `, select);
    figure.plot.before(label);
  }

  // ---- all of them ------------------------------------------------------------------------
  function figureOf(element) {
    const spec = JSON.parse(element.querySelector(".spec").textContent);
    const off = spec.traces.flatMap((trace, n) => (trace.visible === "legendonly" ? [n] : []));
    const plot = element.querySelector(".plot");
    const shapes = spec.layout.shapes ?? [];
    return { element, plot, spec, shapes, hidden: new Set(off), keys: keysOf(spec), chosen: 0, width: 0 };
  }

  // A frame, or a moment where frames do not come, as in a tab that is not looked at.
  const breath = () =>
    new Promise((resolve) => {
      requestAnimationFrame(resolve);
      setTimeout(resolve, 60);
    });

  // What others draw on a figure, and want to know of it.
  function open(figure) {
    figure.element.addEventListener("segre:shapes", ({ detail }) => {
      figure.shapes = detail;
      if (figure.width) Plotly.relayout(figure.plot, { shapes: resolved(detail, "inherit") });
    });
  }

  function listenToClicks({ element, plot }) {
    plot.on("plotly_click", ({ points: [{ x, y }] }) => {
      element.dispatchEvent(new CustomEvent("segre:clicked", { detail: { x, y } }));
    });
  }

  async function drawFirst(figure) {
    try {
      await draw(figure);
      return true;
    } catch (error) {
      figure.plot.textContent = `Not drawn (${error.message}); the numbers are below.`;
      figure.plot.classList.add("failed");
      console.error(error);
      return false;
    }
  }

  function watch(figures) {
    const live = figures.filter(({ plot }) => !plot.classList.contains("failed"));
    let printing = false;
    const again = () =>
      live.forEach((figure) => {
        if (!draw(figure)) figure.width = 0; // hidden: drawn again when it is opened
      });
    const fit = (moved) =>
      requestAnimationFrame(() => {
        for (const figure of live) {
          const fits = Math.abs(room(figure) - figure.width) < 1;
          if (!printing && moved(figure.plot) && !fits) draw(figure);
        }
      });
    document.addEventListener("segre:colours", again);
    const watcher = new ResizeObserver((entries) => {
      const plots = new Set(entries.map((entry) => entry.target));
      fit((plot) => plots.has(plot));
    });
    live.forEach((figure) => watcher.observe(figure.plot));
    const opened = ({ target }) => fit((plot) => target.contains(plot));
    document.addEventListener("toggle", opened, true); // it does not bubble
    addEventListener("beforeprint", () => {
      printing = true;
      live.forEach((figure) => draw(figure, PAPER, "light"));
    });
    addEventListener("afterprint", () => {
      printing = false;
      again();
    });
    for (const figure of live) {
      const button = figure.element.querySelector("[data-image]");
      button.addEventListener("click", () => saveImage(figure));
    }
  }

  async function start() {
    const figures = [...document.querySelectorAll("figure.plotted")].map(figureOf);
    figures.forEach(open);
    figures.forEach(addChoice);
    figures.forEach(addKeys); // first, so that nothing moves under the reader later
    await window.drawingLibrary.catch(console.error); // each plot then says that it is not drawn
    let drawn = 0;
    for (const figure of figures) {
      if (await drawFirst(figure)) drawn += 1;
      await breath(); // so that the page answers between plots
    }
    watch(figures);
    root.dataset.drawn = String(drawn);
  }

  start();
})();
