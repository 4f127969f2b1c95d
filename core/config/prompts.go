package config

import (
	"bytes"
)

// maxPrompts bounds the inputs that one file describes.
const maxPrompts = 1000

// prompts gives each entry what the member "inputs" beside the servers says of
// the ${input:id} that it uses. Entries may use others, too.
func (f *fileParser) prompts(members []span, entries []*Entry) {
	s, ok := find(members, "inputs")
	if !ok || f.kind(s) != KindArray || len(entries) == 0 {
		return
	}
	list, err := f.node(s, nil)
	if err != nil {
		f.rep.syntax("", "inputs", err)
		return
	}
	for i, item := range list.Items {
		if i == maxPrompts {
			f.rep.add(SeverityError, "too_large", "", "inputs", item.Pos, "this file describes more than %d inputs; those from here on are ignored", maxPrompts)
			return
		}
		p := newPrompt(item)
		if p.ID == "" {
			f.rep.add(SeverityWarning, "wrong_type", "", indexed("inputs", i), item.Pos, "an input must be an object with an id; this one is ignored")
			continue
		}
		form := appendJSONString(nil, "${input:"+p.ID+"}")
		for _, e := range entries {
			if bytes.Contains(e.raw, form[1:len(form)-1]) {
				e.Prompts = append(e.Prompts, p)
			}
		}
	}
}

func newPrompt(n *Node) Prompt {
	text := func(name string) string { return clipTo(n.Get(name).string(), maxMessageBytes) }
	p := Prompt{ID: text("id"), Type: text("type"), Description: text("description"), Default: text("default")}
	if secret := n.Get("password"); secret != nil {
		p.Password = secret.Kind == KindBool && secret.Text == "true"
	}
	if options := n.Get("options"); options != nil {
		for _, o := range options.Items[:min(len(options.Items), maxPrompts)] {
			value := o.string() // or {label, value}
			if o.Kind == KindObject {
				value = o.Get("value").string()
			}
			p.Options = append(p.Options, clipTo(value, maxMessageBytes))
		}
	}
	return p
}
