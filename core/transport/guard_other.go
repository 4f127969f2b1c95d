//go:build !unix && !windows

package transport

import "os"

// guard does nothing here: no shell can watch over a host.
var guard guardian

type guardian struct{}

func (guardian) enter() error          { return nil }
func (guardian) birth(*os.File) string { return "" }
func (guardian) born(string)           {}
func (guardian) add(int)               {}
func (guardian) leave(int)             {}
