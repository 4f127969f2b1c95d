package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"image/png"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// browser is a headless Chromium, spoken to over its own pipe: no port, no driver.
type browser struct {
	t       *testing.T
	in      io.Writer
	replies chan map[string]any
	events  []map[string]any
	last    int
	session string
}

// startBrowser is for `make test-browser`, which names the browser; elsewhere the test is left out.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("MCPRT_BROWSER")
	if program == "" {
		t.Skip("it needs Chromium: make test-browser runs it")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, replies: make(chan map[string]any, 1000)}
	go func() {
		defer close(b.replies)
		r := bufio.NewReader(out)
		for {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var message map[string]any
			if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &message) == nil {
				b.replies <- message
			}
		}
	}()
	t.Cleanup(func() {
		in.Close() // it ends with the pipe
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		out.Close()
	})
	target := b.do("Target.createTarget", map[string]any{"url": "about:blank"})
	b.session = b.do("Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.do(domain+".enable", nil)
	}
	return b
}

// do sends one command and waits for its result; events are kept.
func (b *browser) do(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.last++
	command := map[string]any{"id": b.last, "method": method, "params": params}
	if params == nil {
		command["params"] = map[string]any{}
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if id, ok := m["id"].(float64); !ok || int(id) != b.last {
			continue
		}
		if failed, ok := m["error"]; ok {
			b.t.Fatalf("%s: %v", method, failed)
		}
		return m["result"].(map[string]any)
	}
}

func (b *browser) next() map[string]any {
	b.t.Helper()
	select {
	case m, ok := <-b.replies:
		if !ok {
			b.t.Fatal("the browser has ended")
		}
		if _, reply := m["id"]; !reply {
			b.events = append(b.events, m)
		}
		return m
	case <-time.After(60 * time.Second):
		b.t.Fatal("the browser does not answer")
	}
	return nil
}

// open loads a file and waits until it is there.
func (b *browser) open(file, fragment string) {
	b.t.Helper()
	b.events = nil
	address := url.URL{Scheme: "file", Path: file, Fragment: fragment}
	b.do("Page.navigate", map[string]any{"url": "about:blank"})
	b.do("Page.navigate", map[string]any{"url": address.String()})
	for {
		for i := len(b.events) - 1; i >= 0; i-- {
			if b.events[i]["method"] == "Page.loadEventFired" && b.eval("location.protocol") == "file:" && b.eval("document.readyState") == "complete" {
				return
			}
		}
		b.next()
	}
}

// eval gives the value of an expression.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	got := b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if failed, ok := got["exceptionDetails"]; ok {
		b.t.Fatalf("%s: %v", expression, failed)
	}
	return got["result"].(map[string]any)["value"]
}

func (b *browser) want(expression string, want any) {
	b.t.Helper()
	if got := b.eval(expression); got != want {
		b.t.Errorf("%s is %v, want %v", expression, got, want)
	}
}

// complaints are what a page must not cause: requests, broken policies, exceptions.
func (b *browser) complaints() (out []string) {
	for _, e := range b.events {
		params, _ := e["params"].(map[string]any)
		switch e["method"] {
		case "Network.requestWillBeSent":
			if address := params["request"].(map[string]any)["url"].(string); !strings.HasPrefix(address, "file:") && address != "about:blank" {
				out = append(out, "a request to "+address)
			}
		case "Log.entryAdded":
			out = append(out, params["entry"].(map[string]any)["text"].(string))
		case "Runtime.exceptionThrown", "Page.javascriptDialogOpening":
			text, _ := json.Marshal(params)
			out = append(out, string(text))
		}
	}
	return out
}

func (b *browser) screenshot() []byte {
	b.t.Helper()
	data, err := base64.StdEncoding.DecodeString(b.do("Page.captureScreenshot", map[string]any{"format": "png"})["data"].(string))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func pageOf(t *testing.T, file string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "page.html")
	if got := runTool(t, "", "trace", "html", file, "-o", out); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	return out
}

const visible = `[...document.querySelectorAll('#rows > tr')].filter(r => r.offsetParent !== null).length`

