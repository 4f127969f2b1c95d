package format

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// nameRule says which names a provider takes, of tools or of properties.
type nameRule struct {
	max   int
	other string // bytes beside letters, digits and "_"
	digit bool   // it may begin with a digit, or with one of other
}

func (r *nameRule) allows(name string) bool {
	if r == nil {
		return true
	}
	if name == "" || len(name) > r.max {
		return false
	}
	for i := range len(name) {
		if !r.allowsByte(name[i], i == 0) {
			return false
		}
	}
	return true
}

func (r *nameRule) allowsByte(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		return true
	case first && !r.digit:
		return false
	}
	return '0' <= c && c <= '9' || strings.IndexByte(r.other, c) >= 0
}

// rename gives a name that the provider takes and nobody else has: what can stay, and a
// digest of the whole. It depends on the name alone, unless somebody lined up the
// names that it tries.
func (r *nameRule) rename(name string, taken func(string) bool) string {
	var plain strings.Builder
	for i := 0; i < len(name) && plain.Len() < r.max; i++ {
		switch {
		case r.allowsByte(name[i], plain.Len() == 0):
			plain.WriteByte(name[i])
		case plain.Len() == 0 && r.allowsByte(name[i], false):
			plain.WriteByte('_')
			plain.WriteByte(name[i])
		case !strings.HasSuffix(plain.String(), "_"):
			plain.WriteByte('_')
		}
	}
	for try := 0; ; try++ {
		in := name
		if try > 0 {
			in += "\x00" + strconv.Itoa(try)
		}
		sum := sha256.Sum256([]byte(in))
		suffix := "_" + hex.EncodeToString(sum[:])[:8]
		base := plain.String()
		if new := base[:min(len(base), r.max-len(suffix))] + suffix; !taken(new) {
			return new
		}
	}
}

// Names gives the names that a provider needs for those of the tools that it would not
// take as they are: the provider's name of each, by ours. The others keep theirs.
func (p Provider) Names(names []string) map[string]string {
	rule := &rules[p].tool
	var wrong []string
	for _, name := range names {
		if !rule.allows(name) {
			wrong = append(wrong, name)
		}
	}
	if wrong == nil {
		return nil
	}
	taken := make(map[string]bool, len(names))
	for _, name := range names {
		taken[name] = true
	}
	out := make(map[string]string, len(wrong))
	for _, name := range wrong {
		out[name] = rule.rename(name, func(s string) bool { return taken[s] })
		taken[out[name]] = true
	}
	return out
}
