// Command capi is the shared library: built with -buildmode=c-shared it exports
// the functions of include/mcprt.h and nothing else.
//
// It is the only package of the project with cgo, and has no policy. The header's
// functions are plain C (api.c and beside it): they check arguments, keep the
// handles and both queues, and so answer a host without entering Go. Go enters
// the picture in export.go (two functions that C calls) and in host.go (the
// manager of core behind one handle).
package main

import (
	"io"
	"log"
)

// The library's Go runtime is its own, and so is its standard logger, by which net/http
// reports what some servers do (an answer that nobody asked for, a broken HTTP/2 frame), in
// their own words. Its default is the host's stderr.
func init() { log.SetOutput(io.Discard) }

func main() {}
