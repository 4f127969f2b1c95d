package format

import (
	"strings"

	"github.com/mcprt/mcprt/core/rawjson"
)

// Result gives a tool's result the provider's shape. message is what answers the model's
// call: a message, or a part of one. followUp, nil for most, is a message of the user for
// what the provider's tool results cannot hold; it has its place behind the answers to
// all calls of the same turn. name is the provider's of the tool, callID the model's of
// the call; result is MCP's, valid JSON.
//
// Nothing is left out without a word: for what no model can be shown there is a line of text.
func (p Provider) Result(name, callID string, result []byte) (message, followUp []byte) {
	r := readResult(result)
	switch p {
	case OpenAI:
		return r.openAI(callID)
	case OpenAIResponses:
		return r.responses(callID), nil
	case Anthropic:
		return r.anthropic(callID), nil
	}
	return r.gemini(name, callID), nil
}

// result is a tool's result in parts.
type result struct {
	parts      []part
	structured []byte // where no text says the same; it is the text of the last part then
	failed     bool
}

// part is text, or a file in base64.
type part struct {
	text   string
	mime   string // "" for text
	data   []byte // a JSON string of base64, as it was sent where that is any
	uri    string
	broken bool // what was sent is no file: every provider refuses the whole request for it
}

func (p *part) picture() bool  { return !p.broken && pictures[p.mime] }
func (p *part) document() bool { return !p.broken && p.mime == pdf }

// sound is OpenAI's name of the format, or "".
func (p *part) sound() string {
	if p.broken {
		return ""
	}
	return sounds[p.mime]
}

// sized describes a file to a model that cannot be shown it.
func (p *part) sized() string {
	data, _ := rawjson.String(p.data)
	out := "[" + p.mime + ", "
	if p.broken && data != "" {
		out += "no valid base64"
	} else {
		out += size(data)
	}
	if p.uri != "" {
		out += ", " + p.uri
	}
	return out + ": cannot be shown here]"
}

func readResult(raw []byte) *result {
	r := &result{failed: string(rawjson.Get(raw, "isError")) == "true"}
	hasText := false
	content := rawjson.Get(raw, "content")
	if text, _ := rawjson.String(content); text != "" { // of a server that spares itself the list
		hasText = true
		r.parts = append(r.parts, part{text: text})
	}
	_ = rawjson.Elements(content, func(block []byte) bool {
		p, ok := readPart(block)
		if ok {
			hasText = hasText || p.mime == ""
			r.parts = append(r.parts, p)
		}
		return true
	})
	// "For backwards compatibility, a tool that returns structured content SHOULD also
	// return the serialized JSON in a TextContent block" (MCP 2025-06-18, tools).
	if s := rawjson.Get(raw, "structuredContent"); !hasText && s != nil && string(s) != "null" {
		r.structured = s
		r.parts = append(r.parts, part{text: string(s)})
	}
	// A model would take an empty answer, or a picture alone, for a success, and Anthropic
	// refuses the request ("content cannot be empty if `is_error` is true").
	if r.failed && !hasText && r.structured == nil {
		r.parts = append(r.parts, part{text: "the tool failed and did not say why"})
	}
	return r
}

func readPart(block []byte) (part, bool) {
	get := func(from []byte, key string) string {
		s, _ := rawjson.String(rawjson.Get(from, key))
		return s
	}
	file := func(from []byte, data, mime, uri string) part {
		raw := rawjson.Get(from, data)
		sent, ok := rawjson.String(raw)
		if !ok {
			raw = []byte(`""`)
		}
		mime, _, _ = strings.Cut(mime, ";")
		switch mime = strings.ToLower(strings.TrimSpace(mime)); mime {
		case "":
			mime = "application/octet-stream"
		case "image/jpg": // a name that many servers use and no provider knows
			mime = "image/jpeg"
		}
		mended, ok := standardBase64(sent)
		if ok && mended != sent {
			raw = rawjson.AppendString(nil, mended)
		}
		return part{mime: mime, data: raw, uri: uri, broken: !ok}
	}
	switch kind := get(block, "type"); kind {
	case "text":
		raw := rawjson.Get(block, "text")
		text, ok := rawjson.String(raw)
		if !ok && string(raw) != "null" {
			text = string(raw) // a number, say: it is what the tool had to tell
		}
		return part{text: text}, text != ""
	case "image", "audio":
		return file(block, "data", get(block, "mimeType"), ""), true
	case "resource":
		resource := rawjson.Get(block, "resource")
		if !rawjson.IsObject(resource) {
			return part{text: string(block)}, true
		}
		uri, mime := get(resource, "uri"), get(resource, "mimeType")
		if rawjson.Get(resource, "text") == nil && rawjson.Get(resource, "blob") != nil {
			return file(resource, "blob", mime, uri), true
		}
		return part{text: "[" + uri + "]\n" + get(resource, "text")}, true
	case "resource_link":
		text := "[resource " + get(block, "uri")
		if name := get(block, "name"); name != "" {
			text += ", " + name
		}
		if mime := get(block, "mimeType"); mime != "" {
			text += ", " + mime
		}
		text += "]"
		if d := get(block, "description"); d != "" {
			text += " " + d
		}
		return part{text: text}, true
	case "":
		return part{}, false
	default:
		return part{text: string(block)}, true // a kind that is newer than this
	}
}

// dataURL appends the JSON string of a data: URL.
func (p *part) dataURL(b []byte) []byte {
	quoted := rawjson.AppendString(nil, "data:"+p.mime+";base64,")
	b = append(b, quoted[:len(quoted)-1]...)
	return append(b, p.data[1:]...)
}

