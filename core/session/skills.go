package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-json"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/rawjson"
)

// The extension io.modelcontextprotocol/skills (SEP-2640): a server lists skills with the
// digest and size of each of their files, and what resources/read gives of such a file
// must not be used unless it is that. Nothing is read that the host did not ask for.
const (
	skillsExtension = "io.modelcontextprotocol/skills"
	maxSkillFiles   = 20_000
	maxFrontmatter  = 64 << 10
)

// skillFile is what a server listed of one file of a skill.
type skillFile struct {
	Digest      string          `json:"digest"`
	Size        *int64          `json:"size"`
	frontmatter json.RawMessage // of a SKILL.md
}

// watchSkills learns from lists of skills, and checks the files that are read.
func (s *Session) watchSkills(p *pending, result []byte) *fault.Error {
	switch p.call.Method {
	case "skills/list", "skills/get":
		if rawjson.Get(rawjson.Get(s.Info().Capabilities, "extensions"), skillsExtension) != nil {
			s.learnSkills(result)
		}
	case "resources/read":
		s.mu.Lock()
		known := len(s.skills) > 0
		s.mu.Unlock()
		if known {
			return s.checkSkillFile(p, result)
		}
	}
	return nil
}

type skill struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   []struct {
		URI string `json:"uri"`
		skillFile
	} `json:"resources"`
}

func (s *Session) learnSkills(result []byte) {
	var list struct {
		Skills []skill `json:"skills"`
		Skill  *skill  `json:"skill"`
	}
	if json.Unmarshal(result, &list) != nil {
		return // the host sees what it is
	}
	if list.Skill != nil {
		list.Skills = append(list.Skills, *list.Skill)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skills == nil {
		s.skills = map[string]skillFile{}
	}
	for _, skill := range list.Skills {
		for _, file := range skill.Resources {
			if _, known := s.skills[file.URI]; !known && len(s.skills) >= maxSkillFiles {
				continue
			}
			f := file.skillFile
			if file.URI == skill.URI {
				f.frontmatter = skill.Frontmatter
			}
			s.skills[file.URI] = f
		}
	}
}

// checkSkillFile compares what was read with what was listed.
func (s *Session) checkSkillFile(p *pending, result []byte) *fault.Error {
	uri, _ := rawjson.String(rawjson.Get(p.call.Params, "uri"))
	s.mu.Lock()
	listed, known := s.skills[uri]
	s.mu.Unlock()
	if !known {
		return nil
	}
	if err := listed.check(uri, result); err != nil {
		return s.errorf(fault.Protocol, fault.StageProtocol,
			"server %q answered resources/read of %q with what is not the file of a skill that it listed: %v. It is not handed out; list the skills anew, or do not use this one",
			s.cfg.Server, clip(uri, 200), err)
	}
	return nil
}

func (f *skillFile) check(uri string, result []byte) error {
	var read struct {
		Contents []struct {
			URI  string  `json:"uri"`
			Text *string `json:"text"`
			Blob *string `json:"blob"`
		} `json:"contents"`
	}
	if json.Unmarshal(result, &read) != nil || len(read.Contents) != 1 || read.Contents[0].URI != uri {
		return errors.New("it is not one content with that URI")
	}
	var content []byte
	switch c := read.Contents[0]; {
	case c.Text != nil:
		content = []byte(*c.Text)
	case c.Blob != nil:
		var err error
		if content, err = base64.StdEncoding.DecodeString(*c.Blob); err != nil {
			return errors.New("its blob is not base64")
		}
	}
	if f.Size == nil || int64(len(content)) != *f.Size {
		return errors.New("its size differs")
	}
	digest, ok := strings.CutPrefix(f.Digest, "sha256:")
	if !ok {
		return fmt.Errorf("its digest %q is of no known kind", clip(f.Digest, 20))
	}
	sum := sha256.Sum256(content)
	if !strings.EqualFold(digest, hex.EncodeToString(sum[:])) {
		return errors.New("its digest differs")
	}
	if f.frontmatter == nil {
		return nil
	}
	return sameFrontmatter(f.frontmatter, content)
}

// sameFrontmatter compares the YAML at the head of a SKILL.md with the listed members.
func sameFrontmatter(listed json.RawMessage, content []byte) error {
	head, ok := bytes.CutPrefix(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), []byte("---\n"))
	end := bytes.Index(append([]byte{'\n'}, head...), []byte("\n---"))
	if !ok || end < 0 {
		return errors.New("it has no frontmatter")
	}
	if head = head[:end]; len(head) > maxFrontmatter {
		return fmt.Errorf("its frontmatter is longer than %d bytes", maxFrontmatter)
	}
	file, err := parser.ParseBytes(head, 0)
	if err != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return errors.New("its frontmatter is not YAML")
	}
	aliases := 0
	ast.Walk(visitor(func(n ast.Node) {
		if n.Type() == ast.AliasType { // each may stand for all before it
			aliases++
		}
	}), file.Docs[0].Body)
	var want, got map[string]any
	if aliases > 0 || yaml.NodeToValue(file.Docs[0].Body, &got) != nil || json.Unmarshal(listed, &want) != nil {
		return errors.New("its frontmatter cannot be compared")
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		return errors.New("its frontmatter differs")
	}
	return nil
}

type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}
