// What pages need beside htmx: charts, keys, and the bound of a live tail. It makes no HTML of anybody's values.
"use strict";
(() => {
  // -- Charts: a <div class="chart" data-series="URL" data-unit="..."> in a figure, drawn by uPlot from JSON.
  const colour = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const short = (value) => {
    if (value == null) return "–";
    for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]])
      if (Math.abs(value) >= size) return (value / size).toFixed(1) + unit;
    return value < 10 && value % 1 ? value.toFixed(2) : value.toFixed(0);
  };
  const draw = async (place) => {
    const answer = await fetch(place.dataset.series);
    if (!answer.ok) return;
    const { times, series } = await answer.json();
    const of = series[Number(place.dataset.row || 0)];
    const last = of.values.findLast((each) => each != null);
    const summary = place.closest("figure").querySelector("figcaption span");
    if (last == null) { summary.textContent = "no samples yet: one is taken every ten seconds"; return; }
    const most = Math.max(...of.values.filter((each) => each != null));
    summary.textContent = `now ${short(last)}, at most ${short(most)} in the last hour`;
    const line = colour("--accent"), quiet = colour("--quiet"), grid = colour("--line");
    const clock = (_, ticks) => ticks.map((each) => new Date(each * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }));
    const axis = { stroke: quiet, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const now = Date.now() / 1000;
    place.replaceChildren();
    new uPlot({
      width: place.clientWidth, height: 170, legend: { show: false }, cursor: { y: false },
      scales: { x: { time: true, range: [Math.min(times[0], now - 300), now] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      axes: [{ ...axis, values: clock, size: 34 }, { ...axis, size: 60, values: (_, ticks) => ticks.map(short) }],
      series: [{}, { stroke: line, width: 2, fill: line.replace("rgb(", "rgba(").replace(")", ", 0.12)"), points: { show: times.length < 30, size: 4 } }],
    }, [times, of.values], place);
  };
  const drawAll = () => document.querySelectorAll(".chart[data-series]").forEach(draw);
  if (document.querySelector(".chart[data-series]")) {
    drawAll();
    setInterval(() => { if (!document.hidden) drawAll(); }, 10000);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    addEventListener("resize", drawAll);
  }

  // -- A live tail: new rows come on top, and the oldest go. Only numbers and texts are written here.
  const tail = document.getElementById("tail");
  if (tail) {
    const most = Number(tail.dataset.most), state = document.getElementById("tail-state");
    let came = 0, leftOut = 0, paused = false;
    const tell = (text) => { state.textContent = text; };
    const count = () => tell(`${came.toLocaleString()} shown` + (leftOut ? `, ${leftOut.toLocaleString()} left out: they come faster than they can be shown` : ""));
    document.body.addEventListener("htmx:sseOpen", () => tell("waiting for records"));
    document.body.addEventListener("htmx:sseError", () => tell("the connection is lost: trying again"));
    document.body.addEventListener("htmx:sseBeforeMessage", (event) => {
      const { type, data } = event.detail;
      if (type === "left-out") { leftOut += Number(data); count(); event.preventDefault(); }
      else if (type === "failed") { tell(data); event.preventDefault(); }
      else if (type === "begun") { tell("waiting for records"); event.preventDefault(); }
      else if (paused) event.preventDefault();
    });
    document.body.addEventListener("htmx:afterSwap", (event) => {
      if (event.target !== tail) return;
      came += tail.querySelectorAll("tr[data-new]").length;
      tail.querySelectorAll("tr[data-new]").forEach((row) => row.removeAttribute("data-new"));
      while (tail.rows.length > most) tail.deleteRow(-1);
      count();
    });
    document.getElementById("tail-pause").addEventListener("click", (event) => {
      paused = !paused;
      event.target.textContent = paused ? "Go on" : "Pause";
      event.target.setAttribute("aria-pressed", paused);
      tell(paused ? "paused: what comes meanwhile is not shown" : "waiting for records");
    });
  }

  // -- Keys: / to the search, ? for help, g and a letter to a page.
  const help = document.getElementById("help");
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (going) {
      going = false;
      const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === "g") going = true;
    else if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "?") help.showModal();
  });
})();
