// Search from the file system: browsers allow no workers in pages opened as files, so the script of
// the search runs in a hidden frame instead. Pages that come from a server keep their workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.importScripts = () => {};
      this.ready = new Promise((ready) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = ready;
        // what the script posts comes out here
        inside.postMessage = (data) =>
          this.dispatchEvent(new MessageEvent("message", { data }));
        this.frame.contentDocument.body.append(script);
      });
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
