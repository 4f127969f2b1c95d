//go:build !mcprt_scripted

package main

import "github.com/mcprt/mcprt/core"

func openManager(options []byte, h core.Host) (manager, error) {
	m, err := core.Open(options, h)
	if err != nil {
		return nil, err
	}
	return m, nil
}
