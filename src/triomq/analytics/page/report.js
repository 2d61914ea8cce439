"use strict";
// Draws the plots of the page in its colours, and lets the reader choose: views, light or dark, the order of tables.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = {}; // the number of the view that each plot shows
  let theme = "system";

  // Colours are in the style sheet alone; what is drawn gets them from there.
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function withColours(trace, series, rest) {
    const number = trace.meta.colour;
    const own = number < 0 ? rest : series[number % series.length];
    const line = { width: 2, ...trace.line, color: own };
    const marker = { ...trace.marker, color: own };
    return trace.stackgroup ? { ...trace, line: { ...line, width: 1 }, marker, fillcolor: own + "99" } : { ...trace, line, marker };
  }

  function axis(own, grid) {
    return { gridcolor: grid, zerolinecolor: grid, linecolor: grid, ...own };
  }

  function draw(id) {
    const view = figures[id][chosen[id] ?? 0];
    const [text, grid, card] = [colour("--text"), colour("--grid"), colour("--card")];
    const series = colour("--series").split(/\s+/);
    const layout = {
      font: { family: getComputedStyle(document.body).fontFamily, color: text, size: 13 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 12, t: 40, b: 44 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      hoverlabel: { bgcolor: card, bordercolor: grid, font: { color: text }, align: "left" },
      hovermode: "closest",
      showlegend: true,
      ...view.layout,
      xaxis: axis(view.layout.xaxis, grid),
      yaxis: axis(view.layout.yaxis, grid),
    };
    const traces = view.traces.map((trace) => withColours(trace, series, colour("--rest")));
    const config = { responsive: true, displayModeBar: false };
    Plotly.react(id, traces, layout, config);
  }

  const drawAll = () => Object.keys(figures).forEach(draw);

  function applyTheme(printing) {
    const dark = !printing && (theme === "dark" || (theme === "system" && systemIsDark.matches));
    root.dataset.theme = dark ? "dark" : "light";
    drawAll();
  }

  function offerChoices() {
    for (const choice of document.querySelectorAll("fieldset.choice")) {
      choice.hidden = false;
      choice.addEventListener("change", (event) => {
        if (choice.id === "theme") {
          theme = event.target.value;
          applyTheme(false);
        } else {
          chosen[choice.dataset.views] = Number(event.target.value);
          draw(choice.dataset.views);
        }
      });
    }
  }

  // Numbers by their size, the largest first at the first click; names by the alphabet.
  function sort(head) {
    const table = head.closest("table");
    const place = head.cellIndex;
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : isNumber;
    const key = (row) => (isNumber ? Number(row.cells[place].dataset.key) : row.cells[place].dataset.key);
    const compare = (a, b) => (isNumber ? key(a) - key(b) : key(a).localeCompare(key(b), "en"));
    const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    table.tBodies[0].append(...rows);
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  function offerSorting() {
    for (const head of document.querySelectorAll("th")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(head));
      head.replaceChildren(button);
    }
  }

  // What is closed on a screen is open on paper.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
    applyTheme(true);
  });
  addEventListener("afterprint", () => {
    closed.forEach((details) => (details.open = false));
    applyTheme(false);
  });

  systemIsDark.addEventListener("change", () => applyTheme(false));
  offerChoices();
  offerSorting();
  applyTheme(false);
})();
