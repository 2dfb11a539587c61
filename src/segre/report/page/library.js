// Unpacks the library that draws the plots. The policy names its digest, so nothing else can run.
window.drawingLibrary = (async () => {
  "use strict";
  const packed = document.getElementById("page-library").textContent;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script); // an inline script runs before this line returns
  return window.Plotly;
})();
