// Search on pages that were opened from disk: browsers refuse workers there, so a hidden frame does the worker's job.
// Loaded in place of the copy that the theme would otherwise fetch from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.ready = new Promise((resolve) => { this.frame.onload = resolve })
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.answer = (data) => {
        const message = new MessageEvent("message", { data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      }
      inside.document.open()
      inside.document.write(`<!doctype html><html><body><script>
        postMessage = answer
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((resolve) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = resolve
          document.body.appendChild(script)
        })), Promise.resolve())
      <\/script><script src="${url}"><\/script></body></html>`)
      inside.document.close()
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() { this.frame.remove() }
  }
}
