// The picker shows a sweep as soon as it is chosen; the chart takes its colours from the page.
"use strict";

const picker = document.getElementById("picker");
if (picker) {
  picker.classList.add("live");
  picker.addEventListener("change", () => picker.submit());
}

function draw() {
  const chart = document.getElementById("chart");
  if (!chart) return;
  const figure = JSON.parse(document.getElementById("figure").textContent);
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const layout = {
    ...figure.layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink },
    font: { family: style.fontFamily, size: 13, color: ink },
  };
  for (const axis of ["xaxis", "yaxis"]) {
    layout[axis] = { ...layout[axis], gridcolor: line, zeroline: false, linecolor: line, ticks: "outside", tickcolor: line };
  }
  for (const shape of layout.shapes) shape.line = { ...shape.line, color: ink };
  Plotly.react(chart, figure.data, layout, { responsive: true, displaylogo: false, displayModeBar: "hover" });
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
