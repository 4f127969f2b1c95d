package mcptest

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// call is one running tools/call.
type call struct {
	server *server
	ctx    context.Context // ends when the client cancels the call
	id     json.RawMessage
	params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
		RequestState   json.RawMessage            `json:"requestState"`
	}
}

var behaviours map[string]func(*call)

func init() { // here, since DefaultTools and the behaviours refer to each other
	behaviours = map[string]func(*call){
		"echo": echo, "add": add, "slow": slow, "image": image, "fail": fail, "rpcerror": rpcError, "neither": neither,
		"die": die, "hang": hang, "deaf": deaf, "big": big, "progress": progress,
		"elicit": ask("elicitation/create", `{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`),
		"sample": ask("sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10}`),
		"roots":  ask("roots/list", ""), "input": input, "task": makeTask, "log": logMessages, "changed": changed, "spam": spam, "env": env,
		"unicode": unicode, "lines": lines, "picture": picture, "late": late,
	}
}

func (c *call) number(name string, fallback int) int {
	var args map[string]any
	if json.Unmarshal(c.params.Arguments, &args) != nil {
		return fallback
	}
	if n, ok := args[name].(float64); ok {
		return int(n)
	}
	return fallback
}

func (c *call) reply(result string) { c.server.reply(c.id, result) }

func (c *call) text(text string) {
	c.reply(`{"content":[{"type":"text","text":` + quote(text) + `}]}`)
}

func echo(c *call) {
	args := string(c.params.Arguments)
	if args == "" {
		args = "null"
	}
	c.reply(`{"content":[{"type":"text","text":` + quote(args) + `}],"structuredContent":` + args + `}`)
}

func add(c *call) { c.text(fmt.Sprint(c.number("a", 0) + c.number("b", 0))) }

func slow(c *call) {
	if c.server.sleep(c.ctx, time.Duration(c.number("ms", 1000))*time.Millisecond) {
		c.text("slept")
	}
}

func image(c *call) {
	data := base64.StdEncoding.EncodeToString(make([]byte, c.number("bytes", 64)))
	c.reply(`{"content":[{"type":"image","mimeType":"image/png","data":"` + data + `"}]}`)
}

func fail(c *call) {
	c.reply(`{"isError":true,"content":[{"type":"text","text":"the tool failed"}]}`)
}

func rpcError(c *call) {
	c.server.fail(c.id, fmt.Sprintf(`{"code":%d,"message":"scripted error","data":{"detail":"scripted","big":9007199254740993}}`, c.number("code", -32000)))
}

func neither(c *call) { c.server.send(`{"jsonrpc":"2.0","id":` + c.server.id(c.id) + `}`) }

func die(c *call) {
	var how struct{ Kill bool }
	if json.Unmarshal(c.params.Arguments, &how) == nil && how.Kill {
		c.server.wire.kill()
		return
	}
	c.server.wire.stderr("dying as told\n")
	c.server.wire.exit(c.number("code", 3))
}

func hang(c *call) { <-c.ctx.Done() }

func deaf(c *call) {
	c.server.wire.stopReading()
	c.text("deaf from now on")
}

func big(c *call) { c.text(strings.Repeat("0123456789abcdef", c.number("bytes", 1<<20)/16+1)) }

// unicode begins with one to three bytes of ASCII in turn over calls, so that every
// boundary of a reader's buffer falls once into each place of a character.
func unicode(c *call) {
	c.text(strings.Repeat("x", c.number("shift", 0)) + strings.Repeat("€", c.number("bytes", 1<<20)/3))
}

func lines(c *call) {
	var text strings.Builder
	for i := range c.number("n", 1000) {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	c.text(text.String())
}

func picture(c *call) {
	data := base64.StdEncoding.EncodeToString(make([]byte, c.number("bytes", 64)))
	c.reply(`{"content":[{"type":"image","mimeType":"image/png","data":"` + data + `"}],"structuredContent":{"data":"` + data + `"}}`)
}

func late(c *call) {
	if c.server.sleep(c.server.done, time.Duration(c.number("ms", 1000))*time.Millisecond) {
		c.text("late")
	}
}

func progress(c *call) {
	n, every := c.number("n", 3), time.Duration(c.number("everyMs", 0))*time.Millisecond
	for i := 1; i <= n; i++ {
		if !c.server.sleep(c.ctx, every) {
			return
		}
		if token := c.params.Meta.ProgressToken; token != nil {
			c.server.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d,"message":"step %d"}`, token, i, n, i))
		}
	}
	c.text("done")
}

func ask(method, params string) func(*call) {
	return func(c *call) {
		if answer, ok := c.server.ask(c.ctx, method, params); ok {
			c.text(string(answer))
		}
	}
}

// input asks through the multi round-trip pattern. The state has escapes and
// spaces that a client must give back as they are.
func input(c *call) {
	rounds, round := c.number("rounds", 1), 0
	if c.params.RequestState != nil {
		if _, err := fmt.Sscanf(string(c.params.RequestState), `"r\u00e9\/ %d"`, &round); err != nil {
			c.server.fail(c.id, `{"code":-32602,"message":"requestState was changed"}`)
			return
		}
		if len(c.params.InputResponses) != 2 {
			c.server.fail(c.id, `{"code":-32602,"message":"inputResponses are missing"}`)
			return
		}
	}
	if round < rounds {
		c.reply(fmt.Sprintf(`{"resultType":"input_required","requestState":"r\u00e9\/ %d","inputRequests":{`+
			`"who":{"method":"elicitation/create","params":{"mode":"form","message":"Round %d","requestedSchema":{"type":"object","properties":{}}}},`+
			`"where":{"method":"roots/list"}}}`, round+1, round+1))
		return
	}
	answers, err := json.Marshal(c.params.InputResponses)
	if err != nil {
		c.server.fail(c.id, `{"code":-32603,"message":"cannot encode the answers"}`)
		return
	}
	c.reply(`{"resultType":"complete","content":[{"type":"text","text":` + quote(string(answers)) + `}]}`)
}

func logMessages(c *call) {
	for i := range c.number("n", 1) {
		c.server.notify("notifications/message", fmt.Sprintf(`{"level":"info","logger":"scripted","data":%d}`, i))
	}
	c.text("logged")
}

func changed(c *call) {
	c.server.listChanged()
	c.text("changed")
}

func spam(c *call) {
	c.server.wire.stderr(strings.Repeat("x", c.number("bytes", 1<<20)))
	c.text("spammed")
}

func env(c *call) { c.text(c.server.wire.describe()) }
