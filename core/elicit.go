package core

import (
	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/rawjson"
)

// withDefaults fills an accepted form with the defaults of its schema, for fields that
// the host left out (SEP-1034): a server may count on them, and no host should have to
// know the schema's language for that. Whatever is not such an answer is left as it is.
func withDefaults(params, result []byte) []byte {
	var asked struct {
		Mode   string `json:"mode"`
		Schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"requestedSchema"`
	}
	action, _ := rawjson.String(rawjson.Get(result, "action"))
	if action != "accept" || json.Unmarshal(params, &asked) != nil || asked.Mode != "" && asked.Mode != "form" {
		return result
	}
	members := map[string]json.RawMessage{}
	content := map[string]json.RawMessage{}
	if json.Unmarshal(result, &members) != nil {
		return result
	}
	if given := members["content"]; given != nil && (json.Unmarshal(given, &content) != nil || content == nil) {
		return result
	}
	filled := false
	for name, property := range asked.Schema.Properties {
		if _, given := content[name]; given {
			continue
		}
		if value := rawjson.Get(property, "default"); value != nil {
			content[name], filled = value, true
		}
	}
	if !filled {
		return result
	}
	members["content"] = encode(content)
	return encode(members)
}