func TestTracePageInABrowser(t *testing.T) {
	b := startBrowser(t)
	page := pageOf(t, recorded(t))
	b.open(page, "")
	total := b.eval(`document.querySelectorAll('#rows > tr').length`).(float64)
	if total < 6 {
		t.Fatalf("%v rows", total)
	}

	// The waterfall: one row for each server and one for connect, the steps in order and within the picture.
	b.want(`[...document.querySelector('.waterfall').querySelectorAll(':scope > tbody > tr > th > bdi')].map(e => e.textContent.replace(/ #.*/, '')).sort().join()`, "all servers,broken,demo")
	b.want(`[...document.querySelectorAll('svg.bars')].filter(s => s.getAttribute('aria-label').includes('ready after'))[0].getAttribute('aria-label').split('; ').map(s => s.split(/[: ]/)[0]).join()`,
		"resolve,spawn,probe,list,first,ready")
	b.want(`[...document.querySelectorAll('svg.bars rect')].every(r => {
		const box = r.getBoundingClientRect(), around = r.ownerSVGElement.getBoundingClientRect()
		return box.width > 0 && box.height > 0 && box.left >= around.left - 1 && box.right <= around.right + 1
	})`, true)
	b.want(`(() => { const x = c => { const r = document.querySelector('rect.' + c + '.bar:not(.key rect)'); return r.getBoundingClientRect() }
		const demo = [...document.querySelectorAll('svg.bars')].filter(s => s.getAttribute('aria-label').includes('ready after'))[0]
		const at = c => demo.querySelector('rect.' + c).getBoundingClientRect().left
		return at('spawn') < at('probe') && at('probe') < at('list') && at('list') <= at('first_call') })()`, true)
	// Styles and the script run under the policy: both are inline.
	b.want(`getComputedStyle(document.querySelector('rect.spawn')).fill !== getComputedStyle(document.querySelector('rect.probe')).fill`, true)
	b.want(`document.getElementById('filter').hidden`, false)

	// The filter, as a person uses it.
	b.want(visible, total)
	b.eval(`(() => { const f = document.getElementById('method'); f.value = 'tools/call'; f.dispatchEvent(new Event('input', {bubbles: true})) })()`)
	b.want(visible, float64(2))
	b.want(`document.getElementById('count').textContent.startsWith('2 of ')`, true)
	b.want(`location.hash`, "#method=tools%2Fcall")
	b.eval(`document.getElementById('text').focus()`)
	b.do("Input.insertText", map[string]any{"text": "Progress ECHO"})
	b.want(visible, float64(1))
	b.eval(`document.querySelector('button[type=reset]').click()`)
	b.eval(`new Promise(r => setTimeout(r, 50))`)
	b.want(visible, total)
	b.want(`location.hash`, "")

	// A kept address gives the view again; the payload opens by keyboard.
	b.open(page, "server=demo&direction=to+the+server")
	b.want(`[...document.querySelectorAll('#rows > tr')].filter(r => !r.hidden).every(r => r.dataset.server === 'demo' && r.textContent.includes('→'))`, true)
	b.want(visible+" > 0", true)
	b.eval(`[...document.querySelectorAll('#rows > tr:not([hidden]) summary')].at(-1).focus()`)
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.do("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	}
	b.want(`document.querySelectorAll('#rows details[open] pre').length`, float64(1))

	if got := b.complaints(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestTracePageIsReadable: contrast of text by WCAG AA, labels, and no sideways scrolling
// of the page, in light and dark, wide and narrow.
func TestTracePageIsReadable(t *testing.T) {
	b := startBrowser(t)
	page := pageOf(t, recorded(t))
	backgrounds := map[any]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1400, 380} {
			b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}})
			b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": false})
			b.open(page, "")
			backgrounds[b.eval(`getComputedStyle(document.body).backgroundColor`)] = true
			b.want(`document.documentElement.scrollWidth <= innerWidth`, true)
			b.want(`(() => {
				const parse = c => c.match(/[\d.]+/g).map(Number)
				const light = ([r, g, b]) => { const f = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b) }
				const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c } return [255, 255, 255] }
				const bad = new Set()
				for (const e of document.querySelectorAll('body *')) {
					if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue
					const style = getComputedStyle(e)
					const [a, b] = [light(parse(e.ownerSVGElement ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x)
					if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(e.tagName + '.' + e.className + ': ' + e.textContent.trim().slice(0, 30))
				}
				return [...bad].join('; ')
			})()`, "")
			if dir := os.Getenv("MCPRT_SCREENSHOTS"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, scheme+"-"+map[int]string{1400: "wide", 380: "narrow"}[width]+".png"), b.screenshot(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			picture, err := png.Decode(bytes.NewReader(b.screenshot()))
			if err != nil {
				t.Fatal(err)
			}
			colours := map[any]bool{}
			for x := range picture.Bounds().Dx() {
				for y := range 600 {
					colours[picture.At(x, y)] = true
				}
			}
			if len(colours) < 20 {
				t.Errorf("%s, %d: the picture has %d colours", scheme, width, len(colours))
			}
		}
	}
	if len(backgrounds) != 2 {
		t.Errorf("backgrounds: %v", backgrounds)
	}
	b.want(`[...document.querySelectorAll('input, select')].every(e => e.labels.length === 1)`, true)
	b.want(`[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-hidden') === 'true' || s.getAttribute('role') === 'img' && s.getAttribute('aria-label') !== '')`, true)
	b.want(`document.documentElement.lang`, "en")
}

// TestHostileTraceInABrowser: text of servers is text, whatever it looks like.
func TestHostileTraceInABrowser(t *testing.T) {
	b := startBrowser(t)
	b.open(pageOf(t, nastyTrace(t)), "")
	b.want(`document.title`, "nasty.jsonl: trace of mcprt")
	b.want(`document.querySelectorAll('script').length`, float64(1))
	b.want(`document.querySelectorAll('style').length`, float64(1))
	b.want(`document.querySelectorAll('img, base, iframe, h1:not(header h1), [onmouseover], [onerror]').length`, float64(0))
	b.want(`[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !/^on/i.test(a.name)))`, true)
	b.want(`document.querySelectorAll('#rows > tr').length`, float64(2*len(nasty)))
	b.want(`document.body.innerText.includes("<script>document.title='owned'</script>")`, true)
	b.eval(`document.querySelectorAll('details').forEach(d => { d.open = true })`)
	b.eval(`document.querySelectorAll('*').forEach(e => e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})))`)
	b.want(`document.title`, "nasty.jsonl: trace of mcprt")
	// A server's name as a filter, from a hostile address.
	b.open(pageOf(t, nastyTrace(t)), `server=<img src=x onerror=alert(1)>&text="><script>alert(1)</script>`)
	b.want(visible, float64(0))
	if got := b.complaints(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