func (p *part) fileName() []byte {
	name := p.uri[strings.LastIndexByte(p.uri, '/')+1:]
	if name == "" {
		name = "file"
	}
	return rawjson.AppendString(nil, name)
}

// openAI: a message of the role "tool" has text only ("ChatCompletionToolMessageParam" of
// OpenAI's SDKs); pictures, sound and PDFs can be in one of the user.
func (r *result) openAI(callID string) (message, followUp []byte) {
	var texts []string
	var user []byte
	for i := range r.parts {
		p := &r.parts[i]
		one := []byte(nil)
		switch {
		case p.mime == "":
			texts = append(texts, p.text)
			continue
		case p.picture():
			one = append(p.dataURL([]byte(`{"type":"image_url","image_url":{"url":`)), `}}`...)
		case p.sound() != "":
			one = append(append(append([]byte(`{"type":"input_audio","input_audio":{"data":`), p.data...), `,"format":"`...), p.sound()+`"}}`...)
		case p.document():
			one = append(append([]byte(`{"type":"file","file":{"filename":`), p.fileName()...), `,"file_data":`...)
			one = append(p.dataURL(one), `}}`...)
		default:
			texts = append(texts, p.sized())
			continue
		}
		texts = append(texts, "["+p.mime+": in the next message of the user]")
		user = append(append(user, one...), ',')
	}
	b := append([]byte(`{"role":"tool","tool_call_id":`), rawjson.AppendString(nil, callID)...)
	b = append(b, `,"content":`...)
	b = append(rawjson.AppendString(b, strings.Join(texts, "\n")), '}')
	if user != nil {
		followUp = append(append([]byte(`{"role":"user","content":[`), user[:len(user)-1]...), `]}`...)
	}
	return b, followUp
}

var (
	pictures = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}
	sounds   = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
)

const pdf = "application/pdf"

// responses: the output of a function call may hold text, pictures and files.
func (r *result) responses(callID string) []byte {
	b := append([]byte(`{"type":"function_call_output","call_id":`), rawjson.AppendString(nil, callID)...)
	b = append(b, `,"output":`...)
	if !r.hasFiles(func(p *part) bool { return p.picture() || p.document() }) {
		return append(rawjson.AppendString(b, r.text()), '}')
	}
	b = append(b, '[')
	for i := range r.parts {
		p := &r.parts[i]
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case p.picture():
			b = append(p.dataURL(append(b, `{"type":"input_image","image_url":`...)), '}')
		case p.document():
			b = append(append(append(b, `{"type":"input_file","filename":`...), p.fileName()...), `,"file_data":`...)
			b = append(p.dataURL(b), '}')
		default:
			b = append(rawjson.AppendString(append(b, `{"type":"input_text","text":`...), p.words()), '}')
		}
	}
	return append(b, `]}`...)
}

func (r *result) hasFiles(shown func(*part) bool) bool {
	for i := range r.parts {
		if shown(&r.parts[i]) {
			return true
		}
	}
	return false
}

// words is a part as text.
func (p *part) words() string {
	if p.mime == "" {
		return p.text
	}
	return p.sized()
}

func (r *result) text() string {
	var texts []string
	for i := range r.parts {
		texts = append(texts, r.parts[i].words())
	}
	return strings.Join(texts, "\n")
}

// anthropic: a tool_result block holds text, pictures and documents. An empty text is
// refused ("text content blocks must be non-empty"), which readPart has left out, and so is
// a failure with anything but text ("all content must be type `text` if `is_error` is true").
func (r *result) anthropic(callID string) []byte {
	b := append([]byte(`{"type":"tool_result","tool_use_id":`), rawjson.AppendString(nil, callID)...)
	b = append(b, `,"content":[`...)
	for i := range r.parts {
		p := &r.parts[i]
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case p.picture() && !r.failed:
			b = append(p.base64(append(b, `{"type":"image","source":`...)), '}')
		case p.document() && !r.failed:
			b = append(p.base64(append(b, `{"type":"document","source":`...)), '}')
		default:
			b = append(rawjson.AppendString(append(b, `{"type":"text","text":`...), p.words()), '}')
		}
	}
	b = append(b, ']')
	if r.failed {
		b = append(b, `,"is_error":true`...)
	}
	return append(b, '}')
}

func (p *part) base64(b []byte) []byte {
	b = append(b, `{"type":"base64","media_type":`...)
	b = append(rawjson.AppendString(b, p.mime), `,"data":`...)
	return append(append(b, p.data...), '}')
}

// gemini: "Use "output" key to specify function output and "error" key to specify error
// details" (FunctionResponse.response); files are parts of the response.
func (r *result) gemini(name, callID string) []byte {
	b := []byte(`{"functionResponse":{`)
	if callID != "" {
		b = append(rawjson.AppendString(append(b, `"id":`...), callID), ',')
	}
	b = append(rawjson.AppendString(append(b, `"name":`...), name), `,"response":{`...)
	key := `"output":`
	if r.failed {
		key = `"error":`
	}
	b = append(b, key...)
	var texts []string
	var files []byte
	for i := range r.parts {
		p := &r.parts[i]
		if !p.picture() && !p.document() {
			texts = append(texts, p.words())
			continue
		}
		if files != nil {
			files = append(files, ',')
		}
		files = append(rawjson.AppendString(append(files, `{"inlineData":{"mimeType":`...), p.mime), `,"data":`...)
		files = append(append(files, p.data...), `}}`...)
	}
	if r.structured != nil && !r.failed {
		b = append(b, r.structured...)
	} else {
		b = rawjson.AppendString(b, strings.Join(texts, "\n"))
	}
	b = append(b, '}')
	if files != nil {
		b = append(append(append(b, `,"parts":[`...), files...), ']')
	}
	return append(b, `}}`...)
}
