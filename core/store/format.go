package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/goccy/go-json"
)

// A cached list is a binary file, since JSON inside JSON is reformatted by
// encoders and would have to be parsed to be split:
//
//	"mcprt-tools 1\n"   format line
//	4 bytes             CRC-32C of all that follows, big endian
//	sections            uvarint length + bytes: head (JSON), server info,
//	                    discover result, then one section per tool
const (
	formatName    = "mcprt-tools "
	formatVersion = "1"
	formatLine    = formatName + formatVersion + "\n"
	// maxSections bounds what a forged file of empty sections could make us allocate.
	maxSections = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head holds the members of a ToolList that need no exact bytes.
type head struct {
	Key             string    `json:"key"`
	Instructions    string    `json:"instructions,omitempty"`
	ProtocolVersion string    `json:"protocolVersion"`
	Modern          bool      `json:"modern,omitempty"`
	FetchedAt       time.Time `json:"fetchedAt"`
	TTLMs           *int64    `json:"ttlMs,omitempty"`
	CacheScope      string    `json:"cacheScope"`
	Asked           time.Time `json:"asked"`
}

// encode gives the file of a list under a key. It refuses what is not JSON: such
// bytes would break the host's document when they come back.
func encode(key string, l *ToolList) ([]byte, error) {
	first, err := json.Marshal(head{key, l.Instructions, l.ProtocolVersion, l.Modern, l.FetchedAt, l.TTLMs, l.CacheScope, l.Asked})
	if err != nil {
		return nil, err
	}
	size := len(formatLine) + crc32.Size + len(first) + len(l.ServerInfo) + len(l.Discover) + 4*binary.MaxVarintLen64
	for _, tool := range l.Tools {
		size += binary.MaxVarintLen32 + len(tool)
	}
	if len(l.Tools) > maxSections-3 || size > maxFile {
		return nil, fmt.Errorf("a list of %d tools and %d bytes is too large to be kept", len(l.Tools), size)
	}
	for i, tool := range l.Tools {
		if !json.Valid(tool) {
			return nil, fmt.Errorf("tool %d of the list is not JSON", i)
		}
	}
	for _, raw := range []json.RawMessage{l.ServerInfo, l.Discover} {
		if len(raw) > 0 && !json.Valid(raw) {
			return nil, errors.New("the server info or the discover result of the list is not JSON")
		}
	}

	out := make([]byte, 0, size)
	out = append(out, formatLine...)
	out = append(out, make([]byte, crc32.Size)...)
	body := len(out)
	section := func(data []byte) {
		out = binary.AppendUvarint(out, uint64(len(data)))
		out = append(out, data...)
	}
	section(first)
	section(l.ServerInfo)
	section(l.Discover)
	for _, tool := range l.Tools {
		section(tool)
	}
	binary.BigEndian.PutUint32(out[body-crc32.Size:], crc32.Checksum(out[body:], castagnoli))
	return out, nil
}

// decode reads a file of encode. The list's raw parts alias data. A file that is
// no use gives a note.
func decode(key string, data []byte) (*ToolList, *Note) {
	rest, ok := bytes.CutPrefix(data, []byte(formatLine))
	if !ok {
		if line, _, _ := bytes.Cut(data[:min(len(data), 64)], []byte("\n")); strings.HasPrefix(string(line), formatName) {
			return nil, &Note{NoteFormat, "was written by another version of mcprt"}
		}
		return nil, &Note{NoteForeign, "is not a tool list of mcprt"}
	}
	damaged := &Note{NoteDamaged, "is damaged"}
	if len(rest) < crc32.Size || binary.BigEndian.Uint32(rest) != crc32.Checksum(rest[crc32.Size:], castagnoli) {
		return nil, damaged
	}
	sections, ok := split(rest[crc32.Size:])
	if !ok || len(sections) < 4 {
		return nil, damaged
	}
	var h head
	if err := json.Unmarshal(sections[0], &h); err != nil {
		return nil, damaged
	}
	if h.Key != key {
		return nil, &Note{NoteForeign, "holds the list of another server"}
	}
	return &ToolList{
		Tools: sections[3:], ServerInfo: none(sections[1]), Instructions: h.Instructions,
		Verdict:   Verdict{ProtocolVersion: h.ProtocolVersion, Modern: h.Modern, Discover: none(sections[2]), Asked: h.Asked},
		FetchedAt: h.FetchedAt, TTLMs: h.TTLMs, CacheScope: h.CacheScope,
	}, nil
}

// split cuts the sections apart; false when a length does not fit.
func split(data []byte) ([]json.RawMessage, bool) {
	var sections []json.RawMessage
	for len(data) > 0 {
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) || len(sections) == maxSections {
			return nil, false
		}
		end := n + int(size)
		// The capacity is cut too: an append to one tool must not write over the next.
		sections = append(sections, json.RawMessage(data[n:end:end]))
		data = data[end:]
	}
	return sections, true
}

// none gives an empty section as the nil that it was written from.
func none(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return raw
}
