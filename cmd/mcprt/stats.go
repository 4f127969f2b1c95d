package main

import (
	"fmt"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core"
)

// counted is what the command uses of mcprt/stats.
type counted struct {
	Result struct {
		Servers []struct {
			Name      string `json:"name"`
			State     string `json:"state"`
			Tools     int    `json:"tools"`
			Starts    int64  `json:"starts"`
			BytesIn   int64  `json:"bytesIn"`
			BytesOut  int64  `json:"bytesOut"`
			JunkLines int64  `json:"junkLines"`
			Repaired  int64  `json:"repaired"`
			TooLarge  int64  `json:"tooLarge"`
			Unmatched int64  `json:"unmatched"`
		} `json:"servers"`
		Trace *struct{} `json:"trace"` // nil: nothing is recorded
	} `json:"result"`
}

// stats asks what was counted; reply is the core's own text.
func (s *session) stats() (all counted, reply []byte, err error) {
	reply, err = s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/stats"})
	if err == nil {
		err = json.Unmarshal(reply, &all)
	}
	return all, reply, err
}

// listStats starts the servers, and shows what their starts cost and what was odd.
func listStats(s *session, server string) error {
	report, err := s.connect(s.ctx, server, true)
	if err != nil {
		return err
	}
	all, reply, err := s.stats()
	if s.raw(reply) || err != nil {
		return err
	}
	s.report(report)
	var rows [][]cell
	for _, v := range all.Result.Servers {
		if server != "" && v.Name != server {
			continue
		}
		state := cell{v.State, yellow}
		if v.State == "ready" {
			state.style = green
		}
		row := []cell{{v.Name, ""}, state}
		for _, n := range []int64{int64(v.Tools), v.Starts, v.BytesIn, v.BytesOut} {
			row = append(row, cell{fmt.Sprint(n), ""})
		}
		for _, n := range []int64{v.JunkLines, v.Repaired, v.TooLarge, v.Unmatched} {
			odd := cell{fmt.Sprint(n), faint}
			if n > 0 {
				odd.style = yellow
			}
			row = append(row, odd)
		}
		rows = append(rows, row)
	}
	for _, line := range s.stdout.layout([]string{"NAME", "STATE", "TOOLS", "STARTS", "BYTES IN", "BYTES OUT", "JUNK LINES", "REPAIRED", "TOO LARGE", "UNMATCHED"},
		[]int{2, 3, 4, 5, 6, 7, 8}, rows) {
		fmt.Fprintln(s.stdout, line)
	}
	return nil
}
