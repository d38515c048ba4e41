/* Colours the charts for the light or dark theme, and makes their bars links. The legend and the table below a chart
 * have the same links.
 */
"use strict";

(() => {
  function getCharts() {
    return [...document.querySelectorAll("canvas.chart")].map((canvas) => Chart.getChart(canvas)).filter(Boolean);
  }

  function applyTheme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const chart of getCharts()) {
      for (const dataset of chart.data.datasets) {
        if (dataset.colour) dataset.backgroundColor = colour(dataset.colour);
      }
      for (const scale of Object.values(chart.options.scales)) {
        scale.ticks.color = colour("--chart-text");
        scale.grid.color = colour("--chart-grid");
        scale.border.display = false;
      }
      chart.update("none");
    }
  }

  function getLinkUnderPointer(chart, event) {
    const [bar] = chart.getElementsAtEventForMode(event, "nearest", { intersect: true }, true);
    return bar && chart.data.datasets[bar.datasetIndex].links?.[bar.index];
  }

  window.addEventListener("load", () => {
    applyTheme();
    new MutationObserver(applyTheme).observe(document.documentElement, { attributeFilter: ["class"] });
    for (const chart of getCharts()) {
      chart.canvas.addEventListener("mousemove", (event) => {
        chart.canvas.style.cursor = getLinkUnderPointer(chart, event) ? "pointer" : "";
      });
      chart.canvas.addEventListener("click", (event) => {
        const link = getLinkUnderPointer(chart, event);
        if (link) window.location.assign(link);
      });
    }
  });
})();
