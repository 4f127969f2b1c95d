package trace

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

// redact gives the record as it may be written: everything in it that came from
// outside is masked first and cut then, so that no cut can hide a secret from the mask.
func (r *Recorder) redact(e *entry) *Record {
	c := r.clean.Load()
	rec := &e.Record
	for _, s := range []*string{&rec.Method, &rec.Tool, &rec.Detail, &rec.Target} {
		*s = clip(c.mask(*s), maxText)
	}
	if rec.Error != nil {
		masked := *rec.Error
		masked.Message = clip(c.mask(masked.Message), maxText)
		rec.Error = &masked
	}
	if len(rec.ID) > 0 {
		rec.ID = maskedID(rec.ID, c)
	}
	if len(e.payload) == 0 {
		return rec
	}
	text := c.mask(string(e.payload))
	limit := int(r.opts.PayloadBytes)
	switch {
	case e.cut: // the last bytes may be the first ones of a secret
		rec.PayloadText = clip(text, min(limit, max(len(text)-c.longest, 0)))
	case len(text) > limit:
		rec.PayloadText = clip(text, limit)
	case json.Valid([]byte(text)):
		rec.Payload = json.RawMessage(text)
	default: // a number was masked
		rec.PayloadText = text
	}
	return rec
}

const (
	maxText = 4 << 10 // of one text beside the payload
	maxID   = 256
)

func maskedID(id []byte, c *cleaner) json.RawMessage {
	text := c.mask(string(id))
	if len(text) > maxID || !json.Valid([]byte(text)) {
		return json.RawMessage(`"***"`)
	}
	return json.RawMessage(text)
}

// clip cuts text to n bytes, at a rune's border.
func clip(text string, n int) string {
	if len(text) > n {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
