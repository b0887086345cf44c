/* The theme searches in a worker, which browsers refuse to pages that are opened as files: there, a hidden frame runs its script. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      this.inner.postMessage = data => this.deliver(this, data)
      const script = frame.contentDocument.createElement("script")
      script.src = url
      this.ready = new Promise(resolve => (script.onload = resolve))
      frame.contentDocument.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => this.deliver(this.inner, data))
    }

    deliver(target, data) {
      const event = new MessageEvent("message", { data })
      target.dispatchEvent(event)
      if (typeof target.onmessage === "function") target.onmessage(event)
    }
  }
